// Tokens and templates, as llama.cpp's server offers them.
#include <fmt/format.h>

#include "chat/images.h"
#include "server/api/api.h"
#include "server/api/chat_messages.h"
#include "server/api/prompt_fields.h"

namespace infer::server {
namespace {

constexpr size_t kMostTokens = 1'000'000;
/// Tokens between two looks at whether the answer is wanted.
constexpr size_t kTokensATurn = 10'000;

/// A token's text; of one that is no text by itself, its bytes.
Json piece_json(std::string_view piece) {
  Json text = std::string(piece);
  using Invalid = Json::error_handler_t;
  const bool valid = text.dump(-1, ' ', false, Invalid::ignore).size() ==
                     text.dump(-1, ' ', false, Invalid::replace).size();
  if (valid) return text;
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<uint8_t>(byte));
  return bytes;
}

}  // namespace

void tokenize(const Call& call) {
  Fields fields(call.body);
  const Json* content = fields.find("content");
  if (content == nullptr || (!content->is_string() && !content->is_array())) {
    fields.wrong("content", "a string, or an array of strings and tokens");
  }
  TokenizeOptions options;
  options.add_special = fields.boolean("add_special").value_or(false);
  options.parse_special = fields.boolean("parse_special").value_or(true);
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  const Engine& engine = call.model->engine();
  const Json content_pieces = content->is_array() ? *content : Json::array({*content});
  const std::vector<int32_t> ids = read_pieces(fields, "content", content_pieces, options, engine);
  if (pieces && ids.size() > kMostTokens) {
    fields.wrong("with_pieces", fmt::format("false for more than {} tokens, where there are {}",
                                            kMostTokens, ids.size()));
  }
  // Written as it is sent: a tree of so many values would take much more memory.
  std::string answer = "{\"tokens\":[";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i % kTokensATurn == 0) require_wanted(call);
    if (i > 0) answer += ',';
    if (!pieces) {
      answer += std::to_string(ids[i]);
    } else {
      const Json piece = piece_json(engine.vocabulary().piece(ids[i]));
      answer += fmt::format("{{\"id\":{},\"piece\":{}}}", ids[i], write_json(piece));
    }
  }
  call.exchange->send(200, "application/json", answer + "]}");
}

void detokenize(const Call& call) {
  Fields fields(call.body);
  const Json* tokens = fields.array("tokens", kMostTokens);
  if (tokens == nullptr) fields.wrong("tokens", "an array of tokens");
  const Engine& engine = call.model->engine();
  const std::vector<int32_t> ids = read_ids(fields, "tokens", *tokens, engine);
  send_json(*call.exchange, {{"content", engine.detokenize(ids)}});
}

void apply_template(const Call& call) {
  Fields fields(call.body);
  Json variables = template_variables(fields);
  require_turn(call, variables);
  const size_t images = must(chat::take_images(variables["messages"])).size();
  send_json(*call.exchange, {{"prompt", must(call.model->render(std::move(variables), images))}});
}

}  // namespace infer::server
