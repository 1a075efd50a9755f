// A file of tensors made byte by byte, opened as a checkpoint.
#pragma once

#include <doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/quant/quant.h"
#include "engine/weights/weight_source.h"
#include "formats/safetensors/source.h"
#include "tests/formats/raw_safetensors.h"
#include "tests/support.h"

namespace infer::test {

/// Numbers of a fixed sequence.
class Numbers {
 public:
  uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<uint32_t>(n)); }
  float unit() { return static_cast<float>(next() % 1000 + 1) * 0.001f; }

 private:
  uint64_t state_ = 7;
};

/// All values of a weight, read in uneven parts.
inline std::vector<float> values_of(const WeightSource& source, const std::string& name) {
  const Weight* weight = source.find(name);
  REQUIRE(weight != nullptr);
  const auto bytes = static_cast<size_t>(weight->desc.extent_bytes());
  std::vector<std::byte> whole(bytes);
  REQUIRE(source.read(weight->place, 0, whole).ok());
  std::vector<std::byte> parts(bytes);
  for (size_t at = 0, step = 1; at < bytes; at += step, step = step * 3 + 2) {
    step = std::min(step, bytes - at);
    REQUIRE(source.read(weight->place, at, std::span(parts).subspan(at, step)).ok());
  }
  CHECK(whole == parts);
  std::vector<float> values(static_cast<size_t>(weight->desc.elements()));
  quant_traits(weight->desc.type).decode(whole.data(), values.data(), weight->desc.elements());
  return values;
}

class Checkpoint {
 public:
  /// A file with the tensors, and a config.json with the method of quantisation where that counts.
  explicit Checkpoint(const RawSafetensors& tensors, const std::string& quantisation = "") {
    write_bytes(path(), bytes_of(tensors.bytes()));
    if (quantisation.empty()) return;
    const std::string config = R"({"quantization_config":)" + quantisation + "}";
    write_bytes(dir_.path("config.json"), bytes_of(config));
  }
  std::string path() const { return dir_.path("w.safetensors"); }
  Result<std::unique_ptr<WeightSource>> open() const { return safetensors::open_source(path()); }

 private:
  TempDir dir_;
};

/// The failure names the file and says why.
inline void refused(const RawSafetensors& tensors, const char* why, StatusCode code,
                    const std::string& quantisation = "") {
  const Checkpoint checkpoint(tensors, quantisation);
  const auto source = checkpoint.open();
  CAPTURE(why);
  REQUIRE_FALSE(source.has_value());
  INFO(source.error().message());
  CHECK(source.error().code() == code);
  CHECK(source.error().message().find(why) != std::string::npos);
}

/// Opening succeeds and every weight reads, or there is a typed error that names the file.
inline bool opens_or_says(const Checkpoint& checkpoint) {
  const auto source = checkpoint.open();
  if (!source) {
    CHECK(source.error().code() != StatusCode::internal);
    CHECK(source.error().message().find("w.safetensors") != std::string::npos);
    return false;
  }
  for (const Weight& weight : (*source)->weights()) {
    std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
    const Status status = (*source)->read(weight.place, 0, data);
    CHECK(status.code() != StatusCode::internal);
  }
  return true;
}

}  // namespace infer::test
