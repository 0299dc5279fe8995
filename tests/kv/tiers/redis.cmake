quire_test(redis_protocol_test
  SOURCES
    redis/circuit_breaker_test.cc
    redis/held_names_test.cc
    redis/redis_url_test.cc
    redis/resp_connection_test.cc
    redis/resp_reader_test.cc
    ${PROJECT_SOURCE_DIR}/tests/support/redis_server.cc
  LIBS quire_redis_tier
  LABELS tsan-short)
quire_test(redis_tier_test
  SOURCES
    redis/redis_damage_test.cc
    redis/redis_outage_test.cc
    redis/redis_tier_test.cc
    ${PROJECT_SOURCE_DIR}/tests/support/redis_server.cc
  LIBS quire_redis_tier
  LABELS tsan-short)
quire_run_test(valkey_tier_test
  COMMAND ${PROJECT_SOURCE_DIR}/.venv/bin/python ${CMAKE_CURRENT_SOURCE_DIR}/redis/on_valkey.py
          $<TARGET_FILE:redis_tier_test>
  NEEDS redis_tier_test LABELS slow TIMEOUT 300)
set_tests_properties(valkey_tier_test PROPERTIES SKIP_RETURN_CODE 77)
