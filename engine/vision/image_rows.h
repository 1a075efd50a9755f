// What a vision tower has made of an image: rows of a model's prompt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/status.h"
#include "engine/model/rope.h"

namespace infer {

/// Immutable once made; sequences share it. A row that the tower has made stands in a sequence as a
/// token below 0, which depends on the image and on the row's place in it: so whatever compares
/// tokens tells images apart. Texts between pictures of an image are the vocabulary's tokens, and
/// their values are 0.
struct ImageRows {
  std::vector<int32_t> tokens;  ///< by row
  int32_t columns = 0;          ///< of the grid that the rows are, one line after the other
  bool axes = false;            ///< TowerInfo::axes
  int64_t width = 0;            ///< elements of a part of a row
  int64_t parts = 1;            ///< ModelInfo::takes_images
  std::vector<float> values;    ///< [rows][parts][width]

  int64_t count() const { return static_cast<int64_t>(tokens.size()); }
  /// Whether a text begins with the image.
  bool begins(std::span<const int32_t> text) const {
    return text.size() >= tokens.size() && std::ranges::equal(text.first(tokens.size()), tokens);
  }
  std::span<const float> part(int64_t row, int64_t index) const {
    return std::span(values).subspan(static_cast<size_t>((row * parts + index) * width),
                                     static_cast<size_t>(width));
  }
};

}  // namespace infer
