// Fields that are texts or tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/infer.hpp"
#include "server/api/fields.h"

namespace infer::server {

/// At most so many texts are continued for one request.
inline constexpr size_t kMostPrompts = 1024;

/// An array of numbers as tokens of the model's. Throws Problem, which names the field.
std::vector<int32_t> read_ids(const Fields& fields, const char* name, const Json& ids,
                              const Engine& engine);

/// An array of tokens and of texts, whose tokens follow each other; `options` are those of a text
/// at the beginning, and further texts get no special tokens added. Throws Problem, which names the
/// field.
std::vector<int32_t> read_pieces(const Fields& fields, const char* name, const Json& pieces,
                                 TokenizeOptions options, const Engine& engine);

/// What the field `prompt` says.
struct Prompt {
  std::vector<int32_t> tokens;
  std::string text;
};

/// A text, an array of tokens or of tokens and texts, or an array of either. With a `suffix` each
/// prompt asks for the text between it and the suffix, as infill_prompt(). Each has at least one
/// token. Throws Problem.
std::vector<Prompt> read_prompts(Fields& fields, const Engine& engine,
                                 const std::string& suffix = "", int32_t max_tokens = -1);

/// What asks for the text between two others, with room for `max_tokens` of it (−1: not said).
/// `field`: the one that asks for it. Throws Problem if the model cannot fill in.
std::vector<int32_t> infill_prompt(const InfillText& text, int32_t max_tokens, const Engine& engine,
                                   const char* field);

}  // namespace infer::server
