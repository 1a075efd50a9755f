// The models of tests/data/golden and their exact logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "tests/validation.h"

namespace infer::test {

struct GoldenModel {
  std::string name;
  std::string path;  ///< a file, or a directory as Hugging Face's packages write them
  std::string logits;
  std::vector<int32_t> tokens;
  double limit;  ///< of the normalised squared error with 8-bit activations
  double exact;  ///< with float32 activations
};

/// Whether it is llama-q4_k with its weights in another type. That changes products alone, and not
/// how steps are made.
bool is_another_type(const GoldenModel& model);

/// All of them, sorted by name.
std::vector<GoldenModel> golden_models();

/// Those with operations, forms of these or pairs of neighbours that the models before them do not
/// have. Others differ in numbers alone: on a device whose kernels take long to compile or to
/// emulate they show little. With INFER_ALL_CASES in the environment all of them; tools/check.sh
/// sets it.
std::vector<GoldenModel> golden_models_with_new_steps();
/// Whether it is one of them.
bool has_new_steps(const GoldenModel& model);

struct EvaluateOptions {
  LoadOptions load;
  const char* cache = "f32";      ///< type of keys and values
  const char* cache_v = nullptr;  ///< of values, where it is another
  bool step_by_step = false;      ///< one evaluate() call a token
  OpenDevice open = opener();
};

/// Logits of every position; a failure fails the test.
std::vector<float> evaluate(const GoldenModel& model, EvaluateOptions options);
/// Likewise of several sessions of one engine, each with its number of tokens to a call.
std::vector<std::vector<float>> evaluate_in_pieces(const GoldenModel& model,
                                                   EvaluateOptions options,
                                                   std::span<const size_t> pieces);

}  // namespace infer::test
