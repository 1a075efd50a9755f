#include "server/api/prompt_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace infer::server {

namespace {

int32_t read_id(const Fields& fields, const char* name, const Json& id, const Engine& engine) {
  const bool known = id.is_number_integer() && id >= 0 && id < engine.vocabulary_size();
  if (!known) {
    fields.wrong(name, fmt::format("tokens from 0 to {}", engine.vocabulary_size() - 1));
  }
  return id.get<int32_t>();
}

}  // namespace

std::vector<int32_t> read_ids(const Fields& fields, const char* name, const Json& ids,
                              const Engine& engine) {
  std::vector<int32_t> all;
  for (const Json& id : ids) all.push_back(read_id(fields, name, id, engine));
  return all;
}

std::vector<int32_t> read_pieces(const Fields& fields, const char* name, const Json& pieces,
                                 TokenizeOptions options, const Engine& engine) {
  std::vector<int32_t> all;
  for (const Json& piece : pieces) {
    if (piece.is_string()) {
      const auto tokens = must(engine.tokenize(piece.get<std::string>(), options));
      all.insert(all.end(), tokens.begin(), tokens.end());
    } else {
      all.push_back(read_id(fields, name, piece, engine));
    }
    options.add_special = false;
  }
  return all;
}

std::vector<int32_t> infill_prompt(const InfillText& text, int32_t max_tokens, const Engine& engine,
                                   const char* field) {
  constexpr int64_t kUsual = 256;
  const int64_t context = engine.memory().longest;
  const int64_t wanted = max_tokens < 0 ? kUsual : max_tokens;
  auto prompt = engine.vocabulary().infill(text, context - std::min(wanted, context / 2));
  if (prompt) return *std::move(prompt);
  const int status = http_status(prompt.error().code());
  throw Problem(status, prompt.error().message(), status == 400 ? field : "");
}

std::vector<Prompt> read_prompts(Fields& fields, const Engine& engine, const std::string& suffix,
                                 int32_t max_tokens) {
  std::vector<Prompt> prompts;
  const auto add_text = [&](const std::string& text) {
    prompts.push_back({must(engine.tokenize(text, {})), text});
  };
  const auto add_pieces = [&](const Json& pieces) {
    std::vector<int32_t> tokens = read_pieces(fields, "prompt", pieces, {}, engine);
    std::string text = engine.detokenize(tokens);
    prompts.push_back({std::move(tokens), std::move(text)});
  };
  const char* expected = "a string, an array of tokens and strings, or an array of either";
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    add_text("");
  } else if (prompt->is_string()) {
    add_text(prompt->get<std::string>());
  } else if (!prompt->is_array() || prompt->empty()) {
    fields.wrong("prompt", expected);
  } else if (std::ranges::any_of(*prompt, [](const Json& each) { return each.is_number(); })) {
    add_pieces(*prompt);
  } else {
    if (prompt->size() > kMostPrompts) {
      fields.wrong("prompt", fmt::format("at most {} prompts", kMostPrompts));
    }
    for (const Json& each : *prompt) {
      if (each.is_string()) {
        add_text(each.get<std::string>());
      } else if (each.is_array()) {
        add_pieces(each);
      } else {
        fields.wrong("prompt", expected);
      }
    }
  }
  for (Prompt& each : prompts) {
    if (!suffix.empty()) {
      each.tokens = infill_prompt({each.text, suffix, {}}, max_tokens, engine, "suffix");
    }
    if (each.tokens.empty()) fields.wrong("prompt", "at least one token");
  }
  return prompts;
}

}  // namespace infer::server
