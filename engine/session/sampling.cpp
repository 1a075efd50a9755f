#include "engine/session/sampling.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>

namespace infer {
namespace {

constexpr double kLarge = 1e6;

/// Sets `to` to what the caller asked for, else to what the model suggests, else leaves it. A
/// suggestion of the wrong type or out of range is bad_file.
template <typename T>
Status choose(T& to, const std::optional<T>& asked, const Metadata& metadata, const char* name,
              double low, double high) {
  if (asked) {
    to = *asked;
    return {};
  }
  const std::string key = std::string("general.sampling.") + name;
  INFER_TRY_S(const std::optional<double> found, metadata.get_float(key));
  if (!found) return {};
  if (!(*found >= low && *found <= high)) {
    return error(StatusCode::bad_file, "{}: key '{}': expected {} to {}, found {}",
                 metadata.source(), key, low, high, *found);
  }
  to = static_cast<T>(*found);
  return {};
}

Status check(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return error(StatusCode::invalid_argument, "{}: expected {} to {}, found {}", name, low, high,
               value);
}

Status add_step(std::vector<Step>& order, std::string_view name) {
  const std::optional<Step> step = step_of(name);
  if (!step) {
    return error(StatusCode::invalid_argument,
                 "samplers: expected penalties, dry, top_n_sigma, top_k, typical_p, top_p, min_p, "
                 "xtc or temperature, found '{}'",
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

Status check_ranges(const SamplingParams& p) {
  INFER_CHECK(check("temperature", p.temperature.value, 0, kLarge));
  INFER_CHECK(check("dynamic_range", p.temperature.range, 0, kLarge));
  INFER_CHECK(check("dynamic_exponent", p.temperature.exponent, 0, kLarge));
  INFER_CHECK(check("top_k", p.top_k, 0, INT32_MAX));
  INFER_CHECK(check("top_p", p.top_p, 0, kLarge));
  INFER_CHECK(check("min_p", p.min_p, 0, 1));
  INFER_CHECK(check("typical_p", p.typical_p, 0, kLarge));
  INFER_CHECK(check("top_n_sigma", p.top_n_sigma, 0, kLarge));
  INFER_CHECK(check("xtc_probability", p.xtc.chance, 0, 1));
  INFER_CHECK(check("xtc_threshold", p.xtc.threshold, 0, 1));
  INFER_CHECK(check("mirostat", p.mirostat.version, 0, 2));
  INFER_CHECK(check("mirostat_target", p.mirostat.target, 0, kLarge));
  INFER_CHECK(check("mirostat_rate", p.mirostat.rate, 0, kLarge));
  INFER_CHECK(check("repeat_penalty", p.penalties.repeat, 1e-3, kLarge));
  INFER_CHECK(check("frequency_penalty", p.penalties.frequency, -kLarge, kLarge));
  INFER_CHECK(check("presence_penalty", p.penalties.presence, -kLarge, kLarge));
  INFER_CHECK(check("penalty_last", p.penalties.last, -1, INT32_MAX));
  INFER_CHECK(check("dry_multiplier", p.dry.multiplier, 0, kLarge));
  INFER_CHECK(check("dry_base", p.dry.base, 1, kLarge));
  INFER_CHECK(check("dry_allowed_length", p.dry.allowed, 1, INT32_MAX));
  INFER_CHECK(check("dry_penalty_last", p.dry.last, -1, INT32_MAX));
  return check_biases(p.logit_bias);
}

}  // namespace

Result<SamplingParams> resolve_sampling(const SamplingOptions& o, const Metadata& metadata,
                                        const Tokenizer& tokenizer) {
  SamplingParams p;
  INFER_CHECK_R(choose_order(p, o, metadata));
  const auto from_model = [&](auto& to, const auto& asked, const char* name, double low,
                              double high) { return choose(to, asked, metadata, name, low, high); };
  INFER_CHECK_R(from_model(p.temperature.value, o.temperature, "temp", 0, kLarge));
  INFER_CHECK_R(from_model(p.top_k, o.top_k, "top_k", 0, INT32_MAX));
  INFER_CHECK_R(from_model(p.top_p, o.top_p, "top_p", 0, kLarge));
  INFER_CHECK_R(from_model(p.min_p, o.min_p, "min_p", 0, 1));
  INFER_CHECK_R(from_model(p.xtc.chance, o.xtc_probability, "xtc_probability", 0, 1));
  INFER_CHECK_R(from_model(p.xtc.threshold, o.xtc_threshold, "xtc_threshold", 0, 1));
  INFER_CHECK_R(from_model(p.mirostat.version, o.mirostat, "mirostat", 0, 2));
  INFER_CHECK_R(from_model(p.mirostat.target, o.mirostat_target, "mirostat_tau", 0, kLarge));
  INFER_CHECK_R(from_model(p.mirostat.rate, o.mirostat_rate, "mirostat_eta", 0, kLarge));
  Penalties& penalties = p.penalties;
  INFER_CHECK_R(from_model(penalties.repeat, o.repeat_penalty, "penalty_repeat", 1e-3, kLarge));
  INFER_CHECK_R(from_model(penalties.last, o.penalty_last, "penalty_last_n", -1, INT32_MAX));
  penalties.frequency = o.frequency_penalty.value_or(0.0f);
  penalties.presence = o.presence_penalty.value_or(0.0f);
  p.temperature.range = o.dynamic_range.value_or(0.0f);
  p.temperature.exponent = o.dynamic_exponent.value_or(1.0f);
  p.typical_p = o.typical_p.value_or(p.typical_p);
  p.top_n_sigma = o.top_n_sigma.value_or(0.0f);
  p.dry.multiplier = o.dry_multiplier.value_or(0.0f);
  p.dry.base = o.dry_base.value_or(p.dry.base);
  p.dry.allowed = o.dry_allowed_length.value_or(p.dry.allowed);
  p.dry.last = o.dry_penalty_last.value_or(p.dry.last);
  p.dry.breaks =
      Breakers(o.dry_breakers.value_or(std::vector<std::string>{"\n", ":", "\"", "*"}), tokenizer);
  for (const auto& [token, bias] : o.logit_bias) p.logit_bias.push_back({token, bias});
  p.seed = o.seed ? *o.seed : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  INFER_CHECK_R(check_ranges(p));
  return p;
}

}  // namespace infer
