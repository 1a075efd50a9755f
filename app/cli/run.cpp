// infer run: completes a raw prompt, with several seeds at once if so asked.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>
#include <thread>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/sampling.h"
#include "cli/speculation.h"
#include "cli/statistics.h"
#include "platform/interrupt.h"

namespace infer::cli {
namespace {

struct RunArgs {
  ModelArgs model;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_word;
  std::string file, binary_file;
  std::vector<std::string> images;
  bool escape = false;
  SamplingArgs sampling;
  GenerateOptions generate;
  ConstraintArgs constraint;
  SpeculationArgs speculation;
  bool shift = false;
  bool json = false;
};

void declare_prompt(Options options, RunArgs& args) {
  declare_load(options, args.model);
  const Option word =
      options.add("prompt", "TEXT", args.prompt_word, "The prompt, after the model").may_be_empty();
  const Option prompt =
      options.add("-p,--prompt", "TEXT", args.prompt, "The prompt").may_be_empty().excludes(word);
  const Option file =
      options
          .add(
              "-f,--file", "FILE", args.file,
              "Read the prompt from a file, without the line end that it may end with; '-': stdin, "
              "which is also read without a prompt if it is a pipe or a file")
          .excludes(prompt)
          .excludes(word);
  options.add("-bf,--binary-file", "FILE", args.binary_file, "The same, byte for byte")
      .excludes(prompt)
      .excludes(word)
      .excludes(file);
  declare_images(options, args.images);
  options.flag("-e,--escape,!--no-escape", args.escape,
               "\\n, \\t, \\\\, \\\", \\' and \\xNN in the prompt stand for those characters");
  options
      .add("-n,--n-predict,--predict", "N", args.generate.max_tokens,
           "Most tokens to generate; -1: until the text ends; -2: until it ends or the context is "
           "full")
      .range(-2, std::numeric_limits<int32_t>::max())
      .show_default();
  declare_sampling(options, args.sampling, true);
  options.add("-r,--stop,--reverse-prompt", "TEXT", args.generate.stop,
              "End before this text. May be given several times");
  declare_constraint(options, args.constraint);
  declare_speculation(options, args.speculation);
  const Options output = options.group(kOutputGroup);
  output
      .add("--logprobs", "N", args.generate.logprobs,
           "With --json: log-probabilities of every token and of the N most likely")
      .range(0, std::numeric_limits<int32_t>::max());
  options.flag("--ignore-eos", args.generate.ignore_end, "Never choose a token that ends the text");
  options.flag("--context-shift", args.shift,
               "When the context is full, drop its earlier half and continue");
  options
      .add("--keep", "N", args.generate.keep,
           "How many of the first tokens --context-shift never drops, besides the one that begins "
           "all texts of the model")
      .range(0, std::numeric_limits<int32_t>::max())
      .show_default();
  output.flag("--json", args.json, "Print one JSON object in place of the text");
  options.example("infer run model.gguf \"Once upon a time\" -n 100 --temp 0.7",
                  "complete a prompt, with at most 100 tokens");
  options.example("infer run -m model.gguf -f prompt.txt -s 1,2,3 --json",
                  "three texts from the prompt in a file, as JSON");
}

/// One completion.
struct Completion {
  const Vocabulary* vocabulary = nullptr;
  std::unique_ptr<Session> session;
  std::optional<Result<GenerateResult>> result;
  std::string text;
  std::vector<int32_t> tokens;
  Json logprobs = Json::array();
};

Json report(const Completion& done) {
  const GenerateResult& result = **done.result;
  Json json = {{"text", done.text},
               {"tokens", done.tokens},
               {"finish_reason", finish_name(result.reason)},
               {"seed", result.seed}};
  if (!done.logprobs.empty()) json["logprobs"] = done.logprobs;
  json["timings"] = {{"prompt_tokens", result.prompt_tokens},
                     {"reused_tokens", result.reused_tokens},
                     {"shifted_tokens", result.shifted_tokens},
                     {"prompt_seconds", result.prompt_seconds},
                     {"prompt_tokens_per_s", prompt_rate(result)},
                     {"generated_tokens", result.generated_tokens},
                     {"generate_seconds", result.generate_seconds},
                     {"generated_tokens_per_s", generate_rate(result)},
                     {"first_token_seconds", result.first_token_seconds}};
  if (const Json spec = speculation_json(result.speculation); !spec.is_null()) {
    json["speculation"] = spec;
  }
  return json;
}

Json logprob_entry(const Vocabulary& vocabulary, const std::pair<int32_t, float>& p) {
  const std::string_view piece = vocabulary.piece(p.first);
  Json entry = {{"token", p.first}, {"text", valid_utf8(piece)}};
  if (entry["text"] != piece) {  // no whole characters
    entry["bytes"] = Json::array();
    for (const char c : piece) entry["bytes"].push_back(static_cast<unsigned char>(c));
  }
  entry["logprob"] = p.second;  // JSON has no infinity: null
  return entry;
}

/// Blocks until done. `shown`: the text goes to stdout as it comes. `stop`, if there is one, ends
/// it soon once it is set.
void complete(Completion& completion, std::span<const int32_t> prompt, GenerateOptions options,
              bool shown, const std::atomic<bool>* stop = nullptr) {
  options.on_logprobs = [&](std::span<const std::pair<int32_t, float>> logprobs) {
    const Vocabulary& vocabulary = *completion.vocabulary;
    Json token = logprob_entry(vocabulary, logprobs[0]);
    token["top"] = Json::array();
    for (const auto& p : logprobs.subspan(1)) token["top"].push_back(logprob_entry(vocabulary, p));
    completion.logprobs.push_back(std::move(token));
    return true;
  };
  const auto on_token = [&](int32_t token, std::string_view piece) {
    // −1: the rest of a text that ends within a character.
    if (token >= 0) completion.tokens.push_back(token);
    completion.text += piece;
    return (!shown || write_text(piece)) && !platform::interrupted() && (stop == nullptr || !*stop);
  };
  completion.result = completion.session->generate(prompt, options, on_token);
}

/// Several completions of one prompt, which is computed once.
void complete_all(Engine& engine, std::vector<Completion>& completions,
                  std::span<const int32_t> prompt, const GenerateOptions& options,
                  const std::vector<std::optional<uint64_t>>& seeds) {
  {
    GenerateOptions prompt_alone;
    prompt_alone.max_tokens = 0;
    prompt_alone.images = options.images;
    const std::unique_ptr<Session> session = must(engine.open_session());
    const platform::InterruptScope scope([&] { session->cancel(); });
    must(session->generate(prompt, prompt_alone, {}));
  }
  if (platform::interrupted()) throw Failure(platform::interrupt_code(), "interrupted");
  const auto cancel_all = [&] {
    for (const Completion& completion : completions) completion.session->cancel();
  };
  const platform::InterruptScope scope(cancel_all);
  std::atomic<bool> stop{false};  // for those that have not begun: a cancel is nothing to them
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < completions.size(); ++i) {
    GenerateOptions own = options;
    own.sampling.seed = seeds[i];
    try {
      threads.emplace_back([&, i, own] {
        try {
          complete(completions[i], prompt, own, false, &stop);
        } catch (const std::bad_alloc&) {
          completions[i].result =
              tl::unexpected(Status(StatusCode::out_of_memory, "out of memory"));
        }
      });
    } catch (const std::bad_alloc&) {
      stop = true;
      cancel_all();
      throw;
    } catch (const std::system_error& failure) {
      stop = true;
      cancel_all();
      threads.clear();
      throw Failure(kExitRuntime,
                    fmt::format("-s: cannot start a thread for seed {} of {}: {}; give fewer seeds "
                                "at once",
                                i + 1, completions.size(), failure.code().message()));
    }
  }
}

void summarise(const Completion& completion) {
  const GenerateResult& done = **completion.result;
  note("prompt {} tokens{}, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s{}; seed {}{}",
       done.prompt_tokens, reused_text(done), prompt_rate(done), done.generated_tokens,
       generate_rate(done), speculation_summary(done.speculation), done.seed,
       done.reason == FinishReason::context
           ? "; stopped: the context is full (-c, or --context-shift)"
           : "");
}

std::string prompt_of(const RunArgs& args) {
  if (args.prompt) return *args.prompt;
  if (args.prompt_word) return *args.prompt_word;
  if (!args.binary_file.empty()) return read_input(args.binary_file);
  std::string hint = "use -p TEXT, -f FILE or a pipe; 'infer chat' converses";
  std::error_code ignored;
  const std::string& model = args.model.path;
  if (!model.empty() && !std::filesystem::exists(model, ignored)) {
    hint = fmt::format("'{}' was taken as the model: no such file; give the prompt with -p",
                       printable(model));
  }
  return without_line_end(read_input_or_pipe(args.file, "prompt", hint.c_str()));
}

/// Forbids the tokens that end a text, as --ignore-eos does in llama.cpp. A constraint decides by
/// itself where the text may end.
void forbid_ends(const Vocabulary& vocabulary, GenerateOptions& options) {
  if (!options.ignore_end || !options.grammar.empty() || !options.json_schema.empty()) return;
  auto& biases = options.sampling.logit_bias;
  for (int32_t token = 0; token < vocabulary.size(); ++token) {
    if (!vocabulary.is_end_of_generation(token)) continue;
    std::erase_if(biases, [&](const auto& bias) { return bias.first == token; });
    biases.emplace_back(token, -std::numeric_limits<float>::infinity());
  }
}

/// With --context-shift a prompt that does not fit would be cut in its middle.
void require_room(size_t prompt, int64_t context) {
  if (static_cast<int64_t>(prompt) <= context) return;
  throw Failure(kExitDoesNotFit,
                fmt::format("the prompt has {} tokens, and the context holds {}: shorten it, or "
                            "make the context larger (-c)",
                            prompt, context));
}

int run_prompt(RunArgs& args) {
  args.generate.sampling = sampling_options(args.sampling);
  const std::vector<std::optional<uint64_t>> seeds = seeds_of(args.sampling);
  read_constraint(args.constraint, args.generate);
  if (args.shift) args.generate.overflow = ContextOverflow::shift;
  if (args.generate.max_tokens == -2) {
    args.generate.max_tokens = -1;
    args.generate.overflow = ContextOverflow::stop;
  }
  apply_speculation(args.speculation, args.model, args.generate);
  std::string prompt = prompt_of(args);
  if (args.escape) prompt = unescaped(prompt);
  choose_model(args.model);

  choose_vision(args.model, args.images);
  args.model.load.parallel = std::max(args.model.load.parallel, static_cast<int32_t>(seeds.size()));
  const std::unique_ptr<Engine> engine = load_engine(args.model);
  require_biased_tokens(args.generate.sampling, engine->vocabulary_size());
  forbid_ends(engine->vocabulary(), args.generate);
  args.generate.images = read_images(*engine, args.images);
  if (engine->image_places(prompt) == 0) {
    for (size_t i = 0; i < args.images.size(); ++i) prompt.insert(0, engine->image_text());
  }
  const std::vector<int32_t> tokens =
      must(engine->tokenize(prompt, TokenizeOptions{}, args.generate.images));
  require_room(tokens.size(), engine->memory().longest);
  const SpecialTokenIds special = engine->vocabulary().special();
  if (special.adds_bos && !tokens.empty() && tokens.front() == special.bos &&
      args.generate.keep < std::numeric_limits<int32_t>::max()) {
    ++args.generate.keep;
  }
  std::vector<Completion> completions(seeds.size());
  for (Completion& completion : completions) {
    completion.vocabulary = &engine->vocabulary();
    completion.session = must(engine->open_session());
  }
  if (seeds.size() == 1) {
    const platform::InterruptScope scope([&] { completions[0].session->cancel(); });
    args.generate.sampling.seed = seeds[0];
    complete(completions[0], tokens, args.generate, !args.json);
  } else {
    complete_all(*engine, completions, tokens, args.generate, seeds);
  }
  Json reports = Json::array();
  bool line_open = false;
  for (const Completion& completion : completions) {
    if (!*completion.result) fail_generation(args.constraint, completion.result->error());
    if (args.json) {
      reports.push_back(report(completion));
    } else if (seeds.size() > 1) {
      write_text(completion.text + "\n");
    } else {
      line_open = !completion.text.empty() && completion.text.back() != '\n';
    }
  }
  if (args.json) print_json(seeds.size() == 1 ? reports[0] : reports);
  check_out();
  if (!args.model.quiet) {
    if (line_open) print_line("");
    for (const Completion& completion : completions) summarise(completion);
  }
  return platform::interrupted() ? platform::interrupt_code() : kExitOk;
}

}  // namespace

void add_run(Parser& parser) {
  add_command(parser, "run", "Complete a prompt", declare_prompt, run_prompt);
}

}  // namespace infer::cli
