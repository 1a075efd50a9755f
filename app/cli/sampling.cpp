#include "cli/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "cli/arguments.h"
#include "cli/failure.h"

namespace infer::cli {
namespace {

/// What the engine takes at most; beyond any use.
constexpr double kMost = 1e6;

std::optional<uint64_t> parse_seed(const std::string& text) {
  if (text.empty() || text == "-1") return std::nullopt;
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seed);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    usage(fmt::format("--seed: expected a number or -1, found '{}'", text));
  }
  return seed;
}

/// "15043+1.5", "15043-1", "15043-inf". What is no number of tokens or logits gives nothing.
std::optional<std::pair<int32_t, float>> parse_bias(std::string_view text) {
  const char* end = text.data() + text.size();
  int32_t token = 0;
  const auto id = std::from_chars(text.data(), end, token);
  if (id.ec != std::errc() || token < 0 || id.ptr == end) return std::nullopt;
  if (*id.ptr != '+' && *id.ptr != '-') return std::nullopt;
  const bool negative = *id.ptr == '-';
  const std::string_view size(id.ptr + 1, end);
  if (negative && size == "inf") return std::pair(token, -std::numeric_limits<float>::infinity());
  float bias = 0;
  const auto parsed = std::from_chars(size.data(), end, bias);
  // A second sign would be read as part of the number.
  if (parsed.ec != std::errc() || parsed.ptr != end || size.front() == '-') return std::nullopt;
  if (!std::isfinite(bias)) return std::nullopt;
  return std::pair(token, negative ? -bias : bias);
}

/// Not CLI::Range, which lets NaN through.
template <typename T>
void require_range(const char* flag, const std::optional<T>& value, double low, double high) {
  if (!value || (static_cast<double>(*value) >= low && static_cast<double>(*value) <= high)) return;
  const bool endless = high >= INT32_MAX && static_cast<double>(*value) < low;
  usage(endless ? fmt::format("{}: expected {} or more, found {}", flag, low, *value)
                : fmt::format("{}: expected {} to {}, found {}", flag, low, high, *value));
}

}  // namespace

void declare_sampling(Options options, SamplingArgs& args) {
  options = options.group(kSamplingGroup);
  SamplingOptions& o = args.options;
  options.add("-s,--seed", "N[,N...]", args.seeds,
              "Seed; equal seeds give equal text; -1: a random seed. Several, separated by ',', "
              "give a text each");
  const auto number = [&](const char* name, auto& to, const char* unit, const char* what) {
    options.add(name, unit, to, what);
  };
  number("--temp,--temperature", o.temperature, "X", "Temperature; 0: most likely token");
  number("--top-k", o.top_k, "K", "Sample among the K most likely; 0: all");
  number("--top-p", o.top_p, "P",
         "Sample among the most likely tokens that together have probability P; 1: all");
  number("--min-p", o.min_p, "P",
         "Exclude tokens less than P times as likely as the most likely; 0: none");
  number("--typical,--typical-p", o.typical_p, "P",
         "Sample among the most typical tokens that together have probability P; 1: all");
  number("--repeat-penalty", o.repeat_penalty, "X", "Makes recent tokens less likely; 1: off");
  number("--repeat-last-n", o.penalty_last, "N", "Tokens that count as recent; 0: none, -1: all");
  number("--presence-penalty", o.presence_penalty, "X",
         "Subtracted once from the logit of a recent token");
  number("--frequency-penalty", o.frequency_penalty, "X",
         "Subtracted from the logit of a recent token for each occurrence");
  number("--top-nsigma,--top-n-sigma", o.top_n_sigma, "N",
         "Sample among logits within N standard deviations of the largest; 0: all");
  number("--xtc-probability", o.xtc_probability, "P",
         "Probability of excluding all top choices but the least likely; 0: off");
  number("--xtc-threshold", o.xtc_threshold, "P", "Likelihood of a top choice; above 0.5: off");
  number("--dynatemp-range", o.dynamic_range, "X",
         "Vary the temperature with the entropy, from --temp minus X to --temp plus X; 0: off");
  number("--dynatemp-exp", o.dynamic_exponent, "X", "Exponent of the entropy for --dynatemp-range");
  number("--mirostat", o.mirostat, "0|1|2",
         "Keep the surprise of the text constant, instead of using samplers that remove tokens; 0: "
         "off");
  number("--mirostat-ent", o.mirostat_target, "BITS", "Surprise that --mirostat keeps to");
  number("--mirostat-lr", o.mirostat_rate, "X", "Learning rate of --mirostat");
  number("--dry-multiplier", o.dry_multiplier, "X",
         "Make tokens less likely that would repeat a sequence; 0: off");
  number("--dry-base", o.dry_base, "X",
         "The penalty grows by this factor with each token of the repeat");
  number("--dry-allowed-length", o.dry_allowed_length, "N", "Length of a repeat without penalty");
  number("--dry-penalty-last-n", o.dry_penalty_last, "N", "Tokens to look back; -1: all");
  options.add("--dry-sequence-breaker", "TEXT", args.dry_breakers,
              "Tokens with this text end a repeated sequence, instead of newline, ':', '\"' and "
              "'*'; 'none': no token does. May be given several times");
  options.add("--samplers", "NAMES", args.samplers,
              "Samplers in order, separated by ';'; samplers left out are off: penalties, dry, "
              "top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature");
  options.add("-l,--logit-bias", "TOKEN(+|-)BIAS", args.logit_bias,
              "Added to the logit of a token, e.g. 15043+1 or 15043-1; 15043-inf forbids it. "
              "May be given several times");
}

std::vector<std::optional<uint64_t>> seeds_of(const SamplingArgs& args) {
  std::vector<std::optional<uint64_t>> seeds;
  for (const std::string& seed : parts_of(args.seeds, ',')) seeds.push_back(parse_seed(seed));
  if (seeds.size() > 256) usage("--seed: expected at most 256 seeds");
  if (seeds.empty()) seeds.emplace_back();
  return seeds;
}

SamplingOptions sampling_options(const SamplingArgs& args) {
  SamplingOptions o = args.options;
  o.seed = seeds_of(args).front();
  if (o.top_k && *o.top_k < 0) o.top_k = 0;  // as in llama.cpp: off
  require_range("--temp", o.temperature, 0, kMost);
  require_range("--top-p", o.top_p, 0, 1);
  require_range("--min-p", o.min_p, 0, 1);
  require_range("--typical", o.typical_p, 0, 1);
  require_range("--repeat-penalty", o.repeat_penalty, 0.001, kMost);
  require_range("--repeat-last-n", o.penalty_last, -1, INT32_MAX);
  require_range("--presence-penalty", o.presence_penalty, -1000, 1000);
  require_range("--frequency-penalty", o.frequency_penalty, -1000, 1000);
  require_range("--top-nsigma", o.top_n_sigma, 0, kMost);
  require_range("--xtc-probability", o.xtc_probability, 0, 1);
  require_range("--xtc-threshold", o.xtc_threshold, 0, 1);
  require_range("--dynatemp-range", o.dynamic_range, 0, kMost);
  require_range("--dynatemp-exp", o.dynamic_exponent, 0, kMost);
  require_range("--mirostat", o.mirostat, 0, 2);
  require_range("--mirostat-ent", o.mirostat_target, 0, kMost);
  require_range("--mirostat-lr", o.mirostat_rate, 0, kMost);
  require_range("--dry-multiplier", o.dry_multiplier, 0, kMost);
  require_range("--dry-base", o.dry_base, 1, kMost);
  require_range("--dry-allowed-length", o.dry_allowed_length, 1, INT32_MAX);
  require_range("--dry-penalty-last-n", o.dry_penalty_last, -1, INT32_MAX);
  if (!args.dry_breakers.empty()) {
    o.dry_breakers = args.dry_breakers;
    std::erase(*o.dry_breakers, "none");
  }
  o.samplers = parts_of(args.samplers, ';');
  for (const std::string& text : args.logit_bias) {
    const auto bias = parse_bias(text);
    if (!bias) {
      usage(
          fmt::format("--logit-bias: expected a token, a sign and a number, such as 15043+1, "
                      "15043-0.5 or 15043-inf, found '{}'",
                      text));
    }
    o.logit_bias.push_back(*bias);
  }
  return o;
}

void declare_constraint(Options options, ConstraintArgs& args) {
  options = options.group(kConstraintGroup);
  const std::vector<Option> sources{
      options.add("--grammar", "TEXT", args.grammar,
                  "Generate only text that matches this GBNF grammar"),
      options.add("--grammar-file", "FILE", args.grammar_file, "The same from a file"),
      options.add("-j,--json-schema", "TEXT", args.schema,
                  "Generate only JSON that matches this schema; '{}': any JSON"),
      options.add("-jf,--json-schema-file", "FILE", args.schema_file, "The same from a file")};
  for (size_t i = 0; i < sources.size(); ++i) {
    for (size_t j = 0; j < i; ++j) sources[i].excludes(sources[j]);
  }
}

void read_constraint(const ConstraintArgs& args, GenerateOptions& options) {
  options.grammar = args.grammar_file.empty() ? args.grammar : read_filled_input(args.grammar_file);
  options.json_schema =
      args.schema_file.empty() ? args.schema : read_filled_input(args.schema_file);
}

void require_biased_tokens(const SamplingOptions& options, int32_t vocabulary_size) {
  for (const auto& [token, bias] : options.logit_bias) {
    if (token >= vocabulary_size) {
      usage(fmt::format("--logit-bias: token {} is not one of the model's {}", token,
                        vocabulary_size));
    }
  }
}

}  // namespace infer::cli
