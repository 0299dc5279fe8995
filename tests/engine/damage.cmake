# Random faults of real stores under engines.
quire_test(engine_tier_damage_test
  SOURCES
    tier_damage_disk.cc
    tier_damage_places.cc
    tier_damage_remote.cc
    tier_damage_store.cc
    tier_damage_tally.cc
    tier_damage_test.cc
    ${PROJECT_SOURCE_DIR}/tests/support/redis_server.cc
  LIBS quire_engine quire_disk_tier quire_redis_tier
  LABELS optimised)
quire_run_test(engine_tier_damage_full_test
  COMMAND engine_tier_damage_test
  NEEDS engine_tier_damage_test LABELS slow TIMEOUT 3600)
set_tests_properties(engine_tier_damage_full_test PROPERTIES ENVIRONMENT QUIRE_DAMAGE_FAULTS=10000)
