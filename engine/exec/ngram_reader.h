// Reads what n-gram embeddings give to the rows of a step from the model's file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/status.h"
#include "engine/model/ngram.h"
#include "engine/weights/weight_source.h"

namespace infer {

struct StepBatch;
class ThreadPool;

/// Not thread-safe.
class NgramReader {
 public:
  /// Both outlive the reader.
  NgramReader(const NgramSpec& spec, const WeightSource& source) : spec_(spec), source_(source) {}

  /// Reads the rows of the table of every row of the step. `threads`: may be null; they are idle.
  /// Errors: those of WeightSource::read, and internal if the step does not say what is before its
  /// rows.
  Status read(const StepBatch& batch, ThreadPool* threads);
  /// [rows][NgramSpec::elements()], until the next read().
  std::span<const float> values() const { return values_; }

 private:
  Status read_part(int64_t begin, int64_t end);

  const NgramSpec& spec_;
  const WeightSource& source_;
  std::vector<uint64_t> places_;  ///< rows of the table: [rows][heads]
  std::vector<float> values_;
};

}  // namespace infer
