// Modules, launches and graphs.
#include <algorithm>
#include <cstring>

#include "backends/cuda/module.h"
#include "tests/cuda/driver/api.h"
#include "tests/cuda/driver/module_kernels.h"

using infer::test::KernelLaunch;
using infer::test::State;

namespace {

// Limits of every GPU that is supported.
constexpr unsigned kMostBlocksYZ = 65535;
constexpr unsigned kMostThreads = 1024;

/// Which of the program's modules the driver was given; null: none.
const infer::cuda::Module* embedded_as(const void* image) {
  for (const infer::cuda::Module& module : infer::cuda::all_cuda_modules()) {
    // The image has no length of its own: its first bytes, which hold the size, decide first.
    constexpr size_t kHeader = 16;
    if (std::memcmp(image, module.code.data(), kHeader) == 0 &&
        std::memcmp(image, module.code.data(), module.code.size()) == 0) {
      return &module;
    }
  }
  return nullptr;
}

/// The handle of a kernel: always the same.
CUfunction function_of(State& state, CUmodule module, const infer::emulator::Kernel* kernel) {
  for (const CUfunction known : module->functions) {
    if (known->kernel == kernel) return known;
  }
  const CUfunction made = state.make<CUfunc_st>();
  made->module = module;
  made->kernel = kernel;
  module->functions.push_back(made);
  return made;
}

/// Takes the memory of a module's kernels, once: the driver does not before they are asked for.
CUresult load_kernels(State& state, CUmodule module) {
  if (module->loaded) return CUDA_SUCCESS;
  if (module->bytes > state.free_bytes(module->context->device)) return CUDA_ERROR_OUT_OF_MEMORY;
  module->loaded = true;
  module->context->module_bytes += module->bytes;
  return CUDA_SUCCESS;
}

/// Ten times the compute capability that a device's kernels were compiled for.
int code_version(const State& state, int device) {
  const infer::test::TestGpu& gpu = state.gpus[static_cast<size_t>(device)];
  return gpu.code > 0 ? gpu.code : gpu.capability;
}

/// The kernels of a module that there are for a device: those of weights/decoded_tile.cu and
/// warpgroup_tile.cu are left out where they are not chosen.
std::vector<const infer::emulator::Kernel*> kernels_in(const State& state, CUmodule module) {
  const int version = code_version(state, module->context->device);
  const infer::test::TestGpu& gpu = state.gpus[static_cast<size_t>(module->context->device)];
  const bool warpgroups = gpu.capability == 90 && gpu.code == 0;
  const bool chosen = version != 86 && version != 89 && version != 120 && !warpgroups;
  if (!chosen && module->name.starts_with("decoded_tile")) return {};
  if (!warpgroups && module->name.starts_with("warpgroup")) return {};
  return infer::test::kernels_of(module->name);
}

struct Shape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
};

/// What the real driver refuses, and what it does not see.
CUresult make_launch(State& state, const char* name, CUfunction function, const Shape& shape,
                     void** params, KernelLaunch& launch) {
  INFER_EXPECT(name, state.is_live(function));
  INFER_EXPECT(name, function->module->context == infer::test::current_of_thread());
  INFER_EXPECT(name, shape.grid[0] >= 1 && shape.grid[1] >= 1 && shape.grid[2] >= 1);
  INFER_EXPECT(name, shape.grid[0] <= 0x7fffffff && shape.grid[1] <= kMostBlocksYZ);
  INFER_EXPECT(name, shape.grid[2] <= kMostBlocksYZ);
  INFER_EXPECT(name, shape.block[1] == 1 && shape.block[2] == 1);
  INFER_EXPECT(name, shape.block[0] >= 1 && shape.block[0] <= kMostThreads);
  INFER_EXPECT(name, shape.block[0] <= function->kernel->most_threads);
  INFER_EXPECT(name, shape.shared <= function->dynamic_shared);
  INFER_EXPECT(name, params != nullptr && params[0] != nullptr);
  launch.function = function;
  launch.shape.grid = {shape.grid[0], shape.grid[1], shape.grid[2]};
  launch.shape.threads = shape.block[0];
  launch.shape.shared_bytes = shape.shared;
  const int device = function->module->context->device;
  launch.shape.most_shared =
      function->chosen ? static_cast<size_t>(state.gpus[static_cast<size_t>(device)].shared_bytes)
                       : size_t{48} << 10;
  const auto* first = static_cast<const std::byte*>(params[0]);
  launch.params.assign(first, first + function->kernel->param_bytes);
  return CUDA_SUCCESS;
}

CUresult add_node(State& state, const char* name, CUgraph graph, const CUgraphNode* after,
                  size_t count, CUgraphNode_st&& node, CUgraphNode* made) {
  INFER_EXPECT(name, state.is_live(graph));
  for (size_t i = 0; i < count; ++i) {
    INFER_EXPECT(name, after[i] != nullptr && after[i]->graph == graph);
    INFER_EXPECT(name, std::ranges::find(node.after, after[i]->index) == node.after.end());
    node.after.push_back(after[i]->index);
  }
  node.graph = graph;
  node.index = graph->nodes.size();
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  *made = graph->nodes.back().get();
  return CUDA_SUCCESS;
}

/// A copy of bytes from pinned memory to the device, which is what graphs of the back end have.
CUresult check_copy(State& state, const char* name, const CUDA_MEMCPY3D& copy) {
  INFER_EXPECT(name, copy.Height == 1 && copy.Depth == 1 && copy.WidthInBytes > 0);
  INFER_EXPECT(name, copy.srcMemoryType == CU_MEMORYTYPE_HOST);
  INFER_EXPECT(name, copy.dstMemoryType == CU_MEMORYTYPE_DEVICE);
  const auto bytes = static_cast<int64_t>(copy.WidthInBytes);
  const auto* from = state.find(copy.srcHost, bytes);
  const auto* to = state.find(reinterpret_cast<const void*>(copy.dstDevice), bytes);
  INFER_EXPECT(name, from != nullptr && from->pinned);
  INFER_EXPECT(name, to != nullptr && !to->pinned);
  return CUDA_SUCCESS;
}

}  // namespace

INFER_CU cuModuleLoadData(CUmodule* module, const void* image) {
  INFER_BEGIN_IN("cuModuleLoadData", CUDA_ERROR_OUT_OF_MEMORY)
  const infer::cuda::Module* const known = embedded_as(image);
  INFER_EXPECT("cuModuleLoadData", known != nullptr);
  *module = state.make<CUmod_st>();
  (*module)->context = context;
  (*module)->name = known->name;
  (*module)->bytes = static_cast<int64_t>(known->code.size());
  return CUDA_SUCCESS;
}

INFER_CU cuModuleUnload(CUmodule module) {
  INFER_END("cuModuleUnload")
  INFER_EXPECT(function_name, state.is_live(module));
  (void)state.run_all(module->context);
  for (const CUfunction function : module->functions) state.destroy(function);
  if (module->loaded) module->context->module_bytes -= module->bytes;
  state.destroy(module);
  return CUDA_SUCCESS;
}

INFER_CU cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  INFER_BEGIN_IN("cuModuleGetFunction", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuModuleGetFunction", state.is_live(module) && module->context == context);
  const infer::emulator::Kernel* const kernel = infer::test::kernel_of(module->name, name);
  INFER_EXPECT("cuModuleGetFunction",
               kernel != nullptr && std::ranges::count(kernels_in(state, module), kernel) == 1);
  *function = function_of(state, module, kernel);
  return load_kernels(state, module);
}

INFER_CU cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  INFER_BEGIN_IN("cuModuleGetFunctionCount", CUDA_ERROR_UNKNOWN)
  INFER_EXPECT("cuModuleGetFunctionCount", state.is_live(module) && module->context == context);
  *count = static_cast<unsigned>(kernels_in(state, module).size());
  return CUDA_SUCCESS;
}

INFER_CU cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  constexpr const char* kName = "cuModuleEnumerateFunctions";
  INFER_BEGIN_IN(kName, CUDA_ERROR_UNKNOWN)
  INFER_EXPECT(kName, state.is_live(module) && module->context == context);
  INFER_EXPECT(kName, functions != nullptr && count > 0);
  const auto kernels = kernels_in(state, module);
  for (unsigned i = 0; i < std::min<size_t>(count, kernels.size()); ++i) {
    functions[i] = function_of(state, module, kernels[i]);
  }
  return CUDA_SUCCESS;
}

INFER_CU cuFuncLoad(CUfunction function) {
  INFER_BEGIN_IN("cuFuncLoad", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuFuncLoad", state.is_live(function) && function->module->context == context);
  return load_kernels(state, function->module);
}

INFER_CU cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  constexpr const char* kName = "cuFuncGetAttribute";
  INFER_BEGIN_IN(kName, CUDA_ERROR_UNKNOWN)
  INFER_EXPECT(kName, state.is_live(function));
  INFER_EXPECT(kName, attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION);
  *value = code_version(state, context->device);
  return CUDA_SUCCESS;
}

INFER_CU cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  constexpr const char* kName = "cuFuncSetAttribute";
  INFER_BEGIN_IN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT(kName, state.is_live(function));
  INFER_EXPECT(kName, attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  INFER_EXPECT(
      kName, value >= 0 && value <= state.gpus[static_cast<size_t>(context->device)].shared_bytes);
  function->dynamic_shared = static_cast<unsigned>(value);
  function->chosen = true;
  return CUDA_SUCCESS;
}

INFER_CU cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** params, void**) {
  constexpr const char* kName = "cuLaunchKernel";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  KernelLaunch launch;
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared};
  const CUresult made = make_launch(state, kName, function, shape, params, launch);
  if (made != CUDA_SUCCESS) return made;
  INFER_EXPECT(kName, state.streams.contains(stream) && stream->context == context);
  stream->work.push_back([&state, context, launch] { return state.run_kernel(context, launch); });
  return CUDA_SUCCESS;
}

INFER_CU cuGraphCreate(CUgraph* graph, unsigned) {
  INFER_BEGIN_IN("cuGraphCreate", CUDA_ERROR_OUT_OF_MEMORY)
  *graph = state.make<CUgraph_st>();
  (*graph)->context = context;
  return CUDA_SUCCESS;
}

INFER_CU cuGraphDestroy(CUgraph graph) {
  INFER_END("cuGraphDestroy")
  INFER_EXPECT(function_name, state.is_live(graph));
  state.destroy(graph);
  return CUDA_SUCCESS;
}

INFER_CU cuGraphAddKernelNode(CUgraphNode* made, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS* p) {
  constexpr const char* kName = "cuGraphAddKernelNode";
  INFER_BEGIN_IN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  CUgraphNode_st node;
  const Shape shape{{p->gridDimX, p->gridDimY, p->gridDimZ},
                    {p->blockDimX, p->blockDimY, p->blockDimZ},
                    p->sharedMemBytes};
  const CUresult valid = make_launch(state, kName, p->func, shape, p->kernelParams, node.launch);
  if (valid != CUDA_SUCCESS) return valid;
  return add_node(state, kName, graph, after, count, std::move(node), made);
}

INFER_CU cuGraphAddMemcpyNode(CUgraphNode* made, CUgraph graph, const CUgraphNode* after,
                              size_t count, const CUDA_MEMCPY3D* copy, CUcontext of) {
  constexpr const char* kName = "cuGraphAddMemcpyNode";
  INFER_BEGIN_IN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT(kName, of == context);
  if (const CUresult valid = check_copy(state, kName, *copy); valid != CUDA_SUCCESS) return valid;
  CUgraphNode_st node;
  node.is_copy = true;
  node.copy = *copy;
  return add_node(state, kName, graph, after, count, std::move(node), made);
}

INFER_CU cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData* edges, size_t count) {
  constexpr const char* kName = "cuGraphAddDependencies";
  INFER_BEGIN_IN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT(kName, state.is_live(graph) && edges != nullptr);
  if (state.gpus[static_cast<size_t>(context->device)].refuses_early) {
    return state.refuse(CUDA_ERROR_NOT_SUPPORTED);
  }
  for (size_t i = 0; i < count; ++i) {
    INFER_EXPECT(kName, from[i]->graph == graph && to[i]->graph == graph);
    INFER_EXPECT(kName, from[i]->index < to[i]->index);
    INFER_EXPECT(kName, !from[i]->is_copy && !to[i]->is_copy);
    INFER_EXPECT(kName, edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    INFER_EXPECT(kName, edges[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
    INFER_EXPECT(kName, edges[i].to_port == 0);
    // Code for older GPUs would not wait.
    INFER_EXPECT(kName, code_version(state, context->device) >= 90);
    std::vector<size_t>& after = to[i]->after;
    INFER_EXPECT(kName, std::ranges::find(after, from[i]->index) == after.end());
    after.push_back(from[i]->index);
    to[i]->early = true;
  }
  return CUDA_SUCCESS;
}

INFER_CU cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  INFER_BEGIN_IN("cuGraphInstantiate", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuGraphInstantiate", state.is_live(graph) && graph->context == context);
  auto nodes = std::make_shared<std::vector<CUgraphNode_st>>();
  for (const auto& node : graph->nodes) nodes->push_back(*node);
  state.count_graph(*nodes);
  *exec = state.make<CUgraphExec_st>();
  (*exec)->context = context;
  (*exec)->nodes = std::move(nodes);
  (*exec)->made_from = graph;
  return CUDA_SUCCESS;
}

INFER_CU cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* copy, CUcontext of) {
  constexpr const char* kName = "cuGraphExecMemcpyNodeSetParams";
  INFER_BEGIN_IN(kName, CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT(kName, state.is_live(exec) && of == context);
  INFER_EXPECT(kName, state.is_live(exec->made_from) && node->graph == exec->made_from);
  INFER_EXPECT(kName, node->is_copy);
  if (const CUresult valid = check_copy(state, kName, *copy); valid != CUDA_SUCCESS) return valid;
  if (state.gpus[static_cast<size_t>(context->device)].fixed_copies) {
    return state.refuse(CUDA_ERROR_INVALID_VALUE);
  }
  auto nodes = std::make_shared<std::vector<CUgraphNode_st>>(*exec->nodes);
  (*nodes)[node->index].copy = *copy;
  exec->nodes = std::move(nodes);
  return CUDA_SUCCESS;
}

INFER_CU cuGraphExecDestroy(CUgraphExec exec) {
  INFER_END("cuGraphExecDestroy")
  INFER_EXPECT(function_name, state.is_live(exec));
  state.destroy(exec);
  return CUDA_SUCCESS;
}

INFER_CU cuGraphUpload(CUgraphExec exec, CUstream stream) {
  INFER_BEGIN_IN("cuGraphUpload", CUDA_ERROR_OUT_OF_MEMORY)
  INFER_EXPECT("cuGraphUpload", state.is_live(exec) && state.streams.contains(stream));
  return CUDA_SUCCESS;
}

INFER_CU cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  constexpr const char* kName = "cuGraphLaunch";
  INFER_BEGIN_IN(kName, CUDA_ERROR_LAUNCH_FAILED)
  INFER_EXPECT(kName, state.is_live(exec) && exec->context == context);
  INFER_EXPECT(kName, state.streams.contains(stream) && stream->context == context);
  stream->work.push_back(
      [&state, context, nodes = exec->nodes] { return state.run_graph(context, *nodes); });
  return CUDA_SUCCESS;
}
