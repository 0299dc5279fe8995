quire_test(disk_tier_test
  SOURCES
    disk/disk_cap_test.cc
    disk/disk_catalogue_test.cc
    disk/disk_damage_test.cc
    disk/disk_failure_test.cc
    disk/disk_kill_test.cc
    disk/disk_tier_test.cc
    disk/eviction_order_test.cc
    disk/index_format_test.cc
    disk/slot_store_test.cc
    disk/slot_supply_test.cc
    disk/slot_table_test.cc
    disk/write_rest_test.cc
  LIBS quire_disk_tier)

quire_test(disk_random_test
  SOURCES disk/disk_random_test.cc
  LIBS quire_disk_tier
  LABELS tsan-short)
