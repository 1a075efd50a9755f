// What a back end is: devices that hold memory and compile segments of a graph into programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/profiler.h"
#include "engine/core/status.h"
#include "engine/graph/graph.h"

namespace infer {

class ThreadPool;

/// What memory is used for: the planner's lines. `host` is what the engine keeps beside a device
/// for its steps, `process` the program itself: code, vocabulary, graphs, stacks.
enum class Purpose : uint8_t { weights, kv, activations, scratch, host, process };
inline constexpr int kPurposeCount = 6;
const char* purpose_name(Purpose purpose);

/// Whose memory a device allocates.
enum class MemoryKind : uint8_t {
  host,    ///< the host's, as far as the host has any: a processor
  shared,  ///< the host's, with a limit of its own: integrated graphics
  own,
};

struct DeviceInfo {
  std::string name;          ///< "cpu", "vulkan:0"
  std::string description;   ///< "AMD EPYC 7B13, avx2"
  int64_t memory_total = 0;  ///< bytes
  int64_t memory_free = 0;   ///< bytes available now
  MemoryKind memory = MemoryKind::own;
  int64_t memory_held = 0;        ///< bytes of a host that this process has taken of it already
  int64_t thread_stack = 0;       ///< bytes that a thread's stack takes of a host's memory
  int32_t threads = 0;            ///< of a CPU
  std::string isa;                ///< instruction set of the kernels in use
  std::vector<std::string> isas;  ///< those built in, whether or not they run here
  Status usable;                  ///< unsupported, with what it lacks
  /// What it does not go beyond, by name; those that end in "_bytes" are bytes.
  std::vector<std::pair<std::string, int64_t>> limits;
  std::vector<std::string> features;  ///< what it has besides what is needed
};

/// What the machine can do at most, measured. See infer/infer.hpp, BenchReport.
struct Ceilings {
  double read_bandwidth_gb_s = 0;
  double int8_mac_g_s = 0;
  double prompt_mac_g_s = 0;  ///< of float16 factors, where prompts are a class of their own
};

/// Device memory, freed with the object; the device's accounting follows.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual int64_t size() const = 0;
  /// As kernels address it; on a CPU a host pointer.
  virtual std::byte* address() const = 0;
};

/// Where a value's memory starts.
struct MemoryRef {
  Buffer* buffer = nullptr;
  int64_t offset = 0;
};

/// What a step gives to a program. Pointers are to host memory and stay valid during run().
struct Bindings {
  int64_t rows = 0;
  int64_t outputs = 0;
  /// By ValueId of the graph; null for values that are no input.
  std::span<const std::byte* const> inputs;
  /// By kind. Slab addresses are those of this device; block tables lie in host memory.
  std::span<const KvPages> pages;
  /// Told when each phase ran; null: nobody is, and it costs nothing.
  Profiler* profiler = nullptr;
  /// Rows that were generated: the first ones. Only where the segment's roles are `both` does it
  /// say more than they do.
  int64_t generated = 0;
};

/// A compiled segment. One run at a time.
class Program {
 public:
  virtual ~Program() = default;
  /// Returns when the results can be read. Status: device or out_of_memory.
  virtual Status run(const Bindings& bindings) = 0;
};

struct CompileSpec {
  Segment segment;
  /// By ValueId, for weights and results; views and inputs have none.
  std::span<const MemoryRef> memory;
  MemoryRef scratch;
  /// Weights are adopted from a mapped file that memory cannot hold: those of a layer are to leave
  /// it once they have been used.
  bool spill = false;
};

/// A reader of a stored weight's bytes: fills the span from a byte offset.
using ReadFn = std::function<Status(uint64_t offset, std::span<std::byte> out)>;

/// When a node is computed, and whether its results are put into memory: those that never leave the
/// call that computes them need none.
struct NodePhase {
  int32_t phase = 0;
  bool stored = true;
};

/// One device. Allocation and compilation are for one thread at a time; queries for any.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  virtual Ceilings measure_ceilings() = 0;
  /// Of a processor: its threads, free for others while none of its programs runs. Else null.
  virtual ThreadPool* threads() const { return nullptr; }

  /// Ok, or unsupported with the reason.
  virtual Status capability(const Graph& graph, const Node& node) const = 0;

  /// Whether a row's results depend on its role: prompts are computed in a class of their own.
  virtual bool two_classes() const { return false; }

  /// Bytes that a weight takes in the layout this device wants; a multiple of its alignment.
  virtual int64_t packed_bytes(const TensorDesc& desc) const = 0;
  /// Bytes of work space that a segment needs at its full rows.
  virtual int64_t scratch_bytes(const Segment& segment) const = 0;
  /// For each node of a segment the phase it is computed in, from 0 and never falling. The nodes of
  /// one phase may run at once and in any order that their data allow, so whatever one of them
  /// reads or makes keeps its memory through the phase. What is used outside of the segment is
  /// stored.
  virtual std::vector<NodePhase> phases(const Segment& segment) const = 0;
  /// Every offset in a buffer is a multiple of this, in bytes; a power of two.
  virtual int64_t alignment() const = 0;

  /// Bytes that one buffer may have.
  virtual int64_t largest_buffer() const { return INT64_MAX; }
  /// out_of_memory or device on failure. Contents are undefined.
  virtual Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) = 0;
  /// Bytes allocated now for a purpose.
  virtual int64_t allocated(Purpose purpose) const = 0;

  /// Reads a weight, packs it and puts it at its place.
  virtual Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) = 0;
  /// Whether devices of this kind compute with weights as they lie in a mapped file: those opened
  /// without DeviceOptions::repack adopt them.
  virtual bool adopts() const { return false; }
  /// A buffer over existing host memory, or null where this device cannot use it as it is.
  virtual std::unique_ptr<Buffer> adopt(const TensorDesc& desc,
                                        std::span<const std::byte> bytes) = 0;

  virtual Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) = 0;
  /// Results where they lie, valid until the next run; null if the host cannot read them there.
  virtual const std::byte* view(const MemoryRef& from) const {
    (void)from;
    return nullptr;
  }
  /// Copies to the host, from the host, and within the device between places that do not overlap.
  virtual Status read(const MemoryRef& from, std::span<std::byte> to) = 0;
  virtual Status write(std::span<const std::byte> from, const MemoryRef& to) = 0;
  virtual Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) = 0;
};

/// The roles for which steps on these devices need programs of their own: `generated` alone where
/// none of them has two classes.
std::span<const Roles> roles_of_programs(std::span<Device* const> devices);

struct DeviceOptions {
  int32_t threads = 0;  ///< of a CPU; 0: all that the process may use
  bool exact = false;   ///< activations stay float32 in products with quantised weights
  bool repack = true;   ///< weights may be laid out anew; else adopt() takes them as they are
  std::string isa;      ///< kernels of this instruction set; empty: the best that runs here
  /// A device of the same back end that computes only while this one does not, and outlives it: its
  /// threads serve both. Null: threads of its own.
  Device* beside = nullptr;
};

/// A back end: one folder in backends/ each.
struct BackendDef {
  const char* name;  ///< "cpu"
  /// The devices present, without opening them.
  std::vector<DeviceInfo> (*list)();
  /// not_found, invalid_argument or device on failure. −1: the best there is.
  Result<std::unique_ptr<Device>> (*open)(int32_t index, const DeviceOptions& options);
};

/// Generated from the folders in backends/.
std::span<const BackendDef* const> all_backends();

/// Opens a device by name: "cpu", "vulkan:1", "vulkan" for the best of several. not_found lists
/// what there is.
Result<std::unique_ptr<Device>> open_device(const std::string& name, const DeviceOptions& options);

}  // namespace infer
