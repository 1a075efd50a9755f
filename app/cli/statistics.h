// Statistics of a generation, for the user.
#pragma once

#include <fmt/format.h>

#include <string>

#include "infer/infer.hpp"

namespace infer::cli {

inline const char* finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::context: return "context";
    case FinishReason::cancelled: return "cancelled";
  }
  return "unknown";
}

/// Tokens a second of the prompt, of those that were computed.
inline double prompt_rate(const GenerateResult& r) {
  const auto computed = static_cast<double>(r.prompt_tokens - r.reused_tokens);
  return r.prompt_seconds > 0 && computed > 0 ? computed / r.prompt_seconds : 0;
}

/// " (768 from the cache)", or nothing.
inline std::string reused_text(const GenerateResult& r) {
  return r.reused_tokens > 0 ? fmt::format(" ({} from the cache)", r.reused_tokens) : "";
}

/// The first token comes out of the prompt's last step; the time runs from there.
inline double generate_rate(const GenerateResult& r) {
  if (r.generated_tokens < 2 || r.generate_seconds <= 0) return 0;
  return static_cast<double>(r.generated_tokens - 1) / r.generate_seconds;
}

}  // namespace infer::cli
