// A CPU that plays another device: with a name, limits and memory of its own choice, which the host
// sees only if it says so, and which can be lost.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "engine/backend/device.h"

namespace infer::test {

/// Forwards to a CPU; what differs is set before use.
class TestDevice final : public Device {
 public:
  explicit TestDevice(std::string name, const DeviceOptions& options = {1})
      : name_(std::move(name)), cpu_(open_device("cpu", options).value()) {}

  int64_t largest = INT64_MAX;                    ///< bytes of a buffer
  bool visible = true;                            ///< its memory, to the host
  int64_t free = -1;                              ///< bytes of memory of its own; −1: the host's
  int32_t refused_layer = -1;                     ///< of which it cannot compute anything
  bool searches = false;                          ///< finds the largest values of rows
  int64_t searched = 0;                           ///< how often it did
  bool computes_beside = false;                   ///< while the thread that submits goes on
  std::function<void(const Segment&)> on_submit;  ///< called when a program of the segment starts
  /// Set from any thread, also when the device is gone: from then on whatever it is asked to do
  /// fails.
  const std::shared_ptr<std::atomic<bool>> lost = std::make_shared<std::atomic<bool>>(false);

  DeviceInfo info() const override {
    DeviceInfo info = cpu_->info();
    info.name = name_;
    if (free >= 0) {
      info.memory = MemoryKind::own;
      info.memory_total = info.memory_free = free;
      info.memory_held = 0;
    }
    return info;
  }
  Ceilings measure_ceilings() override { return {}; }
  bool asynchronous() const override { return computes_beside; }
  Status capability(const Graph& graph, const Node& node) const override {
    if (refused_layer >= 0 && node.unit.layer == refused_layer) {
      return {StatusCode::unsupported, "not this layer"};
    }
    return cpu_->capability(graph, node);
  }
  int64_t packed_bytes(const TensorDesc& desc) const override { return cpu_->packed_bytes(desc); }
  int64_t scratch_bytes(const Segment& segment) const override {
    return cpu_->scratch_bytes(segment);
  }
  std::vector<NodePhase> phases(const Segment& segment) const override {
    return cpu_->phases(segment);
  }
  int64_t alignment() const override { return cpu_->alignment(); }
  int64_t largest_buffer() const override { return largest; }
  Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) override {
    INFER_CHECK_R(alive());
    if (bytes > largest) return fail(StatusCode::out_of_memory, "{} bytes at once", bytes);
    return cpu_->alloc(bytes, purpose);
  }
  int64_t allocated(Purpose purpose) const override { return cpu_->allocated(purpose); }
  Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) override {
    return cpu_->load_weight(desc, read, to);
  }
  std::unique_ptr<Buffer> adopt(const TensorDesc& desc, std::span<const std::byte> bytes) override {
    return cpu_->adopt(desc, bytes);
  }
  Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) override {
    INFER_CHECK_R(alive());
    auto program = std::make_unique<TestProgram>(*this, spec.segment);
    INFER_TRY(program->on_cpu, cpu_->compile(spec));
    return program;
  }
  const std::byte* view(const MemoryRef& from) const override {
    return visible ? cpu_->view(from) : nullptr;
  }
  Status read(const MemoryRef& from, std::span<std::byte> to) override {
    INFER_CHECK(alive());
    return cpu_->read(from, to);
  }
  bool finds_largest() const override { return searches; }
  Status near_largest(const MemoryRef& values, int64_t columns, int64_t rows, float reach,
                      std::vector<std::vector<IndexedValue>>& found) override {
    INFER_CHECK(alive());
    ++searched;
    const auto* row = reinterpret_cast<const float*>(cpu_->view(values));
    found.assign(static_cast<size_t>(rows), {});
    for (std::vector<IndexedValue>& list : found) {
      float best = -std::numeric_limits<float>::infinity();
      for (int64_t i = 0; i < columns; ++i) best = row[i] > best ? row[i] : best;
      for (int64_t i = columns; i-- > 0;) {
        if (row[i] >= best - reach) list.push_back({static_cast<int32_t>(i), row[i]});
      }
      if (static_cast<int64_t>(list.size()) > kMostListed) list.clear();
      row += columns;
    }
    return {};
  }
  Status write(std::span<const std::byte> from, const MemoryRef& to) override {
    INFER_CHECK(alive());
    return cpu_->write(from, to);
  }
  Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) override {
    INFER_CHECK(alive());
    return cpu_->copy(from, to, bytes);
  }

 private:
  struct TestProgram final : Program {
    TestProgram(const TestDevice& on, const Segment& of) : device(on), segment(of) {}
    ~TestProgram() override { static_cast<void>(wait()); }
    Status submit(const Bindings& bindings) override {
      INFER_CHECK(device.alive());
      if (device.on_submit) device.on_submit(segment);
      if (!device.computes_beside) return on_cpu->run(bindings);
      running = std::async(std::launch::async, [this, bindings] { return on_cpu->run(bindings); });
      return {};
    }
    Status wait() override { return running.valid() ? running.get() : Status(); }

    const TestDevice& device;
    Segment segment;
    std::unique_ptr<Program> on_cpu;
    std::future<Status> running;
  };

  Status alive() const {
    return *lost ? error(StatusCode::device, "{} was lost", name_) : Status();
  }

  std::string name_;
  std::unique_ptr<Device> cpu_;
};

}  // namespace infer::test
