# The CUDA back end: built where nvcc is found. The driver is opened at run time; nothing is linked.
# Kernels are compiled here, a module each, and embedded:
#   *.cu, ops/*.cu     → module <name>
#   weights/<base>.cu  → module <base>_<type> for every quant/<type>.h that has a line
#                        "// kernels: <base> …"; the unit defines INFER_TYPE and includes both
# A kernel is in the module whose name its own begins with; of several, in that with the longest.
#   ops/<op>.cpp, where <op> is in engine/graph/ops.def → const CudaOp& <op>_cuda()

option(INFER_CUDA "Build the CUDA back end where nvcc is found" ON)
set(INFER_CUDA_ARCHITECTURES "sm_80;sm_86;sm_89;sm_90a;sm_120;compute_75;compute_90" CACHE STRING
    "What kernels are compiled for: sm_<n> is machine code, compute_<n> is PTX for later GPUs")
# tools/setup.sh --cuda puts the compiler there.
set(_infer_cuda_own ${CMAKE_SOURCE_DIR}/build/cuda/nvidia/cu13)
find_program(NVCC nvcc HINTS /usr/local/cuda/bin ${_infer_cuda_own}/bin)
set(cuda_AVAILABLE FALSE)
if(NOT INFER_CUDA)
  set(cuda_WHY "INFER_CUDA is off")
elseif(NOT NVCC)
  set(cuda_WHY "nvcc is missing (tools/setup.sh --cuda)")
else()
  get_filename_component(_infer_cuda_bin ${NVCC} REALPATH)
  get_filename_component(_infer_cuda_bin ${_infer_cuda_bin} DIRECTORY)
  find_path(CUDA_INCLUDE_DIR cuda.h HINTS ${_infer_cuda_bin}/../include
            ${_infer_cuda_bin}/../targets/x86_64-linux/include)
  execute_process(COMMAND ${NVCC} --version OUTPUT_VARIABLE _infer_nvcc_says)
  string(REGEX MATCH "release ([0-9]+)" _infer_nvcc_release "${_infer_nvcc_says}")
  if(NOT CUDA_INCLUDE_DIR)
    set(cuda_WHY "cuda.h is missing beside ${NVCC}")
  elseif(NOT _infer_nvcc_release OR CMAKE_MATCH_1 LESS 13)
    set(cuda_WHY "${NVCC} is older than CUDA 13 (tools/setup.sh --cuda gets a newer one, then -DNVCC=)")
  else()
    set(cuda_AVAILABLE TRUE)
    string(REPLACE ";" ", " _infer_cuda_text "${INFER_CUDA_ARCHITECTURES}")
    set(cuda_WHY "kernels by ${NVCC} for ${_infer_cuda_text}")
  endif()
endif()

# nvcc's options for the architectures: the last PTX asked for is what later GPUs run.
function(_infer_cuda_options out)
  set(options "")
  foreach(arch IN LISTS INFER_CUDA_ARCHITECTURES)
    if(arch MATCHES "^sm_([0-9]+[af]?)$")
      list(APPEND options -gencode=arch=compute_${CMAKE_MATCH_1},code=${arch})
    elseif(arch MATCHES "^compute_[0-9]+$")
      list(APPEND options -gencode=arch=${arch},code=${arch})
    else()
      message(FATAL_ERROR "INFER_CUDA_ARCHITECTURES: '${arch}' is neither sm_<n> nor compute_<n>")
    endif()
  endforeach()
  # Machine code without the kernels that are not chosen on a GPU (weights/decoded_tile.cu). PTX for
  # such a GPU may run on one that chooses them.
  if(NOT INFER_CUDA_ARCHITECTURES MATCHES "compute_(86|89|120)")
    list(APPEND options -DINFER_CUDA_CHOSEN)
  endif()
  set(${out} "${options}" PARENT_SCOPE)
endfunction()

# The units of kernels: INFER_CUDA_MODULES, and for each INFER_CUDA_SOURCE_<module>. The tests compile
# them for the host as well.
function(infer_cuda_units)
  set(dir ${CMAKE_SOURCE_DIR}/backends/cuda)
  file(GLOB plain CONFIGURE_DEPENDS ${dir}/*.cu ${dir}/ops/*.cu)
  file(GLOB weighted CONFIGURE_DEPENDS ${dir}/weights/*.cu)
  file(GLOB types CONFIGURE_DEPENDS ${dir}/quant/*.h)
  set(modules "")
  foreach(path IN LISTS plain)
    get_filename_component(name ${path} NAME_WE)
    list(APPEND modules ${name})
    set(INFER_CUDA_SOURCE_${name} ${path} PARENT_SCOPE)
  endforeach()
  foreach(type_path IN LISTS types)
    get_filename_component(type ${type_path} NAME_WE)
    file(STRINGS ${type_path} lines REGEX "^// kernels: ")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${type_path})
    foreach(base_path IN LISTS weighted)
      get_filename_component(base ${base_path} NAME_WE)
      if(NOT "${lines} " MATCHES " ${base} ")
        continue()
      endif()
      set(name ${base}_${type})
      set(unit ${INFER_GENERATED}/cuda/${name}.cu)
      infer_write_if_changed(${unit}
"// Generated; see backends/cuda/backend.cmake.
#define INFER_TYPE ${type}
#include \"backends/cuda/quant/${type}.h\"
#include \"backends/cuda/weights/${base}.cu\"
")
      list(APPEND modules ${name})
      set(INFER_CUDA_SOURCE_${name} ${unit} PARENT_SCOPE)
    endforeach()
  endforeach()
  set(INFER_CUDA_MODULES "${modules}" PARENT_SCOPE)
endfunction()

function(infer_add_cuda target)
  set(dir ${CMAKE_SOURCE_DIR}/backends/cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp ${dir}/ops/*.cpp)
  infer_cuda_units()
  _infer_cuda_options(options)

  # The assembler takes the files as they are.
  set(symbols "")
  set(entries "")
  set(embedded "")
  foreach(name IN LISTS INFER_CUDA_MODULES)
    set(file ${INFER_GENERATED}/cuda/${name}.fatbin)
    # What ptxas says of the kernels is for tools/check_cuda_kernels.py.
    add_custom_command(OUTPUT ${file} BYPRODUCTS ${file}.txt
      COMMAND ${CMAKE_COMMAND} -DFILE=${file}.txt -P ${CMAKE_SOURCE_DIR}/cmake/keep_messages.cmake --
              ${NVCC} -fatbin -std=c++20 -O3 --compress-mode=size -Werror all-warnings -Xptxas -v
              -fmad=false ${options} -I ${CMAKE_SOURCE_DIR} -MD -MF ${file}.d -MT ${file} -o ${file}
              ${INFER_CUDA_SOURCE_${name}}
      DEPENDS ${INFER_CUDA_SOURCE_${name}} DEPFILE ${file}.d VERBATIM COMMENT "Kernels ${name}")
    string(APPEND symbols "MODULE(${name}, \"${file}\")\n")
    string(APPEND entries
           "      {\"${name}\", {infer_cuda_${name}, infer_cuda_${name}_end}},\n")
    list(APPEND embedded ${file})
  endforeach()
  set_property(GLOBAL PROPERTY INFER_CUDA_FATBINS "${embedded}")
  infer_write_if_changed(${INFER_GENERATED}/cuda_modules.cpp
"// Generated from the kernels in backends/cuda; see backends/cuda/backend.cmake.
#include \"backends/cuda/module.h\"

#define MODULE(name, file)                                         \\
  asm(\".section .rodata.cuda, \\\"a\\\"\\n\"                            \\
      \".balign 16\\n\"                                              \\
      \"infer_cuda_\" #name \":\\n\"                                   \\
      \".incbin \\\"\" file \"\\\"\\n\"                                 \\
      \"infer_cuda_\" #name \"_end:\\n\"                               \\
      \".previous\\n\");                                             \\
  extern \"C\" const std::byte infer_cuda_##name[], infer_cuda_##name##_end[];

${symbols}
namespace infer::cuda {

std::span<const Module> all_cuda_modules() {
  static const Module table[] = {
${entries}  };
  return table;
}

}  // namespace infer::cuda
")
  set_source_files_properties(${INFER_GENERATED}/cuda_modules.cpp PROPERTIES
    OBJECT_DEPENDS "${embedded}" SKIP_PRECOMPILE_HEADERS ON)

  file(STRINGS ${CMAKE_SOURCE_DIR}/engine/graph/ops.def known REGEX "^INFER_OP")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${CMAKE_SOURCE_DIR}/engine/graph/ops.def)
  set(declarations "")
  set(op_entries "")
  foreach(line IN LISTS known)
    string(REGEX REPLACE "^.*, *([a-z_]+)\\)$" "\\1" op "${line}")
    if(NOT ${dir}/ops/${op}.cpp IN_LIST sources)
      continue()
    endif()
    string(APPEND declarations "const CudaOp& ${op}_cuda();\n")
    string(APPEND op_entries "      &${op}_cuda(),\n")
  endforeach()
  set(table "  return {};\n")
  if(op_entries)
    set(table "  static const CudaOp* const table[] = {\n${op_entries}  };\n  return table;\n")
  endif()
  infer_write_if_changed(${INFER_GENERATED}/cuda_ops.cpp
"// Generated from the files in backends/cuda/ops; see backends/cuda/backend.cmake.
#include \"backends/cuda/op.h\"

namespace infer::cuda {

${declarations}
std::span<const CudaOp* const> all_cuda_ops() {
${table}}

}  // namespace infer::cuda
")
  target_sources(${target} PRIVATE ${sources} ${INFER_GENERATED}/cuda_modules.cpp
                                   ${INFER_GENERATED}/cuda_ops.cpp)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
endfunction()
