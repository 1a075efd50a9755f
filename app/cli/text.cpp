// infer tokenize, detokenize: text to ids and back, with a model's vocabulary.
#include <fmt/ranges.h>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

struct TextArgs {
  ModelArgs model;
  std::optional<std::string> prompt;
  std::string file = "-";
  bool no_bos = false;
  bool no_special = false;
  bool json = false;
};

void declare_tokenize(Options options, TextArgs& args) {
  declare_model(options, args.model);
  const Option prompt = options.add("-p,--prompt", "TEXT", args.prompt, "The text").may_be_empty();
  options.add("-f,--file", "FILE", args.file, "Text to read, to the byte; '-': stdin")
      .show_default()
      .excludes(prompt);
  options.flag("--no-bos", args.no_bos, "Add no special tokens");
  options.flag("--no-special", args.no_special, "Take special tokens in the text as plain text");
  options.flag("--json", args.json, "Print one JSON array");
  options.example("infer tokenize model.gguf -p \"Once upon a time\"", "the ids of a text");
}

int run_tokenize(TextArgs& args) {
  require_model(args.model);
  const std::string text = args.prompt ? *args.prompt : read_input(args.file);
  const std::unique_ptr<Vocabulary> vocabulary = must_read(Vocabulary::load(args.model.path));
  const std::vector<int32_t> tokens =
      must(vocabulary->tokenize(text, {!args.no_bos, !args.no_special}));
  if (args.json) {
    print_json(tokens);
    return kExitOk;
  }
  write_out(tokens.empty() ? "" : fmt::format("{}\n", fmt::join(tokens, "\n")));
  check_out();
  return kExitOk;
}

void declare_detokenize(Options options, TextArgs& args) {
  declare_model(options, args.model);
  options
      .add("-f,--file", "FILE", args.file,
           "Ids to read: a JSON array, or numbers separated by spaces or commas; '-': stdin")
      .show_default();
}

int run_detokenize(TextArgs& args) {
  require_model(args.model);
  const auto tokens = parse_tokens(read_input(args.file));
  if (!tokens) {
    throw Failure(
        kExitBadFile,
        fmt::format(
            "{}: expected token ids: a JSON array, or numbers separated by commas or spaces",
            args.file == "-" ? "stdin" : args.file));
  }
  const std::unique_ptr<Vocabulary> vocabulary = must_read(Vocabulary::load(args.model.path));
  for (const int32_t token : *tokens) {
    if (token < 0 || token >= vocabulary->size()) {
      usage(fmt::format("token {} is not one of the model's {}", token, vocabulary->size()));
    }
  }
  write_text(vocabulary->detokenize(*tokens));
  check_out();
  return kExitOk;
}

}  // namespace

void add_text(Parser& parser) {
  add_command(parser, "tokenize", "Text to token ids", declare_tokenize, run_tokenize);
  add_command(parser, "detokenize", "Token ids to text", declare_detokenize, run_detokenize);
}

}  // namespace infer::cli
