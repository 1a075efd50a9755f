#include "tests/adapter_file.h"

#include <doctest.h>

#include <cmath>
#include <vector>

#include "engine/model/adapters.h"
#include "tests/random_values.h"

namespace infer::test {

void write_adapter(const std::string& path, const std::string& model, const AdapterShape& shape) {
  const std::unique_ptr<WeightSource> base = open_model(model).value();
  Metadata metadata(path);
  metadata.set("general.type", std::string("adapter"));
  metadata.set("general.architecture",
               base->metadata().get_string("general.architecture").value().value());
  metadata.set("adapter.type", std::string("lora"));
  metadata.set("adapter.lora.alpha", shape.alpha);
  const std::unique_ptr<WeightSink> sink = create_model_file("GGUF", path, metadata).value();
  std::vector<std::vector<float>> values;
  const auto declare = [&](const std::string& name, std::array<int64_t, 3> dims) {
    REQUIRE(sink->declare(name, make_tensor(DType::f32, dims).value()).ok());
    values.push_back(random_values(dims[0] * dims[1] * dims[2], shape.seed + values.size()));
    for (float& value : values.back()) value /= std::sqrt(static_cast<float>(dims[0]));
  };
  for (const Weight& weight : base->weights()) {
    const auto& [k, n, experts, rest] = weight.desc.shape;
    if (!weight.name.ends_with(".weight") || n == 1 || !shape.changes(weight.name)) continue;
    declare(weight.name + kLoraA, {k, shape.rank, experts});
    declare(weight.name + kLoraB, {shape.rank, n, experts});
  }
  REQUIRE(!values.empty());
  REQUIRE(sink->begin().ok());
  for (const auto& tensor : values) REQUIRE(sink->write(std::as_bytes(std::span(tensor))).ok());
  REQUIRE(sink->finish().ok());
}

}  // namespace infer::test
