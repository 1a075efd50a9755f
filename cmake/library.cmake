# The library in its two forms, static and shared, from the one set of objects.

# infer_add_library(<target> STATIC|SHARED): libinfer from infer_objects. What the objects link is
# linked here for the build alone; cmake/install.cmake says what an installed copy needs.
function(infer_add_library target kind)
  add_library(${target} ${kind} $<TARGET_OBJECTS:infer_objects>)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME infer LINKER_LANGUAGE CXX
                        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/engine/include>
    $<BUILD_INTERFACE:${EXPECTED_INCLUDE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  get_target_property(libraries infer_objects LINK_LIBRARIES)
  foreach(library IN LISTS libraries)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${library}>)
  endforeach()
endfunction()

# Hidden visibility leaves out our own symbols, but not instances of the standard library's templates
# nor what comes out of static archives: a version script names all that may be seen.
function(infer_export_only_api target)
  set(script ${CMAKE_SOURCE_DIR}/cmake/exports.map)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    target_link_options(${target} PRIVATE LINKER:--version-script=${script})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/shared_stderr.c)
    target_link_options(${target} PRIVATE LINKER:--wrap=stderr)
    if(NOT INFER_SANITIZE)
      target_link_options(${target} PRIVATE LINKER:--no-undefined)
    endif()
  endif()
endfunction()
