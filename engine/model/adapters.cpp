#include "engine/model/adapters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/core/file.h"
#include "engine/model/peft.h"
#include "engine/model/peft_config.h"

namespace infer {
namespace {

Status expect_text(const Metadata& metadata, const char* key, const std::string& expected,
                   const char* what) {
  INFER_TRY_S(const std::optional<std::string> found, metadata.get_string(key));
  if (found == expected) return {};
  return error(StatusCode::bad_file, "{}: {}: expected {}, {}, found {}", metadata.source(), key,
               expected, what, found ? printable(*found) : "nothing");
}

/// The two tensors that change one of the model's.
struct Pair {
  const Weight* a = nullptr;
  const Weight* b = nullptr;
};

Status check_shape(const std::string& file, const Weight& found,
                   const std::array<int64_t, kMaxDims>& expected) {
  if (found.desc.shape == expected) return {};
  TensorDesc wanted = found.desc;
  wanted.shape = expected;
  return error(StatusCode::bad_file, "{}: tensor '{}': expected {}, found {}", file, found.name,
               shape_string(wanted), shape_string(found.desc));
}

/// Whether the pair fits what the model has under this name.
Status check_pair(const std::string& file, const std::string& name, const Pair& pair,
                  const std::unordered_map<std::string_view, const Weight*>& base) {
  if (pair.a == nullptr || pair.b == nullptr) {
    return error(StatusCode::bad_file, "{}: tensor '{}{}' is missing", file, printable(name),
                 pair.a == nullptr ? kLoraA : kLoraB);
  }
  auto changed = base.find(name);
  if (changed == base.end() && name == kOutputMatrix) changed = base.find(kTokenTable);
  if (changed == base.end()) {
    return error(StatusCode::bad_file,
                 "{}: tensor '{}': expected an adapter of this model, which has no tensor '{}'",
                 file, printable(pair.a->name), printable(name));
  }
  const auto& [k, n, experts, more] = changed->second->desc.shape;
  const bool table = name == kTokenTable;  // rows of A are looked up
  const int64_t rank = pair.a->desc.shape[table ? 0 : 1];
  if (rank < 1) {
    return error(StatusCode::bad_file, "{}: tensor '{}': expected at least one row, found {}", file,
                 pair.a->name, shape_string(pair.a->desc));
  }
  const std::array a =
      table ? std::array{rank, n, experts, more} : std::array{k, rank, experts, more};
  INFER_CHECK(check_shape(file, *pair.a, a));
  return check_shape(file, *pair.b, {rank, table ? k : n, experts, more});
}

}  // namespace

std::string adapter_prefix(size_t adapter) { return "adapter." + std::to_string(adapter) + "."; }

AdaptedSource::AdaptedSource(std::unique_ptr<WeightSource> base,
                             std::vector<std::unique_ptr<WeightSource>> adapters)
    : base_(std::move(base)), adapters_(std::move(adapters)) {
  add(*base_, "");
  for (size_t i = 0; i < adapters_.size(); ++i) add(*adapters_[i], adapter_prefix(i));
}

std::vector<float> AdaptedSource::alphas() const {
  std::vector<float> alphas;
  for (const auto& adapter : adapters_) {
    // open_adapter() has read it.
    const auto alpha = adapter->metadata().get_float("adapter.lora.alpha");
    alphas.push_back(static_cast<float>(alpha.value_or(std::nullopt).value_or(0)));
  }
  return alphas;
}

Result<std::unique_ptr<WeightSource>> open_adapter(const std::string& path,
                                                   const WeightSource& base) {
  INFER_TRY(std::unique_ptr<WeightSource> source, open_model(path));
  if (source->metadata().has(kPeftAdapter)) {
    INFER_TRY(source, from_peft(std::move(source), base));
  }
  const Metadata& metadata = source->metadata();
  INFER_CHECK_R(expect_text(metadata, "general.type", "adapter", "a file with a LoRA adapter"));
  INFER_CHECK_R(expect_text(metadata, "adapter.type", "lora", "the kind of adapter that is known"));
  INFER_TRY(const std::optional<std::string> architecture,
            base.metadata().get_string("general.architecture"));
  INFER_CHECK_R(expect_text(metadata, "general.architecture", architecture.value_or(""),
                            "that of the model"));
  INFER_TRY(const std::optional<double> alpha, metadata.get_float("adapter.lora.alpha"));
  if (alpha && !std::isfinite(static_cast<float>(*alpha))) {
    return fail(StatusCode::bad_file, "{}: adapter.lora.alpha: expected a float32, found {}", path,
                *alpha);
  }
  if (metadata.has("adapter.alora.invocation_tokens")) {
    return fail(StatusCode::unsupported,
                "{}: adapter.alora.invocation_tokens: adapters that begin in the middle of a text "
                "(aLoRA) are not supported",
                path);
  }
  std::map<std::string, Pair> pairs;
  for (const Weight& weight : source->weights()) {
    const bool a = weight.name.ends_with(kLoraA);
    if (!a && !weight.name.ends_with(kLoraB)) {
      return fail(StatusCode::unsupported,
                  "{}: tensor '{}': expected a name that ends with {} or {}: an adapter with other "
                  "tensors is not supported",
                  path, printable(weight.name), kLoraA, kLoraB);
    }
    Pair& pair = pairs[weight.name.substr(0, weight.name.size() - std::strlen(kLoraA))];
    (a ? pair.a : pair.b) = &weight;
  }
  std::unordered_map<std::string_view, const Weight*> changed;
  for (const Weight& weight : base.weights()) changed.emplace(weight.name, &weight);
  for (const auto& [name, pair] : pairs) INFER_CHECK_R(check_pair(path, name, pair, changed));
  return source;
}

}  // namespace infer
