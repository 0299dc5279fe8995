# cmake -DFOLDER=... -DCHART=chart.min.js -DOUTPUT=page_source.cc -P join.cmake
#
# Puts the parts that index.html names into it, and the whole into a string of C++:
#   <!-- css: NAME.css -->   <style>the file</style>
#   <!-- js: NAME.js -->     <script>the file</script>
#   <!-- js: chart -->       <script>Chart.js</script>
file(READ ${FOLDER}/index.html page)
string(REGEX MATCHALL "<!-- (css|js): [A-Za-z0-9_.-]+ -->" places "${page}")
foreach(place IN LISTS places)
  string(REGEX REPLACE "<!-- (css|js): ([A-Za-z0-9_.-]+) -->" "\\1" kind "${place}")
  string(REGEX REPLACE "<!-- (css|js): ([A-Za-z0-9_.-]+) -->" "\\2" name "${place}")
  if(name STREQUAL "chart")
    set(path ${CHART})
  else()
    set(path ${FOLDER}/${name})
  endif()
  if(NOT EXISTS ${path})
    message(FATAL_ERROR "index.html names ${name}, which is not in ${FOLDER}")
  endif()
  file(READ ${path} text)
  string(FIND "${text}" "</script" closing)
  if(NOT closing EQUAL -1)
    message(FATAL_ERROR "${path} holds </script, which would end the script in the page")
  endif()
  if(kind STREQUAL "css")
    set(joined "<style>\n${text}</style>")
  else()
    set(joined "<script>\n${text}</script>")
  endif()
  string(REPLACE "${place}" "${joined}" page "${page}")
endforeach()
string(FIND "${page}" ")page\"" delimiter)
if(NOT delimiter EQUAL -1)
  message(FATAL_ERROR "the page holds )page\", which would end the string")
endif()
file(WRITE ${OUTPUT}
  "#include \"server/page/page_source.h\"\n\nnamespace quire {\n\n"
  "const std::string_view kPageSource = R\"page(${page})page\";\n\n}  // namespace quire\n")
