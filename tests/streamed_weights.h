// Weights that a GPU gets from the host's memory: what tests of the back ends share. They hold what
// arrives against what loading packs, and compare models whose layers are on the host or the GPU.
#pragma once

#include <doctest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/gpu/weight_layout.h"
#include "engine/core/checked.h"
#include "engine/session/engine_impl.h"
#include "infer/jobs.hpp"
#include "tests/api/model.h"
#include "tests/api/told_text.h"

namespace infer::test {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(size_t count) {
  std::minstd_rand random(5);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8);
  return bytes;
}

inline ReadFn reads(const Bytes& stored) {
  return [&stored](uint64_t offset, std::span<std::byte> out) -> Status {
    std::memcpy(out.data(), stored.data() + offset, out.size());
    return {};
  };
}

/// A device's memory with a weight that was loaded from these bytes.
inline Bytes loaded(Device& device, const TensorDesc& desc, const Bytes& stored) {
  const auto buffer = device.alloc(device.packed_bytes(desc), Purpose::weights).value();
  Bytes packed(static_cast<size_t>(device.packed_bytes(desc)));
  REQUIRE(device.write(packed, {buffer.get(), 0}).ok());
  REQUIRE(device.load_weight(desc, reads(stored), {buffer.get(), 0}).ok());
  REQUIRE(device.read({buffer.get(), 0}, packed).ok());
  return packed;
}

/// The same weight with rows of zeros behind each matrix, up to whole groups of the GPU's layout:
/// what the host's padding becomes there.
inline Bytes padded(const TensorDesc& desc, int64_t together, const Bytes& stored,
                    TensorDesc& whole) {
  const int64_t rows = round_up(desc.shape[1], together);
  whole = tensor(desc.type, desc.shape[0], rows, desc.shape[2]);
  Bytes bytes(static_cast<size_t>(whole.extent_bytes()));
  const auto own = static_cast<size_t>(desc.shape[1] * desc.row_bytes());
  for (int64_t m = 0; m < desc.shape[2]; ++m) {
    std::memcpy(bytes.data() + m * rows * whole.row_bytes(),
                stored.data() + m * static_cast<int64_t>(own), own);
  }
  return bytes;
}

/// Brings weights of every type, from every layout of the host, to a GPU that groups rows so, and
/// compares what arrives. Returns how many it brought.
inline int check_arrivals(Device& gpu, gpu::WeightLayout (*layout_of)(const TensorDesc&)) {
  int taken = 0;
  for (const std::string isa : {"", "avx2", "scalar", "file"}) {
    DeviceOptions options{.threads = 1, .repack = isa != "file", .isa = isa == "file" ? "" : isa};
    const auto opened = open_device("cpu", options);
    if (!opened) continue;  // not of this processor
    Device& host = **opened;
    for (const DTypeInfo& info : all_dtypes()) {
      // Matrices that are smaller than a piece, one that is larger; rows and blocks that fill no
      // group.
      for (const auto& [k, n, matrices] :
           {std::array<int64_t, 3>{512, 64, 1}, {768, 40, 3}, {32, 24, 2}, {4096, 9000, 1}}) {
        if (k % info.block_elements != 0) continue;
        if (n > 64 && (isa != "" || (info.type != DType::q4_k && info.type != DType::q8_0)))
          continue;
        const TensorDesc desc = tensor(info.type, k, n, matrices);
        const std::optional<HostLayout> layout = host.host_layout(desc);
        if (!layout || !gpu.streams(desc, *layout)) continue;
        ++taken;
        CAPTURE(isa);
        CAPTURE(to_string(desc));
        CAPTURE(layout->rows);
        const Bytes stored = random_bytes(static_cast<size_t>(desc.extent_bytes()));
        const auto memory = host.alloc(host.packed_bytes(desc), Purpose::weights).value();
        REQUIRE(host.load_weight(desc, reads(stored), {memory.get(), 0}).ok());

        const auto place = gpu.alloc(gpu.packed_bytes(desc), Purpose::weights).value();
        const StreamedWeight weight{desc, *layout, memory->address(), {place.get(), 0}};
        const std::span<const StreamedWeight> all(&weight, 1);
        const auto work = gpu.alloc(gpu.stream_bytes(all), Purpose::scratch).value();
        const std::span<const std::byte> data(memory->address(),
                                              static_cast<size_t>(memory->size()));
        const auto stream = gpu.open_stream(all, {&data, 1}, {work.get(), 0}).value();
        Bytes arrived(static_cast<size_t>(gpu.packed_bytes(desc)));
        REQUIRE(gpu.write(arrived, {place.get(), 0}).ok());
        REQUIRE(stream->bring(all, 0).ok());
        REQUIRE(stream->await(0).ok());
        REQUIRE(gpu.read({place.get(), 0}, arrived).ok());

        TensorDesc whole;
        const Bytes rows = padded(desc, layout_of(desc).together, stored, whole);
        REQUIRE(gpu.packed_bytes(whole) == gpu.packed_bytes(desc));
        CHECK((arrived == loaded(gpu, whole, rows)));
      }
    }
  }
  return taken;
}

/// A model on a device other than the CPU: dense, or with eight experts of which each token has
/// two.
class StreamedModel {
 public:
  StreamedModel(std::string device, OpenDevice open, const std::string& type,
                const std::string& shape = "tinyllama-1.1b", int32_t layers = 3)
      : device_(std::move(device)), open_(std::move(open)), path_(dir_.path("streams") + ".gguf") {
    SynthOptions small;
    small.shape = shape;
    small.type = type;
    small.layers = layers;
    small.embedding = small.feed_forward = 256;
    small.heads = 4;
    small.kv_heads = 2;
    small.tokens = 300;
    REQUIRE(synth(path_, small).ok());
  }

  const std::string& path() const { return path_; }
  LoadOptions options(const std::string& on_host, bool stream = true) const {
    LoadOptions options;
    options.device = device_;
    options.threads = 1;
    options.context = 512;
    options.batch_rows = 256;
    options.stream_weights = stream;
    if (!on_host.empty()) options.placements.push_back({on_host, "cpu"});
    return options;
  }
  Result<std::unique_ptr<Engine>> open(const LoadOptions& options) const {
    return Engine::Impl::open(path_, options, open_);
  }
  std::unique_ptr<Engine> load(const LoadOptions& options) const {
    auto engine = open(options);
    REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    return *std::move(engine);
  }

 private:
  TempDir dir_;
  std::string device_;
  OpenDevice open_;
  std::string path_;
};

inline std::vector<float> logits(Engine& engine, const std::vector<int32_t>& prompt) {
  const auto session = open(engine);
  std::vector<float> all;
  const Status status = session->evaluate(prompt, [&](int64_t, std::span<const float> row) {
    all.insert(all.end(), row.begin(), row.end());
    return true;
  });
  REQUIRE_MESSAGE(status.ok(), status.message());
  return all;
}

inline std::vector<float> logits_one_by_one(Engine& engine, const std::vector<int32_t>& prompt) {
  const auto session = open(engine);
  std::vector<float> all;
  for (const int32_t token : prompt) {
    const Status status =
        session->evaluate(std::span(&token, 1), [&](int64_t, std::span<const float> row) {
          all.insert(all.end(), row.begin(), row.end());
          return true;
        });
    REQUIRE_MESSAGE(status.ok(), status.message());
  }
  return all;
}

/// Has calls of the driver fail that a prompt through layers of the host makes: a typed failure
/// comes of each or none, and nothing is leaked. Driver: fail_after(), places(), failed(), live().
/// `last`: the last call from every place too. Returns the functions that failed.
template <typename Driver>
std::set<std::string> check_failing_streams(Driver& driver, const StreamedModel& model, bool last) {
  LoadOptions load = model.options("ffn_(up|gate|down)");
  load.batch_rows = 33;
  const std::vector<int32_t> prompt = text(34, 3);
  const auto run = [&]() -> Result<std::vector<int32_t>> {
    INFER_TRY(const std::unique_ptr<Engine> engine, model.open(load));
    INFER_TRY(const std::unique_ptr<Session> session, engine->open_session());
    std::vector<int32_t> tokens;
    const auto take = [&](int32_t token, std::string_view) {
      tokens.push_back(token);
      return true;
    };
    INFER_TRY(const GenerateResult made, session->generate(prompt, sampled(3), take));
    CHECK(made.generated_tokens == 3);
    return tokens;
  };
  driver.fail_after(-1);
  const std::vector<int32_t> expected = run().value();
  std::set<std::string> failed;
  for (const int64_t n : driver.places(last)) {
    driver.fail_after(n);
    const auto made = run();
    INFO("call " << n << ": " << driver.failed());
    failed.insert(driver.failed());
    CHECK(driver.live() == 0);
    if (made) {
      CHECK(*made == expected);
      continue;
    }
    const StatusCode code = made.error().code();
    CHECK((code == StatusCode::device || code == StatusCode::out_of_memory));
  }
  return failed;
}

}  // namespace infer::test
