# Makes QUIRE_PAGE_SOURCE: a source file that holds the page, joined by join.cmake whenever one of its
# parts changes.
set(page_folder ${CMAKE_CURRENT_LIST_DIR})
set(QUIRE_PAGE_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/page_source.cc)
# Debian's libjs-chart.js, or what upstream's archive has.
find_file(QUIRE_CHART_JS NAMES chart.min.js chart.umd.js
  PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist
  DOC "Chart.js in one file that makes the global Chart")
if(NOT QUIRE_CHART_JS)
  message(FATAL_ERROR "Chart.js is missing: apt-get install libjs-chart.js, or set QUIRE_CHART_JS")
endif()
file(GLOB page_parts CONFIGURE_DEPENDS ${page_folder}/*.html ${page_folder}/*.css ${page_folder}/*.js)
add_custom_command(
  OUTPUT ${QUIRE_PAGE_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${page_folder} -DCHART=${QUIRE_CHART_JS}
          -DOUTPUT=${QUIRE_PAGE_SOURCE} -P ${page_folder}/join.cmake
  DEPENDS ${page_parts} ${QUIRE_CHART_JS} ${page_folder}/join.cmake
  COMMENT "Joining the page"
  VERBATIM)
