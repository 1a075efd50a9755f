#include "engine/session/sampling.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>

#include "engine/session/option_range.h"

namespace infer {
namespace {

/// Sets `to` to what the caller asked for, else to what the model suggests, else leaves it. A
/// suggestion of the wrong type or out of range is bad_file.
template <typename T>
Status choose(T& to, const std::optional<T>& asked, const Metadata& metadata, const char* name,
              std::string_view suggestion, double low, double high) {
  if (asked) {
    to = *asked;
    return check_option(name, *asked, low, high);
  }
  if (suggestion.empty()) return {};
  const std::string key = "general.sampling." + std::string(suggestion);
  INFER_TRY_S(std::optional<double> found, metadata.get_float(key));
  if (!found) return {};
  if (std::is_integral_v<T> && low == 0 && *found == -1) found = 0;  // some have −1 for what is off
  if (!(*found >= low && *found <= high)) {
    return error(StatusCode::bad_file,
                 "{}: key '{}': expected {} to {}, found {}; a {} that is given takes its place",
                 metadata.source(), key, low, high, *found, name);
  }
  to = static_cast<T>(*found);
  return {};
}

/// "penalties, dry, top_k or temperature": all steps.
std::string step_names() {
  std::string names =
#define INFER_SAMPLER(name, makes, with_mirostat) #name ", "
#include "infer/samplers.def"
      "";
  names.resize(names.size() - 2);
  return names.replace(names.rfind(','), 1, " or");
}

Status add_step(std::vector<Step>& order, std::string_view name) {
  const std::optional<Step> step = step_of(name);
  if (!step) {
    return error(StatusCode::invalid_argument, "samplers: expected {}, found '{}'", step_names(),
                 name);
  }
  if (std::ranges::find(order, *step) != order.end()) {
    return error(StatusCode::invalid_argument, "samplers: '{}' is named twice", name);
  }
  order.push_back(*step);
  return {};
}

/// Sets the order of the samplers. Unknown names in a model's suggestion are skipped, since the
/// model may be newer than this program.
Status choose_order(SamplingParams& p, const SamplingOptions& o, const Metadata& metadata) {
  if (!o.samplers.empty()) {
    p.order.clear();
    for (const std::string& name : o.samplers) INFER_CHECK(add_step(p.order, name));
    return {};
  }
  INFER_TRY_S(const std::optional<std::string> found,
              metadata.get_string("general.sampling.sequence"));
  if (!found || found->empty()) return {};
  std::vector<Step> order;
  std::string_view rest = *found;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const bool known = add_step(order, rest.substr(0, end)).ok();
    static_cast<void>(known);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!order.empty()) p.order = std::move(order);
  return {};
}

/// Tells whether a token's text contains one of the strings. Looks each token up once.
class Breakers {
 public:
  Breakers(std::vector<std::string> strings, const Tokenizer& tokenizer)
      : strings_(std::move(strings)), tokenizer_(&tokenizer) {}

  bool operator()(int32_t token) {
    const auto [at, is_new] = known_.try_emplace(token, false);
    if (is_new) {
      const std::string_view piece = tokenizer_->piece(token);
      at->second =
          tokenizer_->is_control(token) || std::ranges::any_of(strings_, [&](const std::string& s) {
            return piece.find(s) != std::string_view::npos;
          });
    }
    return at->second;
  }

 private:
  std::vector<std::string> strings_;
  const Tokenizer* tokenizer_;
  std::unordered_map<int32_t, bool> known_;
};

Status check_biases(std::vector<LogitBias> biases) {
  constexpr float kMost = 1e30f;
  for (const LogitBias& b : biases) {
    if (std::isinf(b.bias) || std::fabs(b.bias) <= kMost) continue;
    return error(StatusCode::invalid_argument,
                 "logit_bias: expected -1e30 to 1e30 or infinity for token {}, found {}", b.token,
                 b.bias);
  }
  std::erase_if(biases, [](const LogitBias& b) { return !std::isinf(b.bias); });
  std::ranges::sort(biases, {}, &LogitBias::token);
  for (size_t i = 1; i < biases.size(); ++i) {
    if (biases[i].token != biases[i - 1].token || biases[i].bias == biases[i - 1].bias) continue;
    return error(StatusCode::invalid_argument, "logit_bias: token {} is both forbidden and forced",
                 biases[i].token);
  }
  return {};
}

}  // namespace

Result<SamplingParams> resolve_sampling(const SamplingOptions& o, const Metadata& metadata,
                                        const Tokenizer& tokenizer) {
  SamplingParams p;
  INFER_CHECK_R(choose_order(p, o, metadata));
#define INFER_SAMPLING(type, name, preset, low, high, key, ...) \
  INFER_CHECK_R(choose(p.name, o.name, metadata, #name, key, low, high));
#include "infer/samplers.def"
  p.dry_breaks =
      Breakers(o.dry_breakers.value_or(std::vector<std::string>{"\n", ":", "\"", "*"}), tokenizer);
  for (const auto& [token, bias] : o.logit_bias) p.logit_bias.push_back({token, bias});
  p.seed = o.seed ? *o.seed : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  INFER_CHECK_R(check_biases(p.logit_bias));
  return p;
}

}  // namespace infer
