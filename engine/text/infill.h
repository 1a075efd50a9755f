// Filling in the middle: the tokens that ask a model for the text between two others.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/status.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// As Vocabulary::infill(). The forms:
///   prefix, suffix, middle   <prefix> before <suffix> after <middle> (Bavarian et al. 2022,
///                            "Efficient Training of Language Models to Fill in the Middle"), with
///                            files before it: <repository> name, and for each <file> name, text
///                            (Hui et al. 2024, "Qwen2.5-Coder Technical Report")
///   Mistral's                [SUFFIX] after [PREFIX] before
Result<std::vector<int32_t>> infill_tokens(const Tokenizer& tokenizer, const InfillText& text,
                                           int64_t most);

}  // namespace infer
