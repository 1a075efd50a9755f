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

std::vector<bool> map_sliding_layers(CheckpointMap& m, int64_t absent) {
  std::vector<bool> sliding;
  if (const std::vector<std::string>* types = m.config.get_strings("layer_types")) {
    bool known = types->size() == static_cast<size_t>(m.layer_count());
    for (const std::string& type : *types) {
      known = known && (type == "sliding_attention" || type == "full_attention");
      sliding.push_back(type == "sliding_attention");
    }
    m.config.require(known, "these layer_types");
    sliding.resize(static_cast<size_t>(m.layer_count()));
  } else {
    const int64_t period = m.config.get_int("sliding_window_pattern", absent, 0, INT32_MAX);
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      sliding.push_back(period > 1 && i % period < period - 1);
    }
  }
  m.keys.set_flags("attention.sliding_window_pattern", sliding);
  return sliding;
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
