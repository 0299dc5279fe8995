# Hours of use over the disk tier, without a model.
set(fast_motion_sources
  fast_motion/fast_motion.cc
  fast_motion/lru_oracle.cc
  fast_motion/tiered_cache.cc
  fast_motion/trace.cc)

quire_test(fast_motion_test
  SOURCES fast_motion/fast_motion_test.cc ${fast_motion_sources}
  LIBS quire_disk_tier quire_tiers quire_records quire_kv)
quire_test(fast_motion_hours_test
  SOURCES fast_motion/fast_motion_hours_test.cc ${fast_motion_sources}
  LIBS quire_disk_tier quire_tiers quire_records quire_kv
  LABELS slow)
