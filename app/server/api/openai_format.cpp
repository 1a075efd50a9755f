#include "server/api/openai_format.h"

#include <algorithm>
#include <chrono>

namespace infer::server {

std::string completion_id(const char* prefix, const Request& request) {
  return prefix + request.id;
}

int64_t now_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

const char* finish_name(FinishReason reason) {
  return reason == FinishReason::stop || reason == FinishReason::cancelled ? "stop" : "length";
}

Json usage_json(const CompletionTotals& totals) {
  return {{"prompt_tokens", totals.prompt_tokens},
          {"completion_tokens", totals.generated_tokens},
          {"total_tokens", totals.prompt_tokens + totals.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", totals.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", totals.reasoning_tokens}}}};
}

std::string sse(const Json& json) { return "data: " + write_json(json) + "\n\n"; }

Json token_json(const Engine& engine, const std::pair<int32_t, float>& choice) {
  const std::string_view piece = engine.vocabulary().piece(choice.first);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", std::string(piece)},
          {"logprob", shown_logprob(choice.second)},
          {"bytes", std::move(bytes)}};
}

Json logprobs_json(const Engine& engine, const std::vector<TokenChoices>& tokens) {
  Json all = Json::array();
  for (const TokenChoices& choices : tokens) {
    Json token = token_json(engine, choices.front());
    token["top_logprobs"] = Json::array();
    for (size_t i = 1; i < choices.size(); ++i) {
      token["top_logprobs"].push_back(token_json(engine, choices[i]));
    }
    all.push_back(std::move(token));
  }
  return all;
}

float shown_logprob(float logprob) { return std::max(logprob, -9999.0f); }

Json prompt_token_json(const Engine& engine, const TokenChoices& choices, int top) {
  Json all = Json::object();
  const size_t end = std::min(choices.size(), static_cast<size_t>(top) + 1);
  for (size_t i = 0; i < end; ++i) {
    const auto& [token, logprob] = choices[i];
    all[std::to_string(token)] = {{"logprob", shown_logprob(logprob)},
                                  {"rank", i == 0 ? Json() : Json(i)},
                                  {"decoded_token", engine.vocabulary().piece(token)}};
  }
  return all;
}

}  // namespace infer::server
