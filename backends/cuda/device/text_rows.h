// The rows of texts that see each other (ops/text_attention.h).
#pragma once

#include "backends/cuda/device/step.h"
#include "backends/cuda/ops/text_attention.h"

namespace infer::cuda {

/// The rows that a row sees.
struct SeenRows {
  uint32_t begin, end;
};
INFER_DEVICE SeenRows seen_rows(const TextAttentionParams& p, uint32_t row) {
  const auto begin = static_cast<uint32_t>(Global<const int32_t>(p.begins)[row]);
  const auto end = static_cast<uint32_t>(Global<const int32_t>(p.ends)[row]);
  SeenRows seen{begin, end};
  if (p.before >= 0 && row - begin > static_cast<uint32_t>(p.before)) {
    seen.begin = row - static_cast<uint32_t>(p.before);
  }
  if (p.chunk > 0) {
    const uint32_t least = begin + (row - begin) / p.chunk * p.chunk;
    seen.begin = seen.begin > least ? seen.begin : least;
  }
  if (p.after >= 0 && end - row > static_cast<uint32_t>(p.after)) {
    seen.end = row + static_cast<uint32_t>(p.after) + 1;
  }
  return seen;
}

}  // namespace infer::cuda
