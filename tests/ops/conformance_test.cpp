// Every device of this build against the scalar references, by the runner behind `infer selftest`;
// and that runner against devices that are wrong on purpose.
#include "engine/jobs/conformance.h"

#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "engine/core/thread_pool.h"
#include "tests/devices.h"
#include "tests/validation.h"

namespace infer {
namespace {

/// Passes everything on to another device, and spoils the results of a run.
class SpoiltDevice final : public Device {
 public:
  using Spoil = std::function<void(const CompileSpec&)>;
  SpoiltDevice(Device& device, Spoil spoil) : device_(device), spoil_(std::move(spoil)) {}

  DeviceInfo info() const override { return device_.info(); }
  Ceilings measure_ceilings() override { return device_.measure_ceilings(); }
  Status capability(const Graph& graph, const Node& node) const override {
    return device_.capability(graph, node);
  }
  int64_t packed_bytes(const TensorDesc& desc) const override { return device_.packed_bytes(desc); }
  int64_t scratch_bytes(const Segment& segment) const override {
    return device_.scratch_bytes(segment);
  }
  std::vector<NodePhase> phases(const Segment& segment) const override {
    return device_.phases(segment);
  }
  int64_t alignment() const override { return device_.alignment(); }
  Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) override {
    return device_.alloc(bytes, purpose);
  }
  int64_t allocated(Purpose purpose) const override { return device_.allocated(purpose); }
  Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) override {
    return device_.load_weight(desc, read, to);
  }
  std::unique_ptr<Buffer> adopt(const TensorDesc& desc, std::span<const std::byte> bytes) override {
    return device_.adopt(desc, bytes);
  }
  Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) override {
    INFER_TRY(auto program, device_.compile(spec));
    return std::make_unique<SpoiltProgram>(std::move(program), spec, spoil_);
  }
  Status read(const MemoryRef& from, std::span<std::byte> to) override {
    return device_.read(from, to);
  }
  Status write(std::span<const std::byte> from, const MemoryRef& to) override {
    return device_.write(from, to);
  }
  Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) override {
    return device_.copy(from, to, bytes);
  }

 private:
  class SpoiltProgram final : public Program {
   public:
    SpoiltProgram(std::unique_ptr<Program> program, const CompileSpec& spec, Spoil spoil)
        : program_(std::move(program)),
          segment_(spec.segment),
          memory_(spec.memory.begin(), spec.memory.end()),
          scratch_(spec.scratch),
          spoil_(std::move(spoil)) {}
    Status submit(const Bindings& bindings) override { return program_->submit(bindings); }
    Status wait() override {
      INFER_CHECK(program_->wait());
      spoil_({segment_, memory_, scratch_});
      return {};
    }

   private:
    std::unique_ptr<Program> program_;
    Segment segment_;
    std::vector<MemoryRef> memory_;
    MemoryRef scratch_;
    Spoil spoil_;
  };

  Device& device_;
  Spoil spoil_;
};

std::unique_ptr<Device> open_cpu() {
  Result<std::unique_ptr<Device>> device = open_device("cpu", {.threads = 1});
  REQUIRE(device.has_value());
  return *std::move(device);
}

/// Where the case's result lies, and its bytes.
std::byte* result_of(const CompileSpec& spec, int64_t& bytes) {
  const ValueId id = spec.segment.graph->storage(spec.segment.graph->outputs().at(0));
  bytes = spec.segment.graph->value(id).desc.extent_bytes();
  const MemoryRef& at = spec.memory[static_cast<size_t>(id)];
  return at.buffer->address() + at.offset;
}

SelftestReport report_of_spoilt(const std::string& op, SpoiltDevice::Spoil spoil) {
  const std::unique_ptr<Device> cpu = open_cpu();
  SpoiltDevice spoilt(*cpu, std::move(spoil));
  return run_conformance(spoilt, false, op);
}

void expect_every_case(const SelftestReport& report, const char* message) {
  CHECK(report.passed == 0);
  CHECK(report.failed > 0);
  for (const std::string& failure : report.failures) {
    CHECK_MESSAGE(failure.find(message) != std::string::npos, failure);
  }
}

bool is_product(const OpDef& op) {
  return op.id == OpId::Matmul || op.id == OpId::MoeMatmul || op.id == OpId::HeadMatmul;
}

/// Cases for where each takes long, as on a device that compiles a kernel for each type and form,
/// or under a sanitizer: `infer selftest` runs all. The types are the same code in all products.
/// Each of them meets one row and several; a few, some stored as one plane and some as several,
/// meet every form.
bool compiled_cases(const OpDef& op, const OpCase& c) {
  if (op.id == OpId::TextAttention) {  // several pages of keys where the kind of case needs them
    const bool large = c.name.find("128:1") != std::string::npos;
    return c.name.ends_with("rows 33 texts 3") ||
           (!large && c.name.ends_with("rows 130 texts 1")) ||
           (c.name.starts_with("one head") && !c.name.ends_with("rows 300 texts 2"));
  }
  if (op.id == OpId::Attention) {  // of one row, and of several rows of several sequences
    constexpr std::pair<int64_t, int32_t> kLeftOut[] = {{2, 1}, {2, 3}, {3, 1}, {33, 1}, {130, 1}};
    return std::ranges::find(kLeftOut, std::pair(c.rows, c.sequences)) == std::end(kLeftOut);
  }
  if (!is_product(op) || c.name.find("product") != std::string::npos) return true;
  for (const char* type : {"f32 ", "f16 ", "q4_0 ", "q6_k ", "iq2_xs "}) {
    if (c.name.starts_with(type)) return true;
  }
  return op.id == OpId::Matmul &&
         (c.name.ends_with("n 7 rows 1") || c.name.ends_with("n 50 rows 3"));
}

TEST_CASE("every operation on every device") {
  for (const BackendDef* backend : all_backends()) {
    for (const DeviceInfo& info : test::usable_devices(*backend)) {
      const bool on_cpu = info.threads > 0;
      // A driver that compiles kernels when they are asked for takes its time for each.
      const bool compiles = info.name.starts_with("vulkan");
      const bool emulated = info.name.starts_with("cuda");
      for (const bool exact : {false, true}) {
        CAPTURE(info.name);
        const auto device =
            test::open_watched(info.name, {.threads = on_cpu ? 3 : 0, .exact = exact});
        REQUIRE_MESSAGE(device.has_value(), info.name);
        const auto wanted = [&](const OpDef& op, const OpCase& c) {
          if (exact && !is_product(op)) return false;  // nothing else is rounded
          return test::all_cases() || !(compiles || emulated) || compiled_cases(op, c);
        };
        const SelftestReport report = run_conformance(**device, exact, wanted);
        CHECK(report.passed > 0);
        for (const std::string& failure : report.failures) FAIL_CHECK(failure);
        const std::string summary =
            fmt::format("{}{}: {} passed, {} unsupported", info.name, exact ? ", exact" : "",
                        report.passed, report.unsupported);
        MESSAGE(summary);
      }
    }
  }
}

// Otherwise weights are packed, which concerns the operations that read weights alone.
TEST_CASE("every instruction set of the CPU takes weights as they lie in the file") {
  for (const std::string& isa : open_cpu()->info().isas) {
    CAPTURE(isa);
    const auto device = open_device("cpu", {.threads = 2, .repack = false, .isa = isa});
    if (!device) {
      test::skipped(isa + ": " + device.error().message());
      continue;
    }
    for (const char* op : {"embed", "matmul", "moe_matmul", "head_matmul"}) {
      const SelftestReport report = run_conformance(**device, false, op);
      CHECK(report.passed > 0);
      for (const std::string& failure : report.failures) FAIL_CHECK(failure);
    }
  }
}

/// The bytes of all results of the conformance cases, in their order.
std::vector<std::vector<std::byte>> results_on(const std::string& isa, int threads, bool exact) {
  const auto device = open_device("cpu", {.threads = threads, .exact = exact, .isa = isa});
  if (!device) return {};
  std::vector<std::vector<std::byte>> results;
  SpoiltDevice watched(**device, [&](const CompileSpec& spec) {
    int64_t bytes = 0;
    const std::byte* result = result_of(spec, bytes);
    results.emplace_back(result, result + bytes);
  });
  const SelftestReport report =
      run_conformance(watched, exact, [exact](const OpDef& op, const OpCase& c) {
        if (exact && !is_product(op)) return false;  // nothing else is rounded
#ifdef INFER_SANITIZED
        return test::all_cases() || compiled_cases(op, c);
#else
        (void)c;
        return true;
#endif
      });
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  return results;
}

TEST_CASE("every instruction set of the CPU gives the same bits") {
  for (const bool exact : {false, true}) {
    CAPTURE(exact);
    const auto first = results_on("scalar", 2, exact);
    REQUIRE(!first.empty());
    for (const std::string& isa : open_cpu()->info().isas) {
      if (isa == "scalar") continue;
      CAPTURE(isa);
      const auto results = results_on(isa, 1, exact);
      if (results.empty()) continue;  // does not run here
      REQUIRE(results.size() == first.size());
      size_t different = 0;
      for (size_t i = 0; i < first.size(); ++i) different += results[i] != first[i] ? 1 : 0;
      CHECK(different == 0);
    }
  }
}

TEST_CASE("every operation but a store has cases") {
  const std::unique_ptr<Device> cpu = open_cpu();
  for (const OpDef* op : all_ops()) {
    std::vector<OpCase> cases;
    op->cases(cases);
    CHECK_MESSAGE(cases.empty() == (op->id == OpId::KvStore), op->name);
  }
}

TEST_CASE("the runner sees one wrong value") {
  const SelftestReport report = report_of_spoilt("add", [](const CompileSpec& spec) {
    int64_t bytes = 0;
    std::byte* result = result_of(spec, bytes);
    float first = 0;
    std::memcpy(&first, result, sizeof(first));
    first += 1e-3f;
    std::memcpy(result, &first, sizeof(first));
  });
  expect_every_case(report, "normalised squared error");
}

TEST_CASE("the runner sees a value that is not a number") {
  const SelftestReport report = report_of_spoilt("scale", [](const CompileSpec& spec) {
    int64_t bytes = 0;
    std::memset(result_of(spec, bytes), 0xff, sizeof(float));
  });
  expect_every_case(report, "inf");
}

TEST_CASE("the runner sees a wrong expert") {
  const SelftestReport report = report_of_spoilt("moe_route", [](const CompileSpec& spec) {
    int64_t bytes = 0;
    std::byte* ids = result_of(spec, bytes);
    ids[0] ^= std::byte{1};
  });
  expect_every_case(report, "element 0 of row 0 differs");
}

TEST_CASE("the runner sees a write behind a result") {
  const SelftestReport report = report_of_spoilt("softcap", [](const CompileSpec& spec) {
    int64_t bytes = 0;
    std::byte* result = result_of(spec, bytes);
    result[bytes] = std::byte{0};
  });
  expect_every_case(report, "outside of the values");
}

TEST_CASE("the runner sees a write behind the scratch") {
  const SelftestReport report = report_of_spoilt("embed", [](const CompileSpec& spec) {
    spec.scratch.buffer->address()[spec.scratch.offset - 1] = std::byte{0};
  });
  expect_every_case(report, "outside of the values");
}

}  // namespace
}  // namespace infer
