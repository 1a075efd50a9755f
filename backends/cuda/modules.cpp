#include "backends/cuda/modules.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace infer::cuda {
namespace {

/// Ten times the compute capability from which on code waits for the kernel before it.
constexpr int kOldestToWait = 90;

/// The type of weights whose kernels a module has: its name ends with the type's. None: it has an
/// operation's.
std::optional<DType> type_of(std::string_view module) {
  std::optional<DType> found;
  size_t length = 0;
  for (const DTypeInfo& info : all_dtypes()) {
    const std::string_view name = info.ident;
    if (name.size() < length || module.size() <= name.size() || !module.ends_with(name)) continue;
    if (module[module.size() - name.size() - 1] != '_') continue;
    found = info.type;
    length = name.size();
  }
  return found;
}

}  // namespace

const Module* module_of(std::string_view kernel) {
  const Module* best = nullptr;
  size_t length = 0;
  for (const Module& module : all_cuda_modules()) {
    const std::string_view name = module.name;
    const bool fits =
        kernel.starts_with(name) && (kernel.size() == name.size() || kernel[name.size()] == '_');
    if (!fits || name.size() < length) continue;
    best = &module;
    length = name.size();
  }
  return best;
}

Modules::~Modules() {
  if (loaded_.empty() || !context_.enter().ok()) return;
  for (const auto& [module, handle] : loaded_) (void)context_.cu().cuModuleUnload(handle);
}

Result<CUmodule> Modules::load(const Module& module) {
  if (const auto it = loaded_.find(&module); it != loaded_.end()) return it->second;
  CUmodule handle = nullptr;
  INFER_CHECK_R(context_.check(context_.cu().cuModuleLoadData(&handle, module.code.data()),
                               "cannot load kernels"));
  loaded_.emplace(&module, handle);
  return handle;
}

Result<unsigned> Modules::count_kernels(CUmodule module) const {
  unsigned count = 0;
  INFER_CHECK_R(context_.check(context_.cu().cuModuleGetFunctionCount(&count, module),
                               "cannot count kernels"));
  return count;
}

Result<bool> Modules::has_kernels(std::string_view module) {
  INFER_CHECK_R(context_.enter());
  const std::lock_guard lock(mutex_);
  const Module* found = module_of(module);
  if (found == nullptr || module != found->name) return false;
  INFER_TRY(const CUmodule handle, load(*found));
  INFER_TRY(const unsigned count, count_kernels(handle));
  return count > 0;
}

Status Modules::load_kernels(CUmodule module) {
  const DriverFunctions& cu = context_.cu();
  INFER_TRY_S(const unsigned count, count_kernels(module));
  if (count == 0) return {};  // none of them is chosen on this GPU
  std::vector<CUfunction> functions(count);
  INFER_CHECK(context_.check(cu.cuModuleEnumerateFunctions(functions.data(), count, module),
                             "cannot list kernels"));
  for (const CUfunction function : functions) {
    INFER_CHECK(context_.check(cu.cuFuncLoad(function), "cannot load a kernel"));
  }
  return {};
}

Status Modules::load_for(std::span<const DType> weights) {
  INFER_CHECK(context_.enter());
  const std::lock_guard lock(mutex_);
  for (const Module& module : all_cuda_modules()) {
    const std::optional<DType> type = type_of(module.name);
    if (type && std::ranges::find(weights, *type) == weights.end()) continue;
    if (loaded_.contains(&module)) continue;
    INFER_TRY_S(const CUmodule handle, load(module));
    INFER_CHECK(load_kernels(handle));
  }
  return {};
}

Result<CUfunction> Modules::get(const std::string& name, int64_t shared_bytes) {
  INFER_CHECK_R(context_.enter());
  const std::lock_guard lock(mutex_);
  const auto found = kernels_.find(name);
  Kernel kernel = found == kernels_.end() ? Kernel{} : found->second;
  if (kernel.function == nullptr) {
    const Module* module = module_of(name);
    if (module == nullptr) {
      return fail(StatusCode::unsupported, "{}: there is no kernel '{}'", context_.gpu().name,
                  name);
    }
    INFER_TRY(const CUmodule handle, load(*module));
    INFER_CHECK_R(
        context_.check(context_.cu().cuModuleGetFunction(&kernel.function, handle, name.c_str()),
                       "cannot find a kernel"));
  }
  if (shared_bytes > context_.gpu().shared_bytes) {
    return fail(StatusCode::unsupported, "{}: '{}' needs {} bytes of shared memory; it has {}",
                context_.gpu().name, name, shared_bytes, context_.gpu().shared_bytes);
  }
  if (shared_bytes > kernel.shared_bytes) {
    INFER_CHECK_R(context_.check(
        context_.cu().cuFuncSetAttribute(kernel.function,
                                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         static_cast<int>(shared_bytes)),
        "cannot give a kernel its shared memory"));
    kernel.shared_bytes = shared_bytes;
  }
  kernels_[name] = kernel;
  return kernel.function;
}

Result<bool> Modules::waits(CUfunction function) const {
  int made_for = 0;
  INFER_CHECK_R(context_.check(
      context_.cu().cuFuncGetAttribute(&made_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, function),
      "cannot ask what a kernel was made for"));
  return made_for >= kOldestToWait;
}

}  // namespace infer::cuda
