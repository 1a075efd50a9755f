#include "engine/model/checkpoint_window.h"

namespace infer {

int64_t window_of(CheckpointConfig& config) {
  if (!config.get_bool("use_sliding_window", true)) return 0;
  return config.get_int("sliding_window", 0, 0, INT32_MAX);
}

void require_no_window(CheckpointMap& m) {
  require_layer_types(m, [](int64_t) { return false; });
  // Before there were layer_types, the last layers had the window.
  const bool slides = m.config.get_bool("use_sliding_window", false) &&
                      !m.config.has("layer_types") &&
                      m.config.get_int("max_window_layers", 0, 0, INT32_MAX) < m.layer_count();
  m.config.require(!slides, "use_sliding_window");
}

void require_layer_types(CheckpointMap& m, bool (*sliding)(int64_t layer)) {
  const std::vector<std::string>* types = m.config.get_strings("layer_types");
  if (types == nullptr) return;
  bool same = types->size() == static_cast<size_t>(m.layer_count());
  for (size_t i = 0; same && i < types->size(); ++i) {
    const char* expected =
        sliding(static_cast<int64_t>(i)) ? "sliding_attention" : "full_attention";
    same = (*types)[i] == expected;
  }
  m.config.require(same, "this order of layer_types");
}

}  // namespace infer
