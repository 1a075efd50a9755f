// infer run: completes a raw prompt.
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/sampling.h"

namespace infer::cli {
namespace {

struct RunArgs {
  ModelArgs model;
  std::optional<std::string> prompt;
  std::string file;
  SamplingArgs sampling;
  GenerateOptions generate;
  bool shift = false;
  bool json = false;
};

void declare(CLI::App& app, RunArgs& args) {
  declare_load(app, args.model);
  CLI::Option* prompt = app.add_option("-p,--prompt", args.prompt, "The prompt")->type_name("TEXT");
  app.add_option("-f,--file", args.file, "Read the prompt from a file, to the byte; '-': stdin")
      ->type_name("FILE")
      ->excludes(prompt);
  app.add_option("-n,--n-predict", args.generate.max_tokens,
                 "Tokens to generate; -1: until the end of the text")
      ->type_name("N")
      ->check(CLI::Range(-1, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  declare_sampling(app, args.sampling);
  app.add_flag("--ignore-eos", args.generate.ignore_end, "Go on past end-of-text tokens");
  app.add_flag("--context-shift", args.shift,
               "When the context is full, drop the earlier half of it and go on");
  app.add_option("--keep", args.generate.keep, "First tokens that --context-shift never drops")
      ->type_name("N")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str();
  app.add_flag("--json", args.json, "Print one JSON object in place of the text");
}

const char* reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::context: return "context";
    case FinishReason::cancelled: return "cancelled";
  }
  return "unknown";
}

double rate(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

double prompt_rate(const GenerateResult& r) { return rate(r.prompt_tokens, r.prompt_seconds); }

/// The first token comes out of the prompt's last step; the time runs from there.
double generate_rate(const GenerateResult& r) {
  return r.generated_tokens > 1 ? rate(r.generated_tokens - 1, r.generate_seconds) : 0;
}

Json report(const GenerateResult& result, const std::string& text,
            const std::vector<int32_t>& tokens) {
  return {{"text", text},
          {"tokens", tokens},
          {"finish_reason", reason_name(result.reason)},
          {"seed", result.seed},
          {"timings",
           {{"prompt_tokens", result.prompt_tokens},
            {"reused_tokens", result.reused_tokens},
            {"shifted_tokens", result.shifted_tokens},
            {"prompt_seconds", result.prompt_seconds},
            {"prompt_tokens_per_s", prompt_rate(result)},
            {"generated_tokens", result.generated_tokens},
            {"generate_seconds", result.generate_seconds},
            {"generated_tokens_per_s", generate_rate(result)},
            {"first_token_seconds", result.first_token_seconds}}}};
}

int run(RunArgs& args) {
  args.generate.sampling = sampling_options(args.sampling);
  if (args.shift) args.generate.overflow = ContextOverflow::shift;
  require_model(args.model);
  if (!args.prompt && args.file.empty()) usage("no prompt given: use -p TEXT or -f FILE");
  const std::string prompt = args.prompt ? *args.prompt : read_input(args.file);

  const std::unique_ptr<Engine> engine = load_engine(args.model);
  require_biased_tokens(args.generate.sampling, engine->vocabulary_size());
  const std::vector<int32_t> prompt_tokens = must(engine->tokenize(prompt, TokenizeOptions{}));
  const std::unique_ptr<Session> session = must(engine->open_session());
  std::string text;
  std::vector<int32_t> tokens;
  bool line_open = false;
  const auto on_token = [&](int32_t token, std::string_view piece) {
    if (args.json) {
      if (token >= 0)
        tokens.push_back(token);  // −1: the rest of a text that ends within a character
      text += piece;
      return !interrupted();
    }
    if (!piece.empty()) line_open = piece.back() != '\n';
    return write_out(piece) && !interrupted();
  };
  Result<GenerateResult> result = [&] {
    const InterruptScope scope(session.get());
    return session->generate(prompt_tokens, args.generate, on_token);
  }();
  const GenerateResult done = must(std::move(result));
  if (args.json) print_json(report(done, text, tokens));
  check_out();
  if (!args.model.quiet) {
    note("{}prompt {} tokens, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s; seed {}{}",
         line_open ? "\n" : "", done.prompt_tokens, prompt_rate(done), done.generated_tokens,
         generate_rate(done), done.seed,
         done.reason == FinishReason::context
             ? "; stopped: the context is full (-c, or --context-shift)"
             : "");
  }
  return interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  add_command(app, action, "run", "Complete a prompt", declare, run);
}

}  // namespace infer::cli
