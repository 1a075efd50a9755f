// infer eval: the logits after every token of a sequence.
#include <algorithm>
#include <bit>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "platform/interrupt.h"

namespace infer::cli {
namespace {

static_assert(std::endian::native == std::endian::little, "logits are written as in memory");

struct EvalArgs {
  EvalArgs() {
    model.load.cache_type_k = "f32";
    model.load.cache_type_v = "f32";
  }
  ModelArgs model;
  std::optional<std::string> tokens;
  std::string tokens_file;
  std::string logits;
  std::vector<std::string> images;
  int32_t chunk = 0;
  bool json = false;
};

void declare_eval(Options options, EvalArgs& args) {
  declare_load(options, args.model);
  const Option tokens = options.add("--tokens", "IDS", args.tokens, "Token ids, e.g. 1,2,3");
  options
      .add("--tokens-file", "FILE", args.tokens_file,
           "Token ids from a file: a JSON array, {\"tokens\": [...]} or a list; '-': stdin")
      .excludes(tokens);
  options.add("--logits", "FILE", args.logits,
              "Where to write float32 logits, row-major [tokens, vocabulary]; '-': stdout");
  declare_images(options, args.images);
  options.add("--chunk", "N", args.chunk, "Most tokens computed in one step").range(1, 65536);
  options.group(kOutputGroup).flag("--json", args.json, "Print what was written as a JSON object");
  options.example("infer eval -m model.gguf --tokens 1,2,3 --logits out.f32",
                  "logits of every position of three tokens");
}

std::vector<int32_t> read_tokens(const EvalArgs& args) {
  if (args.tokens) {
    if (auto tokens = parse_tokens(*args.tokens)) return *std::move(tokens);
    usage(fmt::format("--tokens: expected ids such as 1,2,3, found '{}'", *args.tokens));
  }
  if (args.tokens_file.empty()) usage("no tokens given: use --tokens IDS or --tokens-file FILE");
  if (auto tokens = parse_tokens(read_input(args.tokens_file))) return *std::move(tokens);
  throw Failure(kExitBadFile, fmt::format("{}: expected token ids: a JSON array, an object with "
                                          "\"tokens\", or numbers separated by commas or spaces",
                                          args.tokens_file));
}

int run_eval(EvalArgs& args) {
  require_model(args.model);
  if (args.logits.empty()) usage("no output given: use --logits FILE");
  choose_vision(args.model, args.images);
  std::vector<int32_t> tokens = read_tokens(args);
  if (tokens.empty()) usage("there are no tokens to evaluate");
  LoadOptions& load = args.model.load;
  if (args.chunk > 0) load.batch_rows = args.chunk;
  constexpr int32_t kImageTokens = 4096;  // more than those of any image
  const int64_t most =
      std::ssize(tokens) + std::ssize(args.images) * std::max(load.image_tokens, kImageTokens);
  // A tower's image may need more rows than there are tokens.
  if (load.vision.empty()) {
    load.batch_rows = static_cast<int32_t>(std::min<int64_t>(load.batch_rows, most));
  }
  load.output_rows = std::min(load.batch_rows, 64);
  if (load.context == 0) load.context = most;

  const bool to_stdout = args.logits == "-";
  if (to_stdout && args.json)
    usage("--logits - and --json both write to stdout; give --logits a file");
  if (!to_stdout) {
    std::vector<std::string> read = args.images;
    read.push_back(args.tokens_file);
    require_output("--logits", args.logits, inputs_of(args.model, std::move(read)));
  }
  const std::unique_ptr<Engine> engine = load_engine(args.model);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= engine->vocabulary_size()) {
      usage(fmt::format("token {} is not one of the model's {}", token, engine->vocabulary_size()));
    }
  }
  const std::vector<ModelImage> images = read_images(*engine, args.images);
  tokens = must(engine->place_images(tokens, images));
  const std::unique_ptr<Session> session = must(engine->open_session());
  OutputFile file(args.logits);
  int64_t rows = 0;
  const Status status = [&] {
    const platform::InterruptScope scope([&] { session->cancel(); });
    return session->evaluate(
        tokens,
        [&](int64_t, std::span<const float> logits) {
          ++rows;
          const std::span<const std::byte> bytes = std::as_bytes(logits);
          return file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) &&
                 !platform::interrupted();
        },
        images);
  }();
  if (platform::interrupted()) return platform::interrupt_code();
  if (!file.failed()) must(status);
  file.commit();
  if (args.json) {
    print_json(
        {{"tokens", rows}, {"vocabulary", engine->vocabulary_size()}, {"logits", args.logits}});
  } else if (!args.model.quiet) {
    note("{}: {} rows of {} logits", args.logits, rows, engine->vocabulary_size());
  }
  return kExitOk;
}

}  // namespace

void add_eval(Parser& parser) {
  add_command(parser, "eval", "Write the logits after every token of a sequence", declare_eval,
              run_eval);
}

}  // namespace infer::cli
