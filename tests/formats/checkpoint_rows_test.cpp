// Tables of a checkpoint that have fewer rows than the model has tokens.
#include <doctest.h>

#include "engine/model/checkpoint_tensors.h"
#include "formats/safetensors/source.h"
#include "tests/formats/raw_safetensors.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("checkpoint: the first row stands for those that a table lacks") {
  constexpr int64_t kWidth = 3;
  constexpr int64_t kStored = 4;
  std::vector<float> table(kWidth * kStored);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i + 1);
  TempDir dir;
  RawSafetensors file;
  file.put("table", "F32", {kStored, kWidth}, table);
  write_bytes(dir.path("w.safetensors"), bytes_of(file.bytes()));
  for (const int64_t rows : {3, 4, 6, 9}) {
    INFO(rows);
    auto raw = safetensors::open_source(dir.path("w.safetensors"));
    REQUIRE(raw.has_value());
    CheckpointConfig config((*raw)->metadata());
    CheckpointTensors tensors(**raw, config, std::nullopt);
    tensors.copy_rows("table", "made", rows);
    tensors.copy_rows("absent", "none", rows);
    REQUIRE(config.status().ok());
    const MappedSource made(std::move(*raw), Metadata(), TokenizerSpec(), tensors.take());
    REQUIRE(made.weights().size() == 1);
    const Weight& weight = made.weights()[0];
    const int64_t expected = std::max(rows, kStored);
    REQUIRE(weight.desc.shape == std::array<int64_t, kMaxDims>{kWidth, expected, 1, 1});
    std::vector<float> values(static_cast<size_t>(kWidth * expected));
    REQUIRE(made.read(weight.place, 0, std::as_writable_bytes(std::span(values))).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(values[i] == table[i < table.size() ? i : i % kWidth]);
    }
  }
}
