# Sets QUIRE_OPENAPI_SOURCE: a source file that holds the text of docs/openapi.json.
set(openapi_file ${PROJECT_SOURCE_DIR}/docs/openapi.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${openapi_file})
file(READ ${openapi_file} QUIRE_OPENAPI_JSON)
set(QUIRE_OPENAPI_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/openapi_json.cc)
configure_file(${CMAKE_CURRENT_LIST_DIR}/openapi_json.cc.in ${QUIRE_OPENAPI_SOURCE} @ONLY)
