#include "tests/cuda/driver/state.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace infer::test {

State& State::get() {
  static State state;
  return state;
}

CUcontext& current_of_thread() {
  thread_local CUcontext current = nullptr;
  return current;
}

void State::set_gpus(std::vector<TestGpu> with) {
  const std::lock_guard lock(mutex);
  gpus = std::move(with);
}

void State::fail_after(int64_t before) {
  const std::lock_guard lock(mutex);
  failures_.fail_after(before);
  lost_ = false;
}

int64_t State::live() const {
  return static_cast<int64_t>(objects_.size() + allocations.size() + reserved.size() +
                              registered.size());
}

int64_t State::pinned_bytes() const {
  int64_t bytes = 0;
  for (const auto& [address, memory] : registered) bytes += memory.bytes;
  return bytes;
}

bool State::pinned_in_part(const void* address, int64_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(address);
  return std::ranges::any_of(registered, [&](const auto& other) {
    const auto* const from = static_cast<const std::byte*>(other.first);
    const std::byte* const to = from + other.second.bytes;
    const bool meets = from < begin + bytes && begin < to;
    return meets && (begin < from || begin + bytes > to);
  });
}

int64_t State::free_bytes(int gpu) const {
  const TestGpu& of = gpus[static_cast<size_t>(gpu)];
  int64_t used = of.used_by_others;
  if (const auto it = contexts.find(gpu); it != contexts.end() && it->second != nullptr) {
    const int64_t modules = (it->second->module_bytes + kGranule - 1) / kGranule * kGranule;
    used += of.context_bytes + it->second->allocated + modules;
  }
  return std::max<int64_t>(of.memory - used, 0);
}

void State::set_listener(std::function<void(const std::string&)> listener) {
  const std::lock_guard lock(mutex);
  listener_ = std::move(listener);
}

CUresult State::mistake(const std::string& what, CUresult code) {
  if (listener_) listener_(what);
  return code;
}

CUcontext State::current(const char* function) {
  const CUcontext context = current_of_thread();
  if (context != nullptr && is_live(context)) return context;
  mistake(std::string(function) + ": the thread has no context");
  return nullptr;
}

const Allocation* State::find(const void* address, int64_t bytes) const {
  auto it = allocations.upper_bound(address);
  if (it == allocations.begin()) return nullptr;
  --it;
  const Allocation* const found = &it->second;
  const auto* const at = static_cast<const std::byte*>(address);
  // Memory that was mapped behind other memory goes on there.
  for (;; ++it) {
    const auto* const end = static_cast<const std::byte*>(it->first) + it->second.bytes;
    if (at + bytes <= end) return at < end || bytes == 0 ? found : nullptr;
    const auto next = std::next(it);
    if (next == allocations.end() || next->first != end) return nullptr;
    if (it->second.mapped == nullptr || next->second.mapped == nullptr) return nullptr;
  }
}

CUresult State::copy(const char* function, void* to, const void* from, int64_t bytes) {
  const auto wrong = [&](const char* side) {
    return mistake(std::string(function) + ": " + std::to_string(bytes) + " bytes leave the " +
                   side);
  };
  // What no allocation holds is the host's own memory; a part of an allocation is a mistake.
  for (const auto& [side, at] : {std::pair<const char*, const void*>("target", to),
                                 std::pair<const char*, const void*>("source", from)}) {
    if (find(at, 1) != nullptr && find(at, bytes) == nullptr) return wrong(side);
  }
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return CUDA_SUCCESS;
}

bool State::is_pinned(const void* address, int64_t bytes) const {
  if (find(address, bytes) != nullptr) return true;
  auto it = registered.upper_bound(address);
  if (it == registered.begin()) return false;
  --it;
  return static_cast<const std::byte*>(address) + bytes <=
         static_cast<const std::byte*>(it->first) + it->second.bytes;
}

CUresult State::run_one(CUstream stream) {
  CUresult& fault = stream->context->fault;
  if (stream->work.empty()) return mistake("a stream waits for what no stream has to do");
  const std::function<CUresult()> work = std::move(stream->work.front());
  stream->work.pop_front();
  if (fault == CUDA_SUCCESS) {
    const CUresult result = work();
    if (fault == CUDA_SUCCESS) fault = result;
  }
  return fault;
}

CUresult State::run(CUstream stream) {
  std::minstd_rand random(static_cast<uint32_t>(seed_ * 7907 + drawn_++));
  while (!stream->work.empty()) {
    // Nothing, some or all of what other streams have to do comes before.
    for (const CUstream other : streams) {
      if (other == stream || other->context != stream->context) continue;
      for (size_t n = random() % (2 * other->work.size() + 1); n > 0 && !other->work.empty(); --n) {
        (void)run_one(other);
      }
    }
    if (!stream->work.empty()) (void)run_one(stream);
  }
  return stream->context->fault;
}

CUresult State::run_all(CUcontext context) {
  for (const CUstream stream : streams) {
    if (stream->context == context) (void)run(stream);
  }
  return context->fault;
}

void State::count_graph(const std::vector<CUgraphNode_st>& nodes) {
  last_graph_ = {};
  std::vector<int> chain(nodes.size());       // of kernels that ends with the node
  for (const CUgraphNode_st& node : nodes) {  // in an order that their dependencies allow
    int& own = chain[node.index];
    for (const size_t before : node.after) own = std::max(own, chain[before]);
    own += node.is_copy ? 0 : 1;
    ++(node.is_copy ? last_graph_.copies : last_graph_.kernels);
    if (node.early) ++last_graph_.early;
    if (!node.is_copy) ++last_graph_.by_kernel[node.launch.function->kernel->name];
    last_graph_.depth = std::max(last_graph_.depth, own);
  }
}

bool State::is_idle(CUcontext context) const {
  return std::ranges::all_of(streams, [&](const CUstream stream) {
    return stream->context != context || stream->work.empty();
  });
}

CUresult State::run_kernel(CUcontext context, const KernelLaunch& launch) {
  emulator::Launch shape = launch.shape;
  shape.seed = seed_ * 1'000'003 + drawn_++;
  const std::string_view name = launch.function->kernel->name;
  if (name.starts_with(without_barrier_)) shape.left_out = barrier_line_;
  const std::string wrong =
      emulator::launch(*launch.function->kernel, shape, context->memory, launch.params.data());
  if (wrong.empty()) return CUDA_SUCCESS;
  return mistake(wrong, CUDA_ERROR_ILLEGAL_ADDRESS);
}

CUresult State::run_graph(CUcontext context, const std::vector<CUgraphNode_st>& nodes) {
  std::minstd_rand random(static_cast<uint32_t>(seed_ * 7919 + drawn_++));
  std::vector<size_t> waiting(nodes.size());
  std::vector<size_t> ready;
  for (const CUgraphNode_st& node : nodes) {
    waiting[node.index] = node.after.size();
    if (node.after.empty()) ready.push_back(node.index);
  }
  while (!ready.empty()) {
    const size_t pick = random() % ready.size();
    const CUgraphNode_st& node = nodes[ready[pick]];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    const CUresult result =
        node.is_copy ? copy("a graph's copy", reinterpret_cast<void*>(node.copy.dstDevice),
                            node.copy.srcHost, static_cast<int64_t>(node.copy.WidthInBytes))
                     : run_kernel(context, node.launch);
    if (result != CUDA_SUCCESS) return result;
    for (const CUgraphNode_st& other : nodes) {
      const auto times = std::ranges::count(other.after, node.index);
      if (times > 0 && (waiting[other.index] -= static_cast<size_t>(times)) == 0) {
        ready.push_back(other.index);
      }
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace infer::test

extern "C" __attribute__((visibility("default"))) infer::test::DriverControl* infer_test_driver() {
  return &infer::test::State::get();
}
