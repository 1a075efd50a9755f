#include "cli/chat_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/failure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sampling.h"

namespace infer::cli {
namespace {

/// The flags that can change between answers.
struct Flags {
  Parser parser{"/set", "settings"};
  SamplingArgs sampling;
  std::optional<int32_t> max_tokens;

  Flags() {
    parser.remove_help_flag();
    const Options options = parser.options();
    declare_sampling(options, sampling);
    options.add("-n,--n-predict", "N", max_tokens, "Most tokens of an answer; -1: until it ends")
        .range(-1, std::numeric_limits<int32_t>::max());
  }
};

/// The words of a line, of which quotes make one and take spaces into it, as in a shell.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (const char c : line) {
    if (quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) usage(fmt::format("a {} is not closed", quote));
  return words;
}

void show(std::string_view flag, const std::string& value, const char* whose = "") {
  print_line(fmt::format("  {:22} {:8} {}", flag, value, whose));
}

/// A number as it was set, else as the model suggests it, else `preset`. `suggestion`: the model's
/// key after "general.sampling."; empty: models have none.
template <typename T>
void show(std::string_view flags, const std::optional<T>& value, T preset,
          std::string_view suggestion, const ModelDescription& model) {
  const std::string flag(first_name(flags));
  if (value) return show(flag, fmt::to_string(*value));
  const std::string key = "general.sampling." + std::string(suggestion);
  const auto found =
      std::ranges::find(model.metadata, key, &std::pair<std::string, std::string>::first);
  if (!suggestion.empty() && found != model.metadata.end()) {
    return show(flag, found->second, "of the model");
  }
  show(flag, fmt::to_string(preset), "by default");
}

}  // namespace

void change_settings(GenerateOptions& options, const std::string& text, int32_t vocabulary) {
  Flags flags;
  SamplingOptions given;
  try {
    std::vector<std::string> arguments = words_of(text);
    flags.parser.parse(arguments);
    given = sampling_options(flags.sampling);
    require_one_seed(flags.sampling);
    require_biased_tokens(given, vocabulary);
  } catch (const Failure& e) {
    throw Failure(kExitRuntime, std::string("/set: ") + e.what());
  }
  SamplingOptions& o = options.sampling;
#define INFER_SAMPLING(type, name, ...) \
  if (given.name) o.name = given.name;
#include "infer/samplers.def"
  if (given.dry_breakers) o.dry_breakers = given.dry_breakers;
  if (!flags.sampling.seeds.empty()) o.seed = given.seed;  // none: a fresh one each time
  if (!given.samplers.empty()) o.samplers = given.samplers;
  if (!given.logit_bias.empty()) o.logit_bias = given.logit_bias;
  if (flags.max_tokens) options.max_tokens = *flags.max_tokens;
}

void show_settings(const GenerateOptions& options, const ModelDescription& model) {
  print_line("/set takes flags of the command line, such as /set --temp 0.7 --top-k 40:");
  print_line(Flags().parser.help());
  print_line("They are now:");
  const SamplingOptions& o = options.sampling;
  show("--n-predict", std::to_string(options.max_tokens));
  show("--seed", o.seed ? std::to_string(*o.seed) : "-1", o.seed ? "" : "a fresh one each time");
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, ...) \
  show<type>(flags, o.name, preset, key, model);
#include "infer/samplers.def"
  if (!o.samplers.empty()) show("--samplers", fmt::format("{}", fmt::join(o.samplers, ";")));
  for (const auto& [token, bias] : o.logit_bias) {
    show("--logit-bias", fmt::format("{}{:+}", token, bias));
  }
}

}  // namespace infer::cli
