// Where weights go: a model file being written.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "engine/core/tensor_desc.h"
#include "engine/weights/metadata.h"

namespace infer {

/// Writes one model. Declare every tensor, begin(), then give the data in the order of declaration,
/// in pieces of any size, then finish(). The file appears under its name only at finish(); until
/// then, and on failure, there is at most a temporary file beside it, removed by the destructor.
/// One thread.
class WeightSink {
 public:
  virtual ~WeightSink() = default;

  virtual Status declare(const std::string& name, const TensorDesc& desc) = 0;
  virtual Status begin() = 0;
  virtual Status write(std::span<const std::byte> data) = 0;
  virtual Status finish() = 0;
};

}  // namespace infer
