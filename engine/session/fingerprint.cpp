#include "engine/session/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace infer {
namespace {

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(const void* data, size_t bytes) { XXH3_64bits_update(&state_, data, bytes); }
  template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void add(const T& value) {
    add(&value, sizeof(value));
  }
  void add(const std::string& text) {
    add(text.size());
    add(text.data(), text.size());
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add(value);
  }
  uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

/// Whether a key can change the numbers in the cache. Names, licences, sampling defaults, the
/// vocabulary and the number of files cannot.
bool matters(const std::string& key) {
  if (key == "general.architecture") return true;
  return !key.starts_with("general.") && !key.starts_with("tokenizer.") &&
         !key.starts_with("split.");
}

Status add_weights(const WeightSource& source, Hash& hash) {
  for (const auto& [key, value] : source.metadata().values()) {
    if (!matters(key)) continue;
    hash.add(key);
    hash.add(value.index());
    std::visit([&](const auto& v) { hash.add(v); }, value);
  }
  std::byte first[256];
  for (const Weight& weight : source.weights()) {
    hash.add(weight.name);
    hash.add(weight.desc.type);
    for (const int64_t n : weight.desc.shape) hash.add(n);
    const auto bytes =
        static_cast<size_t>(std::min<int64_t>(weight.desc.extent_bytes(), sizeof(first)));
    INFER_CHECK(source.read(weight.place, 0, std::span(first).first(bytes)));
    hash.add(first, bytes);
  }
  return {};
}

}  // namespace

Result<uint64_t> weights_fingerprint(const WeightSource& source) {
  Hash hash;
  INFER_CHECK_R(add_weights(source, hash));
  return hash.value();
}

Result<uint64_t> model_fingerprint(const OpenedModel& opened, std::span<const float> adapters) {
  Hash hash;
  hash.add(opened.request.k_type);
  hash.add(opened.request.v_type);
  hash.add(opened.exact);
  const KvLayout layout = canonical_kv_layout(
      {opened.model->info().kv_layers, opened.request.k_type, opened.request.v_type});
  hash.add(layout.kinds.size());
  for (const KvKind& kind : layout.kinds) {
    hash.add(kind.window);
    hash.add(kind.page_bytes);
  }
  for (const RopeSpec& rope : opened.model->info().ropes) {
    hash.add(uses_long_factors(rope, opened.plan.context));
  }
  INFER_CHECK_R(add_weights(opened.base(), hash));
  for (size_t i = 0; i < adapters.size(); ++i) {
    if (adapters[i] == 0) continue;
    hash.add(adapters[i]);
    INFER_CHECK_R(add_weights(*opened.adapted->adapters()[i], hash));
  }
  return hash.value();
}

}  // namespace infer
