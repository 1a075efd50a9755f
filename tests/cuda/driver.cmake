# The driver for tests of the CUDA back end: a library with the functions of NVIDIA's driver, over the
# emulator and the kernels compiled for the host.

infer_cuda_units()
# Writes the unit that compiles the kernels of `source` for the host; `last` ends it.
function(_infer_emulated_unit unit source last)
  infer_write_if_changed(${unit}
"// Generated; see tests/cuda/driver.cmake.
#include \"tests/cuda/emulator/device.h\"
#include \"${source}\"
${last}")
endfunction()

file(GLOB driver_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/driver/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/cuda/emulator/*.cpp)
set(emulated "")
foreach(module IN LISTS INFER_CUDA_MODULES)
  set(unit ${INFER_GENERATED}/cuda/emulated/${module}.cpp)
  _infer_emulated_unit(${unit} ${INFER_CUDA_SOURCE_${module}}
"#include \"tests/cuda/driver/module_kernels.h\"

static const infer::test::ModuleKernels infer_module_kernels(\"${module}\");
")
  list(APPEND emulated ${unit})
endforeach()
get_property(fatbins GLOBAL PROPERTY INFER_CUDA_FATBINS)
add_library(cuda_driver MODULE ${driver_sources} ${emulated} ${INFER_GENERATED}/cuda_modules.cpp)
target_precompile_headers(cuda_driver PRIVATE cuda/emulator/device.h cuda/driver/module_kernels.h)
# The modules are embedded here as well, so that what the back end loads is recognised.
set_source_files_properties(${INFER_GENERATED}/cuda_modules.cpp PROPERTIES
  OBJECT_DEPENDS "${fatbins}" SKIP_PRECOMPILE_HEADERS ON)
add_dependencies(cuda_driver infer_objects)
set_target_properties(cuda_driver PROPERTIES CXX_VISIBILITY_PRESET hidden)
target_include_directories(cuda_driver PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated
                           ${CMAKE_SOURCE_DIR}/engine/include ${EXPECTED_INCLUDE_DIR})
target_include_directories(cuda_driver SYSTEM PRIVATE ${CUDA_INCLUDE_DIR})
target_link_libraries(cuda_driver PRIVATE infer_settings Threads::Threads)
# Pragmas are nvcc's. What a kernel does not need of an array is seldom written.
target_compile_options(cuda_driver PRIVATE -Wno-unknown-pragmas -Wno-maybe-uninitialized)

# The emulator's own tests have kernels of their own.
file(GLOB emulator_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/emulator/*.cpp)
file(GLOB emulator_kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/emulator/*.cu)
foreach(source IN LISTS emulator_kernels)
  get_filename_component(name ${source} NAME_WE)
  set(unit ${INFER_GENERATED}/cuda/emulated/test_${name}.cpp)
  _infer_emulated_unit(${unit} ${source} "")
  list(APPEND emulator_sources ${unit})
endforeach()
target_sources(test_cuda PRIVATE ${emulator_sources})
