// What the answers of OpenAI's two completion APIs have in common.
#pragma once

#include <string>

#include "server/api/fields.h"
#include "server/generation/completion.h"

namespace infer::server {

/// Answers to one request, at most.
inline constexpr int kMostChoices = 128;

/// "chatcmpl-…": `prefix` and the id of the request.
std::string completion_id(const char* prefix, const Request& request);
int64_t now_seconds();
const char* finish_name(FinishReason reason);
Json usage_json(const CompletionTotals& totals);
/// A server-sent event.
std::string sse(const Json& json);
/// The natural logarithm of a probability; -9999 for 0, as in OpenAI's API.
float shown_logprob(float logprob);
/// A token of a prompt as vLLM shows it: by id, that token and the most likely ones, each with
/// "logprob", "decoded_token" and "rank", which is null if it is not one of the first `top`.
Json prompt_token_json(const Engine& engine, const TokenChoices& choices, int top);
/// Generated tokens, each with the most likely ones in its place as "top_logprobs".
Json logprobs_json(const Engine& engine, const std::vector<TokenChoices>& tokens);
/// A token as OpenAI shows it with its log-probability: "token", "logprob", "bytes".
Json token_json(const Engine& engine, const std::pair<int32_t, float>& choice);

}  // namespace infer::server
