# The CPU back end is always there. Kernels are written once over the vectors of an instruction set
# and compiled for each with its flags; the best that runs is chosen at run time:
#   simd/<set>/isa.h                the vectors
#   simd/vec_impl.h                 → const VecOps& vec_ops_<set>()
#   simd/matmul/<type>.h            → const RowKernel& matmul_<type>_<set>()
#   simd/<set>/<tiles>.h, tiles.h   → const RowKernel& matmul_<type>_<set>_<tiles>()
#   ops/<op>.cpp                    → const CpuOp& <op>_cpu()

set(cpu_AVAILABLE TRUE)
# From the baseline to the best: name, folder, flags.
set(_infer_cpu_isas scalar)
set(_infer_cpu_dir_scalar scalar)
# -O3 takes a minute for some of these kernels, -O2 a second or two.
set(_infer_cpu_flags_scalar -O2)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND _infer_cpu_isas avx2 avx2_vnni avx512)
  set(_infer_cpu_dir_avx2 avx2)
  set(_infer_cpu_flags_avx2 -mavx2 -mfma -mf16c)
  set(_infer_cpu_dir_avx2_vnni avx2)
  set(_infer_cpu_flags_avx2_vnni ${_infer_cpu_flags_avx2} -mavxvnni)
  set(_infer_cpu_dir_avx512 avx512)
  set(_infer_cpu_flags_avx512 ${_infer_cpu_flags_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq
      -mavx512vnni -mprefer-vector-width=512)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # wrong about GCC 12's own header (GCC bug 105593)
    list(APPEND _infer_cpu_flags_avx512 -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  # The same kernels, but tiles where a product has many columns: a second name in the same units.
  set(_infer_cpu_tiles_avx512 amx)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(APPEND _infer_cpu_isas neon neon_dotprod neon_i8mm)
  set(_infer_cpu_arch_neon armv8-a)
  set(_infer_cpu_arch_neon_dotprod armv8.2-a+dotprod)
  set(_infer_cpu_arch_neon_i8mm armv8.2-a+dotprod+i8mm)
  foreach(_isa IN ITEMS neon neon_dotprod neon_i8mm)
    set(_infer_cpu_dir_${_isa} neon)
    set(_infer_cpu_flags_${_isa} -march=${_infer_cpu_arch_${_isa}})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Before registers are allotted GCC moves the loads of an unrolled loop to its front, and then
      # has to spill them.
      list(APPEND _infer_cpu_flags_${_isa} -fno-schedule-insns)
    endif()
  endforeach()
endif()
set(INFER_CPU_ISAS "" CACHE STRING "Instruction sets to build kernels for besides scalar; empty: all")
if(INFER_CPU_ISAS)
  string(REPLACE ";" "|" _infer_cpu_wanted "scalar;${INFER_CPU_ISAS}")
  list(FILTER _infer_cpu_isas INCLUDE REGEX "^(${_infer_cpu_wanted})$")
endif()
string(REPLACE ";" ", " _infer_cpu_text "${_infer_cpu_isas}")
set(cpu_WHY "kernels for ${_infer_cpu_text}")

# Writes <isa>_<name>.cpp, which compiles `headers` for one instruction set. After `headers` come pairs: the
# name of a function and the value of type `result` that it returns.
function(_infer_cpu_unit out isa name headers result)
  set(path ${INFER_GENERATED}/cpu/${isa}_${name}.cpp)
  set(includes "")
  foreach(header IN LISTS headers)
    string(APPEND includes "#include \"${header}\"\n")
  endforeach()
  set(functions "")
  while(ARGN)
    list(POP_FRONT ARGN function value)
    string(APPEND functions "
const ${result}& ${function}() {
  static constexpr ${result} kernels = ${value};
  return kernels;
}
")
  endwhile()
  infer_write_if_changed(${path}
"// Generated; see backends/cpu/backend.cmake.
#include \"backends/cpu/simd/${_infer_cpu_dir_${isa}}/isa.h\"
${includes}
namespace infer::cpu {
${functions}
}  // namespace infer::cpu
")
  set_source_files_properties(${path} PROPERTIES
    COMPILE_OPTIONS "${_infer_cpu_flags_${isa}};-Wno-unused-function" SKIP_PRECOMPILE_HEADERS ON)
  set(${out} ${path} PARENT_SCOPE)
endfunction()

function(infer_add_cpu target)
  set(dir ${CMAKE_SOURCE_DIR}/backends/cpu)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp ${dir}/ops/*.cpp)
  file(GLOB ops CONFIGURE_DEPENDS ${dir}/ops/*.cpp)

  set(simd backends/cpu/simd)
  set(declarations "")
  set(op_entries "")
  foreach(path IN LISTS ops)
    get_filename_component(op ${path} NAME_WE)
    string(APPEND declarations "const CpuOp& ${op}_cpu();\n")
    string(APPEND op_entries "      &${op}_cpu(),\n")
  endforeach()

  file(GLOB types CONFIGURE_DEPENDS ${dir}/simd/matmul/*.h)
  set(isa_entries "")
  foreach(isa IN LISTS _infer_cpu_isas)
    _infer_cpu_unit(unit ${isa} vec_ops ${simd}/vec_ops.h VecOps vec_ops_${isa} "vec_ops()")
    list(APPEND sources ${unit})
    string(APPEND declarations "const VecOps& vec_ops_${isa}();\n")
    set(tiles ${_infer_cpu_tiles_${isa}})
    set(rows "")
    set(tiled_rows "")
    foreach(path IN LISTS types)
      get_filename_component(type ${path} NAME_WE)
      set(headers ${simd}/matmul/${type}.h)
      set(functions matmul_${type}_${isa} "row_kernel<Weights>()")
      string(APPEND rows "&matmul_${type}_${isa}(), ")
      if(tiles)
        list(APPEND headers ${simd}/${_infer_cpu_dir_${isa}}/${tiles}.h ${simd}/tiles.h)
        list(APPEND functions matmul_${type}_${isa}_${tiles} "tiled_row_kernel<Weights>()")
        string(APPEND tiled_rows "&matmul_${type}_${isa}_${tiles}(), ")
        string(APPEND declarations "const RowKernel& matmul_${type}_${isa}_${tiles}();\n")
      endif()
      _infer_cpu_unit(unit ${isa} matmul_${type} "${headers}" RowKernel ${functions})
      list(APPEND sources ${unit})
      string(APPEND declarations "const RowKernel& matmul_${type}_${isa}();\n")
    endforeach()
    string(APPEND isa_entries "      {\"${isa}\", &vec_ops_${isa}(), {${rows}}},\n")
    if(tiles)
      string(APPEND isa_entries
             "      {\"${isa}_${tiles}\", &vec_ops_${isa}(), {${tiled_rows}}},\n")
    endif()
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
