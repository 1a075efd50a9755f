// What tests set and ask of the driver for tests: a library with the functions of NVIDIA's driver
// that back ends use, over memory of the host. It runs kernels through the emulator
// (tests/cuda/emulator) and checks how it is used.
//
// Work on a stream waits until something waits for it: then it runs in order, the nodes of a graph
// in an order drawn from the seed among those that their dependencies allow. Work of other streams
// comes in between, as the seed has it. So what is read too early, overwritten too early or not
// named as a dependency shows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace infer::test {

struct TestGpu {
  std::string name = "Test GPU";
  int capability = 90;  ///< ten times the compute capability
  /// The capability that kernels were compiled for; 0: the GPU's, with all that it alone has
  int code = 0;
  int64_t memory = int64_t{8} << 30;  ///< bytes
  int64_t used_by_others = 0;         ///< bytes of it
  int multiprocessors = 1;
  int64_t shared_bytes = 99 << 10;   ///< of a block
  int pci_bus = 1;                   ///< "0000:01:00.0"
  bool virtual_memory = false;       ///< memory can be mapped to reserved addresses
  int64_t context_bytes = 10 << 20;  ///< that a context takes of the memory
  bool peers = true;                 ///< the GPUs reach each other
  bool refuses_peers = false;        ///< it says that they do, but maps no memory for another one
  bool refuses_mapping = false;      ///< it has virtual memory, and maps none
  bool refuses_early = false;        ///< no kernel of a graph begins before another has ended
  bool registers_nothing = false;    ///< the host's own memory is not pinned
  bool registers_read_only = false;  ///< it is pinned for reading alone, as that of mapped files is
  bool fixed_copies = false;         ///< copies of a graph that is made do not change
  /// Memory that is mapped is not written: so there may be more than the machine has, if nobody
  /// uses it.
  bool untouched = false;
};

/// What a graph is made of.
struct GraphCounts {
  int kernels = 0;
  int copies = 0;
  std::map<std::string, int> by_kernel;  ///< launches
  int early = 0;  ///< of them those that may begin before the one before has ended
  int depth = 0;  ///< kernels of the longest chain in which each waits for the one before
};

class DriverControl {
 public:
  virtual ~DriverControl() = default;

  /// From the next cuInit() on.
  virtual void set_gpus(std::vector<TestGpu> gpus) = 0;
  virtual void set_version(int version) = 0;  ///< of CUDA, 13000 for 13.0
  virtual void set_seed(uint64_t seed) = 0;
  /// The barrier at this line of the source of kernels whose names begin so orders nothing. 0: all
  /// barriers do.
  virtual void leave_out(const std::string& kernels, int line) = 0;

  /// The call after `before` others fails as its function may; a device that is lost stays lost
  /// until the next fail_after(). -1: none. Counts from 0 again.
  virtual void fail_after(int64_t before) = 0;
  /// Every device is lost from now on, until the next fail_after().
  virtual void lose() = 0;
  virtual int64_t calls() const = 0;
  virtual std::vector<int64_t> places(bool last) const = 0;
  virtual std::string failed() const = 0;

  /// Contexts, streams, allocations and so on that nobody gave back.
  virtual int64_t live() const = 0;
  /// Kernels that were launched.
  virtual int64_t launches() const = 0;
  /// Copies from one device to another.
  virtual int64_t peer_copies() const = 0;
  /// Calls that were refused because the GPU is made so.
  virtual int64_t refusals() const = 0;
  /// The graph that was instantiated last.
  virtual GraphCounts last_graph() const = 0;
  /// Bytes of a GPU's memory that are free, as the driver would say.
  virtual int64_t free_bytes(int gpu) const = 0;
  /// Bytes of the host's own memory that are pinned.
  virtual int64_t pinned_bytes() const = 0;
  /// Is told what is used wrongly, from any thread. Null: nobody is.
  virtual void set_listener(std::function<void(const std::string& mistake)> listener) = 0;
};

}  // namespace infer::test

/// Exported by the library under this name.
extern "C" infer::test::DriverControl* infer_test_driver();
