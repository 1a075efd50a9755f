// Writes LoRA adapters with random numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace infer::test {

struct AdapterShape {
  int64_t rank = 4;
  float alpha = 8;
  uint64_t seed = 1;
  /// Which of the model's tensors it changes.
  std::function<bool(const std::string& tensor)> changes = [](const std::string& tensor) {
    return tensor.starts_with("blk.") && !tensor.ends_with("norm.weight") &&
           !tensor.ends_with("conv1d.weight");
  };
};

/// An adapter, in F32, of matrices of this model. A failure fails the test.
void write_adapter(const std::string& path, const std::string& model,
                   const AdapterShape& shape = {});

}  // namespace infer::test
