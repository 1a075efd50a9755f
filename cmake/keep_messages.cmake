# Runs a command and keeps what it says in a file, instead of showing it. If the command fails, it is
# shown as well.
#   cmake -DFILE=… -P keep_messages.cmake -- COMMAND …
set(command "")
set(found FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(found)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(found TRUE)
  endif()
endforeach()
execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
file(WRITE ${FILE} "${said}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${said}")
endif()
