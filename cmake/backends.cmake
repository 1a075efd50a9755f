# Finds the back ends: every folder in backends/ whose CMake part says that it can be built here.
# backends/<name>/backend.cmake sets <name>_AVAILABLE and <name>_WHY, and defines
# infer_add_<name>(target), which adds sources and generated tables to the library.

set(INFER_BACKENDS "")
file(GLOB _infer_backend_files CONFIGURE_DEPENDS backends/*/backend.cmake)
foreach(_file IN LISTS _infer_backend_files)
  get_filename_component(_dir ${_file} DIRECTORY)
  get_filename_component(_name ${_dir} NAME)
  include(${_file})
  if(${_name}_AVAILABLE)
    list(APPEND INFER_BACKENDS ${_name})
    message(STATUS "Back end ${_name}: ${${_name}_WHY}")
  else()
    message(STATUS "Back end ${_name}: left out, ${${_name}_WHY}")
  endif()
endforeach()

function(infer_add_backends target)
  foreach(name IN LISTS INFER_BACKENDS)
    cmake_language(CALL infer_add_${name} ${target})
  endforeach()
  # What back ends for GPUs share; no back end of its own.
  if(INFER_BACKENDS MATCHES "vulkan|cuda")
    file(GLOB shared CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backends/gpu/*.cpp)
    target_sources(${target} PRIVATE ${shared})
  endif()
endfunction()
