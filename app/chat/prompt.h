// What a rendered chat template becomes for a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "infer/infer.hpp"

namespace infer::chat {

/// The spelling of a token; empty if there is none.
std::string spelling(const Vocabulary& vocabulary, int32_t token);

/// The tokens of a text that a model is to continue: with the token that begins texts if neither
/// the text has it nor the model does without, and never with one that ends them.
/// `images`: for the places that the text has for images, in their order.
Result<std::vector<int32_t>> prompt_tokens(const Engine& engine, const std::string& text,
                                           std::span<const ModelImage> images = {});

}  // namespace infer::chat
