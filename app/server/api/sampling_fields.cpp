#include "server/api/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "server/api/adapters.h"
#include "server/api/constraint_fields.h"
#include "server/api/prompt_fields.h"

namespace infer::server {
namespace {

constexpr size_t kMostStops = 64;
constexpr size_t kMostSamplers = 32;
constexpr size_t kMostBreakers = 64;
constexpr size_t kMostBiases = 10'000;
constexpr size_t kMostAllowedTokens = 1'000'000;

template <typename T>
void read_sampler(Fields& fields, const char* name, double low, double high, std::optional<T>& to) {
  if constexpr (std::is_integral_v<T>) {
    // -1 means "off" elsewhere, as 0 does here.
    const int64_t least = low == 0 ? -1 : static_cast<int64_t>(low);
    if (const auto value = fields.integer(name, least, static_cast<int64_t>(high))) {
      to = static_cast<T>(std::max(*value, static_cast<int64_t>(low)));
    }
  } else if (const auto value = fields.number(name, low, high)) {
    to = static_cast<T>(*value);
  }
}

/// What other servers and their clients call the samplers.
void read_other_names(Fields& fields, SamplingOptions& to) {
  read_sampler(fields, "repeat_last_n", -1, INT32_MAX, to.penalty_last);
  read_sampler(fields, "repetition_penalty", 1e-3, 1e6, to.repeat_penalty);
  read_sampler(fields, "mirostat_tau", 0, 1e6, to.mirostat_target);
  read_sampler(fields, "mirostat_eta", 0, 1e6, to.mirostat_rate);
  read_sampler(fields, "dynatemp_range", 0, 1e6, to.dynamic_range);
  read_sampler(fields, "dynatemp_exponent", 0, 1e6, to.dynamic_exponent);
  read_sampler(fields, "dry_penalty_last_n", -1, INT32_MAX, to.dry_penalty_last);
}

/// The samplers in their order, as an array or with ';' between, and what ends a repeated sequence.
void read_order(Fields& fields, SamplingOptions& to) {
  std::vector<std::string> names = fields.texts("samplers", kMostSamplers);
  if (names.size() == 1) {
    const std::string text = std::move(names.front());
    names.clear();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(';', begin), text.size());
      names.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  // llama.cpp chooses with it among pieces of the same text; nothing else stands for it.
  std::erase(names, "infill");
  to.samplers = std::move(names);
  if (fields.has("dry_sequence_breakers")) {
    to.dry_breakers = fields.texts("dry_sequence_breakers", kMostBreakers);
  }
}

/// {"42": -100}: token and bias.
void read_biases(Fields& fields, const Engine& engine, SamplingOptions& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  if (biases->size() > kMostBiases) {
    fields.wrong("logit_bias", fmt::format("at most {} tokens", kMostBiases));
  }
  Fields each(*biases, fields.path_of("logit_bias"));
  for (const auto& [name, value] : biases->items()) {
    int32_t token = -1;
    const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (failed != std::errc{} || end != name.data() + name.size() || token < 0 ||
        token >= engine.vocabulary_size()) {
      fields.wrong("logit_bias",
                   fmt::format("ids of tokens from 0 to {} as keys", engine.vocabulary_size() - 1));
    }
    const auto bias = each.number(name.c_str(), -100, 100);
    if (!bias) each.wrong(name, "a number from -100 to 100");
    sampling.logit_bias.emplace_back(token, static_cast<float>(*bias));
  }
}

/// What vLLM's server takes besides.
void read_token_fields(Fields& fields, const Engine& engine, GenerateOptions& options) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<std::pair<int32_t, float>>& biases = options.sampling.logit_bias;
  if (const auto least = fields.integer("min_tokens", 0, INT32_MAX)) {
    options.min_tokens = static_cast<int32_t>(*least);
  }
  if (const Json* ids = fields.array("stop_token_ids", kMostBiases)) {
    options.stop_tokens = read_ids(fields, "stop_token_ids", *ids, engine);
  }
  std::vector<int32_t> allowed;
  if (const Json* ids = fields.array("allowed_token_ids", kMostAllowedTokens)) {
    if (ids->empty()) fields.wrong("allowed_token_ids", "at least one token");
    allowed = read_ids(fields, "allowed_token_ids", *ids, engine);
  }
  const bool allows_some = !allowed.empty();
  // A word as it begins a text and as it follows another one, which most vocabularies have a token
  // of its own for.
  for (const std::string& word : fields.texts("bad_words", kMostStops)) {
    if (word.empty()) continue;
    bool found = false;
    for (const std::string& spelling : {word, " " + word}) {
      const std::vector<int32_t> ids = must(engine.tokenize(spelling, {false, false}));
      if (ids.size() != 1) continue;
      if (!allows_some) biases.emplace_back(ids.front(), -kInfinity);
      std::erase(allowed, ids.front());
      found = true;
    }
    if (!found) fields.wrong("bad_words", fmt::format("words of one token, not '{}'", word));
  }
  if (allows_some && allowed.empty()) {
    fields.wrong("bad_words", "to leave one of 'allowed_token_ids'");
  }
  for (const int32_t id : allowed) biases.emplace_back(id, kInfinity);
  fields.refuse("truncate_prompt_tokens", "prompts are not cut; send what fits into the context");
  if (fields.boolean("include_stop_str_in_output").value_or(false)) {
    fields.wrong("include_stop_str_in_output", "false: the text ends before a stop string");
  }
  const std::vector<std::string> modalities = fields.texts("modalities", kMostStops);
  if (std::ranges::any_of(modalities, [](const std::string& name) { return name != "text"; })) {
    fields.wrong("modalities", "text alone: the server makes nothing else");
  }
}

}  // namespace

void read_generation(Fields& fields, const ServedModel& model, CompletionRequest& request) {
  GenerateOptions& options = request.options;
#define INFER_SAMPLING(type, name, preset, low, high, ...) \
  read_sampler<type>(fields, #name, low, high, options.sampling.name);
#include "infer/samplers.def"
  read_other_names(fields, options.sampling);
  read_order(fields, options.sampling);
  // -1 asks for a fresh seed.
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX); seed && *seed != -1) {
    options.sampling.seed = static_cast<uint64_t>(*seed);
  }
  read_biases(fields, model.engine(), options.sampling);
  read_token_fields(fields, model.engine(), options);
  options.stop = fields.texts("stop", kMostStops);
  std::erase(options.stop, "");
  read_constraints(fields, request);
  if (const auto ignore = fields.boolean("ignore_eos")) options.ignore_end = *ignore;
  if (const auto draft = fields.integer("draft_tokens", -1, 32)) {
    options.draft_tokens = static_cast<int32_t>(*draft);
  }
  if (const auto priority = fields.integer("priority", -1000, 1000)) {
    options.priority = static_cast<int32_t>(*priority);
  }
  request.adapters = read_adapters(fields, model);
}

}  // namespace infer::server
