# Sources of one folder that are compiled together, up to SIZE at a time: headers and templates that they
# share are compiled once. Names in their anonymous namespaces must differ within a folder.
option(INFER_UNITY "Compile several sources of a folder together" ON)

# infer_compile_together(TARGET SIZE FOLDER...)
function(infer_compile_together target size)
  if(NOT INFER_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The first is about sources that include sources; the others are wrong about sums of strings that are
    # inlined (GCC bugs 105651 and 105329).
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-restrict -Wno-stringop-overflow
                                             -Wno-array-bounds)
  endif()
  foreach(folder IN LISTS ARGN)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
    set(number 0)
    foreach(source IN LISTS sources)
      math(EXPR group "${number} / ${size}")
      string(REPLACE "/" "_" name ${folder}_${group})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
endfunction()
