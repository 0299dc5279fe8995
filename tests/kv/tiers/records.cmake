quire_test(records_test
  SOURCES
    key_ring_test.cc
    record_codec_test.cc
    record_fault_test.cc
    record_file_test.cc
  LIBS quire_records OpenSSL::Crypto)
quire_run_test(record_reader_test
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/read_record.py --test
  TIMEOUT 60)
