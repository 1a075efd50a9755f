# The CPU back end is always there. Kernels for instruction sets beyond the baseline are compiled
# with their own flags and chosen at run time:
#   simd/<isa>/vec.cpp              → const VecOps& vec_ops_<isa>()
#   simd/<isa>/matmul_<type>.cpp    → const RowKernel& matmul_<type>_<isa>()
#   ops/<op>.cpp                    → const CpuOp& <op>_cpu()

set(cpu_AVAILABLE TRUE)
set(_infer_cpu_isas scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND _infer_cpu_isas avx2)
endif()
string(REPLACE ";" ", " _infer_cpu_text "${_infer_cpu_isas}")
set(cpu_WHY "kernels for ${_infer_cpu_text}")

set(_infer_cpu_flags_scalar "")
set(_infer_cpu_flags_avx2 -mavx2 -mfma -mf16c)

function(infer_add_cpu target)
  set(dir ${CMAKE_SOURCE_DIR}/backends/cpu)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp ${dir}/ops/*.cpp)
  file(GLOB ops CONFIGURE_DEPENDS ${dir}/ops/*.cpp)

  set(declarations "")
  set(op_entries "")
  foreach(path IN LISTS ops)
    get_filename_component(op ${path} NAME_WE)
    string(APPEND declarations "const CpuOp& ${op}_cpu();\n")
    string(APPEND op_entries "      &${op}_cpu(),\n")
  endforeach()

  set(isa_entries "")
  foreach(isa IN LISTS _infer_cpu_isas)
    file(GLOB kernels CONFIGURE_DEPENDS ${dir}/simd/${isa}/*.cpp)
    set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${_infer_cpu_flags_${isa}}")
    list(APPEND sources ${kernels})
    string(APPEND declarations "const VecOps& vec_ops_${isa}();\n")
    set(rows "")
    foreach(path IN LISTS kernels)
      get_filename_component(kernel ${path} NAME_WE)
      if(kernel MATCHES "^matmul_")
        string(APPEND declarations "const RowKernel& ${kernel}_${isa}();\n")
        string(APPEND rows "&${kernel}_${isa}(), ")
      endif()
    endforeach()
    string(APPEND isa_entries "      {\"${isa}\", &vec_ops_${isa}(), {${rows}}},\n")
  endforeach()

  infer_write_if_changed(${INFER_GENERATED}/cpu_kernels.cpp
"// Generated from the files in backends/cpu; see backends/cpu/backend.cmake.
#include \"backends/cpu/kernels.h\"

namespace infer::cpu {

${declarations}
std::span<const CpuOp* const> all_cpu_ops() {
  static const CpuOp* const table[] = {
${op_entries}  };
  return table;
}

std::span<const IsaKernels> all_isas() {
  static const IsaKernels table[] = {
${isa_entries}  };
  return table;
}

}  // namespace infer::cpu
")
  target_sources(${target} PRIVATE ${sources} ${INFER_GENERATED}/cpu_kernels.cpp)
endfunction()
