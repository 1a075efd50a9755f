#include "cli/chat_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
#include <variant>
#include <vector>

#include "cli/failure.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sampling.h"

namespace infer::cli {
namespace {

/// A number among the settings.
struct Setting {
  const char* flag;
  std::variant<std::optional<float> SamplingOptions::*, std::optional<int32_t> SamplingOptions::*>
      field;
  const char* suggestion;  ///< the model's key after "general.sampling."; null: models have none
  const char* preset;      ///< holds where neither says anything
};

using S = SamplingOptions;
const Setting kSettings[] = {
    {"--temp", &S::temperature, "temp", "0.8"},
    {"--top-k", &S::top_k, "top_k", "0"},
    {"--top-p", &S::top_p, "top_p", "0.95"},
    {"--min-p", &S::min_p, "min_p", "0.05"},
    {"--typical", &S::typical_p, nullptr, "1"},
    {"--top-nsigma", &S::top_n_sigma, nullptr, "0"},
    {"--dynatemp-range", &S::dynamic_range, nullptr, "0"},
    {"--dynatemp-exp", &S::dynamic_exponent, nullptr, "1"},
    {"--xtc-probability", &S::xtc_probability, "xtc_probability", "0"},
    {"--xtc-threshold", &S::xtc_threshold, "xtc_threshold", "0.1"},
    {"--mirostat", &S::mirostat, "mirostat", "0"},
    {"--mirostat-ent", &S::mirostat_target, "mirostat_tau", "5"},
    {"--mirostat-lr", &S::mirostat_rate, "mirostat_eta", "0.1"},
    {"--repeat-penalty", &S::repeat_penalty, "penalty_repeat", "1"},
    {"--repeat-last-n", &S::penalty_last, "penalty_last_n", "64"},
    {"--presence-penalty", &S::presence_penalty, nullptr, "0"},
    {"--frequency-penalty", &S::frequency_penalty, nullptr, "0"},
    {"--dry-multiplier", &S::dry_multiplier, nullptr, "0"},
    {"--dry-base", &S::dry_base, nullptr, "1.75"},
    {"--dry-allowed-length", &S::dry_allowed_length, nullptr, "2"},
    {"--dry-penalty-last-n", &S::dry_penalty_last, nullptr, "-1"},
};

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

void show(const char* flag, const std::string& value, const char* whose = "") {
  print_line(fmt::format("  {:22} {:8} {}", flag, value, whose));
}

void show(const Setting& setting, const SamplingOptions& options, const ModelDescription& model) {
  std::string value;
  std::visit(
      [&](auto field) {
        if (options.*field) value = fmt::format("{}", *(options.*field));
      },
      setting.field);
  if (!value.empty()) return show(setting.flag, value);
  if (setting.suggestion != nullptr) {
    const std::string key = std::string("general.sampling.") + setting.suggestion;
    const auto found =
        std::ranges::find(model.metadata, key, &std::pair<std::string, std::string>::first);
    if (found != model.metadata.end()) return show(setting.flag, found->second, "of the model");
  }
  show(setting.flag, setting.preset, "by default");
}

}  // namespace

void change_settings(GenerateOptions& options, const std::string& text) {
  Flags flags;
  std::istringstream words(text);
  std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
  SamplingOptions given;
  try {
    flags.parser.parse(arguments);
    given = sampling_options(flags.sampling);
  } catch (const Failure& e) {
    throw Failure(kExitRuntime, std::string("/set: ") + e.what());
  }
  SamplingOptions& o = options.sampling;
  for (const Setting& setting : kSettings) {
    std::visit(
        [&](auto field) {
          if (given.*field) o.*field = given.*field;
        },
        setting.field);
  }
  if (given.dry_breakers) o.dry_breakers = given.dry_breakers;
  if (given.seed) o.seed = given.seed;
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
  for (const Setting& setting : kSettings) show(setting, o, model);
  if (!o.samplers.empty()) show("--samplers", fmt::format("{}", fmt::join(o.samplers, ";")));
  for (const auto& [token, bias] : o.logit_bias) {
    show("--logit-bias", fmt::format("{}{:+}", token, bias));
  }
}

}  // namespace infer::cli
