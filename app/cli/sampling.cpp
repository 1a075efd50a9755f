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

/// "penalties, dry, top_k": all steps.
std::string step_names() {
  std::string names =
#define INFER_SAMPLER(name, makes, with_mirostat) #name ", "
#include "infer/samplers.def"
      "";
  names.resize(names.size() - 2);
  return names;
}

bool is_step(std::string_view name) {
  constexpr std::string_view kNames[] = {
#define INFER_SAMPLER(name, makes, with_mirostat) #name,
#include "infer/samplers.def"
      "typ_p", "temp"};  // as llama.cpp writes them
  return std::ranges::count(kNames, name) > 0;
}

/// A negative number is a seed like any other, as in the server's requests; -1 alone is none.
std::optional<uint64_t> parse_seed(const std::string& text) {
  if (text == "-1") return std::nullopt;
  int64_t negative = 0;
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const bool minus = text.starts_with('-');
  const auto parsed =
      minus ? std::from_chars(text.data(), end, negative) : std::from_chars(text.data(), end, seed);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    usage(fmt::format("--seed: expected a number or -1, found '{}'", text));
  }
  return minus ? static_cast<uint64_t>(negative) : seed;
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
void require_range(std::string_view flags, std::string_view unit, const std::optional<T>& value,
                   double low, double high) {
  if (unit == "P") high = std::min(high, 1.0);
  if (!value || (static_cast<double>(*value) >= low && static_cast<double>(*value) <= high)) return;
  const std::string_view flag = first_name(flags);
  const bool endless = high >= INT32_MAX && static_cast<double>(*value) < low;
  usage(endless ? fmt::format("{}: expected {} or more, found {}", flag, low, *value)
                : fmt::format("{}: expected {} to {}, found {}", flag, low, high, *value));
}

}  // namespace

void declare_sampling(Options options, SamplingArgs& args, bool takes_several_seeds) {
  options = options.group(kSamplingGroup);
  SamplingOptions& o = args.options;
  options.add("-s,--seed", takes_several_seeds ? "N[,N...]" : "N", args.seeds,
              takes_several_seeds
                  ? "Seed; equal seeds give equal text; -1: a random seed. Several, separated by "
                    "',', give a text each"
                  : "Seed; equal seeds give equal text; -1: a random seed");
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help) \
  options.add(flags, value, o.name, help);
#include "infer/samplers.def"
  options.add("--dry-sequence-breaker", "TEXT", args.dry_breakers,
              "Tokens with this text end a repeated sequence, instead of newline, ':', '\"' and "
              "'*'; 'none': no token does. May be given several times");
  const std::string order =
      "Samplers in order, separated by ';'; samplers left out are off: " + step_names();
  options.add("--samplers", "NAMES", args.samplers, order.c_str());
  options.add("-l,--logit-bias", "TOKEN(+|-)BIAS", args.logit_bias,
              "Added to the logit of a token, e.g. 15043+1 or 15043-1; 15043-inf forbids it. "
              "May be given several times");
}

std::vector<std::optional<uint64_t>> seeds_of(const SamplingArgs& args) {
  std::vector<std::optional<uint64_t>> seeds;
  for (const std::string& seed : list_of("--seed", args.seeds, ',')) {
    seeds.push_back(parse_seed(seed));
  }
  if (seeds.size() > 256) usage("--seed: expected at most 256 seeds");
  if (seeds.empty()) seeds.emplace_back();
  return seeds;
}

void require_one_seed(const SamplingArgs& args) {
  const size_t count = seeds_of(args).size();
  if (count > 1) {
    usage(fmt::format("--seed: expected one seed, found {}; 'infer run' takes several", count));
  }
}

SamplingOptions sampling_options(const SamplingArgs& args) {
  SamplingOptions o = args.options;
  o.seed = seeds_of(args).front();
  if (o.top_k && *o.top_k < 0) o.top_k = 0;  // as in llama.cpp: off
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help) \
  require_range(flags, value, o.name, low, high);
#include "infer/samplers.def"
  if (!args.dry_breakers.empty()) {
    o.dry_breakers = args.dry_breakers;
    std::erase(*o.dry_breakers, "none");
  }
  o.samplers = list_of("--samplers", args.samplers, ';');
  for (const std::string& name : o.samplers) {
    if (is_step(name)) continue;
    usage(fmt::format("--samplers: expected {}, separated by ';', found '{}'", step_names(), name));
  }
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

void fail_generation(const ConstraintArgs& args, const Status& status) {
  const std::string& text = status.message();
  std::string file;
  if (text.starts_with("grammar, ")) file = args.grammar_file;
  if (text.starts_with("the schema ")) file = args.schema_file;
  if (file == "-") file = "stdin";
  throw Failure(file.empty() ? exit_code(status.code()) : kExitBadFile,
                file.empty() ? text : file + ": " + text);
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
