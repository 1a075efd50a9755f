// Runs CUDA kernels on the host. The kernels' .cu files are compiled by the host's compiler with
// device.h included first.
//
// The threads of a block are fibers. Between two synchronisation points they run one after another
// in an order drawn from a seed. What a GPU leaves undefined is a Fault: reading shared memory that
// nobody wrote, two threads at the same bytes of shared memory without a barrier between them (at
// least one of them writing), an access outside of a shared array or of an allocation, a barrier or
// a warp's operation that not all threads reach, an access to memory before the kernel waits for
// the one that it follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace infer::emulator {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;  ///< behind the last byte
};

/// The allocations that kernels may access. Not changed while kernels run.
class Memory {
 public:
  void add(uint64_t begin, uint64_t bytes) { ranges_[begin] = begin + bytes; }
  void add(const void* begin, size_t bytes) { add(reinterpret_cast<uintptr_t>(begin), bytes); }
  /// Memory that is mapped: what is mapped behind it goes on where it ends.
  void add_mapped(uint64_t begin, uint64_t bytes) {
    add(begin, bytes);
    mapped_.insert(begin);
  }
  void remove(uint64_t begin) {
    ranges_.erase(begin);
    mapped_.erase(begin);
  }
  /// The allocation that holds the address; empty if there is none.
  Range find(uint64_t address) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  ///< ends by begins
  std::set<uint64_t> mapped_;            ///< begins
};

struct Dim {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
};

/// A kernel compiled for the host.
struct Kernel {
  const char* name = nullptr;
  size_t param_bytes = 0;
  uint32_t most_threads = 0;  ///< of a block (__launch_bounds__)
  void (*run)(const void* params) = nullptr;
  const Kernel* next = nullptr;
};
/// Null: there is none of this name.
const Kernel* find_kernel(const std::string& name);
const Kernel* first_kernel();

struct Launch {
  Dim grid;
  uint32_t threads = 1;           ///< of a block
  uint32_t shared_bytes = 0;      ///< of dynamic shared memory
  size_t most_shared = SIZE_MAX;  ///< bytes of shared memory, with the kernel's own arrays
  uint64_t seed = 0;
  int workers = 1;  ///< OS threads that share the blocks
  /// Line of the kernel's source: a barrier there orders nothing, so that what needs it is a fault.
  int left_out = 0;
};

/// Runs a kernel. Returns an empty text, or what went wrong: the kernel, the block, the thread and
/// the fault.
std::string launch(const Kernel& kernel, const Launch& launch, const Memory& memory,
                   const void* params);

}  // namespace infer::emulator
