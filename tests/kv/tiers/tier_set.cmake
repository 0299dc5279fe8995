quire_test(tier_set_test
  SOURCES
    tier_set_random_test.cc
    tier_set_read_test.cc
    tier_set_speed_test.cc
    tier_set_write_test.cc
    tier_speed_test.cc
    ${PROJECT_SOURCE_DIR}/tests/support/memory_tier.cc
    ${PROJECT_SOURCE_DIR}/tests/support/throttled_tier.cc
  LIBS quire_tiers
  LABELS tsan-short)
