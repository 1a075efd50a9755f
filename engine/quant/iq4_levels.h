// The sixteen levels of IQ4_NL and IQ4_XS: denser around zero, where most weights are.
#pragma once

#include "engine/quant/quant.h"
#include "engine/quant/search.h"

namespace infer {

inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

/// The index of the level nearest to x.
inline int nearest_iq4_level(float x) {
  int index = 0;
  for (int i = 1; i < 16; ++i) {
    const float middle = 0.5f * static_cast<float>(kIq4Levels[i - 1] + kIq4Levels[i]);
    index += x >= middle ? 1 : 0;
  }
  return index;
}

/// For the searches.
struct Iq4Levels {
  static constexpr float kEnds[2] = {-127, 113};
  static F4 nearest(F4 v) {
    F4 level = splat4(kIq4Levels[0]);
    for (int i = 1; i < 16; ++i) {
      const float middle = 0.5f * static_cast<float>(kIq4Levels[i - 1] + kIq4Levels[i]);
      const auto step = static_cast<float>(kIq4Levels[i] - kIq4Levels[i - 1]);
      level += v >= splat4(middle) ? splat4(step) : splat4(0);
    }
    return level;
  }
};

}  // namespace infer
