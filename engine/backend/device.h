// The contract of a back end. A back end lists and opens devices. A device allocates memory and
// compiles segments of a graph into programs.
//
// Sizes and offsets are bytes unless a comment says otherwise. A pointer never passes ownership; a
// unique_ptr does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/profiler.h"
#include "engine/core/status.h"
#include "engine/graph/graph.h"

namespace infer {

class ThreadPool;

/// What memory is used for. `infer plan` prints a line for each. `host`: what the engine keeps in
/// host memory for its steps (host_bytes.h). `process`: the program itself, that is code,
/// vocabulary, graphs and the threads' stacks; on a GPU what its programs take, and
/// what buffers are rounded up to.
enum class Purpose : uint8_t { weights, kv, activations, scratch, host, process };
inline constexpr int kPurposeCount = 6;
const char* purpose_name(Purpose purpose);

/// Which memory a device allocates from.
enum class MemoryKind : uint8_t {
  host,    ///< the host's memory (a processor)
  shared,  ///< the host's memory, up to the device's own limit (integrated graphics)
  own,     ///< the device's own memory (a graphics card)
};

struct DeviceInfo {
  std::string name;          ///< "cpu", "vulkan:0"
  std::string description;   ///< "AMD EPYC 7B13, avx2"
  int64_t memory_total = 0;  ///< bytes
  int64_t memory_free = 0;   ///< bytes available now
  MemoryKind memory = MemoryKind::own;
  int64_t memory_held = 0;   ///< CPU: bytes of host memory that this process uses already
  int64_t thread_stack = 0;  ///< CPU: bytes of host memory for the stack of each thread
  int32_t threads = 0;       ///< CPU: threads that compute
  int32_t streams = 0;       ///< CPU: places of a matrix that a thread reads at once for a token
  std::string isa;           ///< CPU: instruction set of the kernels in use
  std::vector<std::string> isas;  ///< CPU: instruction sets built in, runnable here or not
  std::string pci;                ///< where it is on the bus: "0000:01:00.0"; empty: not known
  Status usable;                  ///< ok, or unsupported with the feature that the device lacks
  /// The device's limits by name. A name that ends in "_bytes" has a value in bytes.
  std::vector<std::pair<std::string, int64_t>> limits;
  std::vector<std::string> features;  ///< optional features that the device has
};

/// Measured limits of the device. infer/jobs.hpp, BenchReport, says how each is used.
struct Ceilings {
  double read_bandwidth_gb_s = 0;  ///< 10⁹ bytes a second
  double int8_mac_g_s = 0;         ///< 10⁹ multiply-accumulates of int8 a second
  /// 10⁹ multiply-accumulates of float16 a second; 0 unless the device multiplies quantised weights
  /// with prompts so, in a numeric class of their own (Device::two_classes).
  double prompt_mac_g_s = 0;
};

/// A value of a row and its index there.
struct IndexedValue {
  int32_t index;
  float value;
};

/// Device memory. The destructor frees it and lowers Device::allocated().
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual int64_t size() const = 0;  ///< bytes
  /// The address that kernels use. On a CPU it is a host pointer; elsewhere the host must not read
  /// or write through it.
  virtual std::byte* address() const = 0;
  /// Whether it is a part of a mapped file (Device::adopt), whose pages can be read again.
  virtual bool in_file() const { return false; }
};

/// The memory of a value: a buffer and the byte at which the value starts.
struct MemoryRef {
  Buffer* buffer = nullptr;  ///< not owned
  int64_t offset = 0;        ///< bytes
};

/// The inputs of one run. The caller keeps all of them valid until Program::wait() returns.
struct Bindings {
  int64_t rows = 0;     ///< tokens of this step, at most Graph::max_rows()
  int64_t outputs = 0;  ///< rows whose results are wanted, at most Graph::max_outputs()
  /// By ValueId of the graph: host memory. Null for a value that is not an input.
  std::span<const std::byte* const> inputs;
  /// By kind of the KvLayout. Slab addresses are this device's; block tables are in host memory.
  std::span<const KvPages> pages;
  /// Receives the times of each phase. Null: no times are taken.
  Profiler* profiler = nullptr;
  /// The first `generated` rows are tokens that the model made; the rest were given. Used only if
  /// the segment mixes roles (`Roles::both`).
  int64_t generated = 0;
};

/// A compiled segment. It does one run at a time. It must not outlive its device or the memory and
/// the graph that it was compiled with.
class Program {
 public:
  virtual ~Program() = default;
  /// Starts a run. The programs of a device run in the order in which they are submitted. Until
  /// wait() returns, nothing else uses the memory of the run's inputs and results, apart from later
  /// programs of the same device. Errors: device, out_of_memory; then there is no run to wait for.
  virtual Status submit(const Bindings& bindings) = 0;
  /// Returns when the run is done and its results can be read. Errors: device, out_of_memory.
  virtual Status wait() = 0;
  /// Both.
  Status run(const Bindings& bindings);
};

struct CompileSpec {
  Segment segment;
  /// By ValueId. Weights and stored results have memory; views and inputs have none.
  std::span<const MemoryRef> memory;
  MemoryRef scratch;  ///< work space of scratch_bytes(segment) or more
  /// The weights are a mapped file that is larger than memory. The program drops the pages of each
  /// layer's weights after it has used them.
  bool spill = false;
};

/// How a weight lies in the host's memory, for devices that copy it from there. A matrix is divided
/// into groups of `rows` rows, of which the last may be filled up. A group has its blocks one after
/// the other, a block its fields, and a field each unit of all rows side by side.
struct HostLayout {
  /// Bytes of a stored block, in order: `count` units of `unit` bytes.
  struct Field {
    int32_t unit = 0;
    int32_t count = 0;
  };
  int64_t rows = 1;           ///< 1: as in the file
  std::vector<Field> fields;  ///< together a block of the type; none with rows = 1
};

/// A weight in the host's memory, and its place on the device that gets it.
struct StreamedWeight {
  TensorDesc desc;
  HostLayout layout;
  const std::byte* data = nullptr;
  MemoryRef to;  ///< packed_bytes() there
};

/// Brings weights from the host's memory to a device while that computes. The weights of one step
/// take turns in two places.
class WeightStream {
 public:
  static constexpr int kPlaces = 2;
  virtual ~WeightStream() = default;
  /// Starts to bring weights to a place, as soon as the programs that were submitted so far have
  /// run; returns at once where the device copies by itself. Errors: device, out_of_memory.
  virtual Status bring(std::span<const StreamedWeight> weights, int place) = 0;
  /// Programs that are submitted from now on wait for what was brought to this place last. Errors:
  /// device.
  virtual Status await(int place) = 0;
};

/// Reads the stored bytes of a weight: fills `out` with the bytes from `offset` on.
using ReadFn = std::function<Status(uint64_t offset, std::span<std::byte> out)>;

/// When a node runs, and whether its results need memory.
struct NodePhase {
  int32_t phase = 0;
  bool stored = true;  ///< false: the results stay inside one kernel call and need no memory
};

/// One device. Only one thread at a time may allocate, load, copy or compile. Any thread may call
/// the const queries at any time.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceInfo info() const = 0;
  virtual Ceilings measure_ceilings() = 0;
  /// The threads of a CPU. Others may use them while no program of the device runs. Null if the
  /// device is not a CPU.
  virtual ThreadPool* threads() const { return nullptr; }

  /// True if Program::submit() returns while the device still computes; false if it computes
  /// before it returns.
  virtual bool asynchronous() const { return false; }

  /// Ok if the device can run the node; otherwise unsupported, with the reason.
  virtual Status capability(const Graph& graph, const Node& node) const = 0;

  /// True if tokens of a prompt are computed in another numeric class than generated tokens. A
  /// row's results then depend on its role (Roles).
  virtual bool two_classes() const { return false; }

  /// True if programs also keep recurrent states from within a step: entry e ≥ 1 of a sequence's
  /// table of such pages, if the table is so long and the entry is not −1, is the page that gets
  /// the states after the first e rows of the sequence in the step.
  virtual bool keeps_row_states() const { return false; }

  /// Bytes of a weight in this device's layout: a multiple of alignment().
  virtual int64_t packed_bytes(const TensorDesc& desc) const = 0;
  /// Bytes of work space for a segment at the most rows that its graph allows.
  virtual int64_t scratch_bytes(const Segment& segment) const = 0;
  /// The phase of each node of a segment. Phases start at 0 and never decrease. Nodes of one phase
  /// may run at the same time, in any order that their data allows. Therefore every value that a
  /// node of a phase reads or makes keeps its memory until the phase ends. A result used outside
  /// the segment is always stored.
  virtual std::vector<NodePhase> phases(const Segment& segment) const = 0;
  /// Bytes. Every offset in a buffer is a multiple of this. A power of two.
  virtual int64_t alignment() const = 0;

  /// Loads what the device needs to compute with weights of these types. What that takes no longer
  /// counts as free afterwards. Errors: device, out_of_memory.
  virtual Status prepare(std::span<const DType> weights) {
    (void)weights;
    return {};
  }
  /// Bytes of the device's own memory that a program takes beside values and work space.
  virtual int64_t program_bytes(const Segment& segment) const {
    (void)segment;
    return 0;
  }
  /// Bytes by which the device's free memory falls if buffers of these sizes are allocated in this
  /// order: what they are rounded up to.
  virtual int64_t taken_by(std::span<const int64_t> buffers) const;

  /// Bytes of the largest buffer that alloc() can make.
  virtual int64_t largest_buffer() const { return INT64_MAX; }
  /// Allocates memory with undefined contents. Errors: out_of_memory, device.
  virtual Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) = 0;
  /// Bytes now allocated for a purpose. Adopted memory does not count.
  virtual int64_t allocated(Purpose purpose) const = 0;

  /// Reads a weight, packs it into this device's layout and stores it at `to`. Errors: those of
  /// `read`, device, out_of_memory.
  virtual Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) = 0;
  /// True if devices of this kind can use weights directly in a mapped file. A device must be
  /// opened with DeviceOptions::repack = false for that.
  virtual bool adopts() const { return false; }
  /// Wraps existing host memory in a buffer without copying; the memory must outlive the buffer.
  /// Null if this device cannot use the bytes as they are.
  virtual std::unique_ptr<Buffer> adopt(const TensorDesc& desc,
                                        std::span<const std::byte> bytes) = 0;

  /// How a weight that this device has loaded lies in the host's memory. None: it does not, or its
  /// numbers are not those of the file.
  virtual std::optional<HostLayout> host_layout(const TensorDesc& desc) const {
    (void)desc;
    return std::nullopt;
  }
  /// True if a WeightStream of this device brings weights that lie so.
  virtual bool streams(const TensorDesc& desc, const HostLayout& layout) const {
    (void)desc, (void)layout;
    return false;
  }
  /// Bytes of work space of a stream of these weights, whose data may be null.
  virtual int64_t stream_bytes(std::span<const StreamedWeight> weights) const {
    (void)weights;
    return 0;
  }
  /// `weights`: all that it will bring. `host`: the memory that has them, which outlives the
  /// stream. `work`: stream_bytes(weights). Errors: unsupported unless streams(); device;
  /// out_of_memory.
  virtual Result<std::unique_ptr<WeightStream>> open_stream(
      std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
      const MemoryRef& work);

  /// Compiles a segment. Errors: unsupported if capability() refuses a node; device; out_of_memory.
  virtual Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) = 0;
  /// A host pointer to results in place, valid until the next run. Null if the host cannot read
  /// this device's memory; use read() then.
  virtual const std::byte* view(const MemoryRef& from) const {
    (void)from;
    return nullptr;
  }
  /// Copies from the device to the host. Like write() and copy() it returns when the copy is done.
  virtual Status read(const MemoryRef& from, std::span<std::byte> to) = 0;
  /// True if near_largest() works here and moves less than read() would.
  virtual bool finds_largest() const { return false; }
  /// Finds in each row of f32 values [columns, 1, rows] those that are at most `reach` (finite, 0
  /// or more) below the row's largest. Sets found[row] to them, in any order; to nothing if they
  /// are more than the device lists (at least kMostListed), or the row has no number. Errors: those
  /// of read(); unsupported unless finds_largest().
  virtual Status near_largest(const MemoryRef& values, int64_t columns, int64_t rows, float reach,
                              std::vector<std::vector<IndexedValue>>& found);
  static constexpr int64_t kMostListed = 256;
  /// Copies from the host to the device.
  virtual Status write(std::span<const std::byte> from, const MemoryRef& to) = 0;
  /// Copies within the device. The two ranges must not overlap.
  virtual Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) = 0;
  /// True if copy_from() works for this device.
  virtual bool reaches(const Device& other) const {
    (void)other;
    return false;
  }
  /// Copies from another device's memory to this one's without the host. Errors: those of copy().
  virtual Status copy_from(Device& other, const MemoryRef& from, const MemoryRef& to,
                           int64_t bytes);
};

/// The roles that need programs of their own on these devices. There is one, `generated`, without a
/// device of two numeric classes, unless prompts are computed on other devices (`apart`).
std::span<const Roles> roles_of_programs(std::span<Device* const> devices, bool apart = false);

struct DeviceOptions {
  int32_t threads = 0;  ///< CPU: how many; 0: as many as the process may use
  bool exact = false;   ///< activations stay float32 in products with quantised weights
  bool repack = true;   ///< weights are packed into the device's layout; false: see adopts()
  std::string isa;      ///< CPU: kernels of this instruction set; empty: the best that runs here
  /// Another device of the same back end, whose threads this one shares. The two never compute at
  /// the same time. The other outlives this one. Null: this device has threads of its own.
  Device* beside = nullptr;
};

/// A back end. Each is a folder in backends/.
struct BackendDef {
  const char* name;  ///< "cpu"
  /// Lists the devices present without opening them.
  std::vector<DeviceInfo> (*list)();
  /// Opens the device with this index; −1: the best one. Errors: not_found, invalid_argument,
  /// unsupported, device, out_of_memory.
  Result<std::unique_ptr<Device>> (*open)(int32_t index, const DeviceOptions& options);
};

/// All back ends. CMake generates the list from the folders in backends/.
std::span<const BackendDef* const> all_backends();

/// Opens a device by name: "cpu", "vulkan:1", or "vulkan" for the best one. Errors: not_found for
/// an unknown back end, with those of this build; otherwise those of BackendDef::open.
Result<std::unique_ptr<Device>> open_device(const std::string& name, const DeviceOptions& options);

}  // namespace infer
