# The Vulkan back end: built where the headers, volk and glslc are found. The loader is opened at run
# time; nothing is linked. Shaders are compiled here and embedded:
#   ops/<op>.comp            → shader "<op>"
#   weights/<name>.comp      → shader "<name>_<type>" for every quant/<type>.glsl
#   quant/<type>.glsl with levels (glsl/from_levels.glsl) → also "product_int_<type>", "tile_int_<type>"
#   weights/matrix.comp      → shader "matrix_<shape>_<type>" for every type and shape of cooperative
#                              matrices (instance.cpp: kShapes)
#   weights/matrix_rate.comp → shader "matrix_rate_<shape>"
#   ops/matrix_<op>.comp     → shader "matrix_<op>_<shape>"
#   ops/<op>.cpp             → const VulkanOp& <op>_vulkan()

option(INFER_VULKAN "Build the Vulkan back end where its tools are found" ON)
find_program(GLSLC glslc)
find_path(VULKAN_INCLUDE_DIR vulkan/vulkan_core.h)
find_path(VOLK_INCLUDE_DIR volk.h)
set(vulkan_AVAILABLE FALSE)
if(NOT INFER_VULKAN)
  set(vulkan_WHY "INFER_VULKAN is off")
elseif(NOT GLSLC)
  set(vulkan_WHY "glslc is missing (Debian: glslc)")
elseif(NOT VULKAN_INCLUDE_DIR)
  set(vulkan_WHY "the headers of Vulkan are missing (Debian: libvulkan-dev)")
elseif(NOT VOLK_INCLUDE_DIR)
  set(vulkan_WHY "volk is missing (Debian: libvulkan-volk-dev)")
else()
  set(vulkan_AVAILABLE TRUE)
  set(vulkan_WHY "shaders by ${GLSLC}")
endif()

# How glsl/matrix.glsl names the component types of matrices: HALF and FLOAT are set to the types where
# the compiler takes them as operands of a type, else to the numbers that they get in a module, as
# what it made of a small shader shows; to nothing where neither works.
function(_infer_vulkan_matrix_types half float)
  set(probe ${INFER_GENERATED}/vulkan/matrix_types.comp)
  infer_write_if_changed(${probe}
"#version 460
#define MATRIX_M 16
#define MATRIX_N 16
#define MATRIX_K 16
#include \"backends/vulkan/glsl/matrix.glsl\"
layout(local_size_x = 32) in;
shared uvec4 staged[64];
void main() { store_sum(staged[0], filled(float(to_half(2.0))), kRowMajor, 4, MAKE_AVAILABLE, kWorkgroupScope); }
")
  foreach(types "float16_t;float" "8;6")
    list(GET types 0 half_type)
    list(GET types 1 float_type)
    execute_process(
      COMMAND ${GLSLC} --target-env=vulkan1.2 -fshader-stage=compute -mfmt=num -I ${CMAKE_SOURCE_DIR}
              -DHALF_TYPE=${half_type} -DFLOAT_TYPE=${float_type} -o - ${probe}
      RESULT_VARIABLE failed OUTPUT_VARIABLE words ERROR_QUIET)
    # OpTypeFloat of 16 and 32 bits as words 8 and 6, where numbers stand for them.
    string(REGEX REPLACE "[ \n]" "" words "${words}")
    if(NOT failed AND (half_type STREQUAL "float16_t" OR
       (words MATCHES "0x00030016,0x00000008,0x00000010" AND
        words MATCHES "0x00030016,0x00000006,0x00000020")))
      set(${half} ${half_type} PARENT_SCOPE)
      set(${float} ${float_type} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${half} "" PARENT_SCOPE)
endfunction()

# Compiles a shader to <name>.spv. Further arguments: options instead of -O.
function(_infer_vulkan_shader name source)
  set(out ${INFER_GENERATED}/vulkan/${name}.spv)
  set(options -O)
  if(ARGN)
    set(options ${ARGN})
  endif()
  add_custom_command(OUTPUT ${out}
    COMMAND ${GLSLC} ${options} --target-env=vulkan1.2 -fshader-stage=compute -Werror
            -I ${CMAKE_SOURCE_DIR} -MD -MF ${out}.d -MT ${out} -o ${out} ${source}
    DEPENDS ${source} DEPFILE ${out}.d VERBATIM COMMENT "Shader ${name}")
endfunction()

function(infer_add_vulkan target)
  set(dir ${CMAKE_SOURCE_DIR}/backends/vulkan)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp ${dir}/ops/*.cpp)
  file(GLOB ops CONFIGURE_DEPENDS ${dir}/ops/*.cpp)
  file(GLOB plain CONFIGURE_DEPENDS ${dir}/ops/*.comp)
  file(GLOB weighted CONFIGURE_DEPENDS ${dir}/weights/*.comp)
  file(GLOB shaped_ops CONFIGURE_DEPENDS ${dir}/ops/matrix_*.comp)
  list(FILTER plain EXCLUDE REGEX "/matrix_[^/]*$")
  list(FILTER weighted EXCLUDE REGEX "/matrix[^/]*$")
  file(GLOB types CONFIGURE_DEPENDS ${dir}/quant/*.glsl)

  set(names "")
  foreach(path IN LISTS plain)
    get_filename_component(name ${path} NAME_WE)
    _infer_vulkan_shader(${name} ${path})
    list(APPEND names ${name})
  endforeach()
  foreach(path IN LISTS weighted)
    get_filename_component(base ${path} NAME_WE)
    foreach(type_path IN LISTS types)
      get_filename_component(type ${type_path} NAME_WE)
      set(name ${base}_${type})
      set(unit ${INFER_GENERATED}/vulkan/${name}.comp)
      infer_write_if_changed(${unit}
"#version 460
#include \"backends/vulkan/glsl/weights.glsl\"
#include \"backends/vulkan/quant/${type}.glsl\"
#include \"backends/vulkan/weights/${base}.comp\"
")
      _infer_vulkan_shader(${name} ${unit})
      list(APPEND names ${name})
    endforeach()
  endforeach()

  # Products of integers, of the types that have levels.
  foreach(type_path IN LISTS types)
    file(STRINGS ${type_path} levels REGEX "^void levels\\(")
    if(NOT levels)
      continue()
    endif()
    get_filename_component(type ${type_path} NAME_WE)
    foreach(base product tile)
      set(name ${base}_int_${type})
      set(unit ${INFER_GENERATED}/vulkan/${name}.comp)
      infer_write_if_changed(${unit}
"#version 460
#define INTEGER
#include \"backends/vulkan/glsl/weights.glsl\"
#include \"backends/vulkan/quant/${type}.glsl\"
#include \"backends/vulkan/weights/${base}.comp\"
")
      _infer_vulkan_shader(${name} ${unit})
      list(APPEND names ${name})
    endforeach()
  endforeach()

  # What uses cooperative matrices. Not -O: the optimiser does not know what they are.
  _infer_vulkan_matrix_types(half float)
  if(NOT half)
    message(STATUS "Vulkan: without cooperative matrices, ${GLSLC} cannot express them")
  else()
    foreach(shape 16x16x16 8x16x16 8x8x8)
      string(REPLACE "x" ";" sizes ${shape})
      list(GET sizes 0 m)
      list(GET sizes 1 n)
      list(GET sizes 2 k)
      set(begin
"#version 460
#define MATRIX_M ${m}
#define MATRIX_N ${n}
#define MATRIX_K ${k}
#include \"backends/vulkan/glsl/matrix.glsl\"
")
      set(shaped matrix_rate_${shape})
      infer_write_if_changed(${INFER_GENERATED}/vulkan/matrix_rate_${shape}.comp
"${begin}#include \"backends/vulkan/weights/matrix_rate.comp\"
")
      foreach(path IN LISTS shaped_ops)
        get_filename_component(name ${path} NAME_WE)
        list(APPEND shaped ${name}_${shape})
        infer_write_if_changed(${INFER_GENERATED}/vulkan/${name}_${shape}.comp
"${begin}#include \"backends/vulkan/ops/${name}.comp\"
")
      endforeach()
      foreach(type_path IN LISTS types)
        get_filename_component(type ${type_path} NAME_WE)
        list(APPEND shaped matrix_${shape}_${type})
        infer_write_if_changed(${INFER_GENERATED}/vulkan/matrix_${shape}_${type}.comp
"${begin}#include \"backends/vulkan/glsl/weights.glsl\"
#include \"backends/vulkan/quant/${type}.glsl\"
#include \"backends/vulkan/weights/matrix.comp\"
")
      endforeach()
      foreach(name IN LISTS shaped)
        _infer_vulkan_shader(${name} ${INFER_GENERATED}/vulkan/${name}.comp
                             -DHALF_TYPE=${half} -DFLOAT_TYPE=${float})
      endforeach()
      list(APPEND names ${shaped})
    endforeach()
  endif()

  # The assembler takes the files as they are, which a compiler would take seconds for.
  set(symbols "")
  set(entries "")
  set(embedded "")
  foreach(name IN LISTS names)
    set(file ${INFER_GENERATED}/vulkan/${name}.spv)
    string(APPEND symbols "SHADER(${name}, \"${file}\")\n")
    string(APPEND entries "      {\"${name}\", {infer_shader_${name}, infer_shader_${name}_end}},\n")
    list(APPEND embedded ${file})
  endforeach()
  infer_write_if_changed(${INFER_GENERATED}/vulkan_shaders.cpp
"// Generated from the shaders in backends/vulkan; see backends/vulkan/backend.cmake.
#include \"backends/vulkan/pipelines.h\"

#define SHADER(name, file)                                         \\
  asm(\".section .rodata.shaders, \\\"a\\\"\\n\"                         \\
      \".balign 4\\n\"                                               \\
      \"infer_shader_\" #name \":\\n\"                                 \\
      \".incbin \\\"\" file \"\\\"\\n\"                                 \\
      \"infer_shader_\" #name \"_end:\\n\"                             \\
      \".previous\\n\");                                             \\
  extern \"C\" const uint32_t infer_shader_##name[], infer_shader_##name##_end[];

${symbols}
namespace infer::vulkan {

std::span<const Shader> all_shaders() {
  static const Shader table[] = {
${entries}  };
  return table;
}

}  // namespace infer::vulkan
")
  set_source_files_properties(${INFER_GENERATED}/vulkan_shaders.cpp PROPERTIES
    OBJECT_DEPENDS "${embedded}" SKIP_PRECOMPILE_HEADERS ON)

  set(declarations "")
  set(op_entries "")
  foreach(path IN LISTS ops)
    get_filename_component(op ${path} NAME_WE)
    string(APPEND declarations "const VulkanOp& ${op}_vulkan();\n")
    string(APPEND op_entries "      &${op}_vulkan(),\n")
  endforeach()
  infer_write_if_changed(${INFER_GENERATED}/vulkan_ops.cpp
"// Generated from the files in backends/vulkan/ops; see backends/vulkan/backend.cmake.
#include \"backends/vulkan/op.h\"

namespace infer::vulkan {

${declarations}
std::span<const VulkanOp* const> all_vulkan_ops() {
  static const VulkanOp* const table[] = {
${op_entries}  };
  return table;
}

}  // namespace infer::vulkan
")
  target_sources(${target} PRIVATE ${sources} ${INFER_GENERATED}/vulkan_shaders.cpp
                                   ${INFER_GENERATED}/vulkan_ops.cpp)
  target_include_directories(${target} PRIVATE ${VULKAN_INCLUDE_DIR} ${VOLK_INCLUDE_DIR})
endfunction()
