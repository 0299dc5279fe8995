# Sets QUIRE_CATALOGUE_SOURCE: a source file that holds the text of scripts/models.json.
set(catalogue_file ${PROJECT_SOURCE_DIR}/scripts/models.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${catalogue_file})
file(READ ${catalogue_file} QUIRE_CATALOGUE_JSON)
set(QUIRE_CATALOGUE_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/catalogue_json.cc)
configure_file(${CMAKE_CURRENT_LIST_DIR}/catalogue_json.cc.in ${QUIRE_CATALOGUE_SOURCE} @ONLY)
