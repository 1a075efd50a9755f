// infer perplexity: how well a model foresees a text, and how far it is from another one.
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "infer/jobs.hpp"
#include "platform/interrupt.h"
#include "platform/streams.h"

namespace infer::cli {
namespace {

constexpr int32_t kMostChunk = 1 << 20;

struct PerplexityArgs {
  ModelArgs model;
  std::string file;
  PerplexityOptions options;
  std::optional<int32_t> chunk;
  bool json = false;
};

void declare_perplexity(Options options, PerplexityArgs& args) {
  declare_load(options, args.model);
  options.add("-f,--file", "FILE", args.file,
              "File with the text; '-': stdin, which is also read without this flag if it is a "
              "pipe or a file");
  options
      .add("--chunk", "N", args.chunk,
           "Tokens in a chunk; only its second half is counted (default: -c, else 512)")
      .range(4, kMostChunk);
  options.add("--chunks", "N", args.options.chunks, "Most chunks; 0: all")
      .range(0, std::numeric_limits<int32_t>::max())
      .show_default();
  options.add("--save-base", "FILE", args.options.save,
              "Write the distributions, to compare other models against them");
  options.add("--kl-base", "FILE", args.options.base,
              "Print the Kullback-Leibler divergence from the model that wrote this file");
  options.flag("--special", args.options.parse_special,
               "Read the spelling of special tokens in the text as these tokens");
  options.group(kOutputGroup).flag("--json", args.json, "Print a JSON object");
  options.example("infer perplexity -m model.gguf -f text.txt", "how well it predicts a text");
  options.example("infer perplexity -m small.gguf -f text.txt --kl-base base.kl",
                  "how far it is from the model of --save-base base.kl");
}

Json report(const PerplexityReport& r) {
  Json json = {
      {"tokens", r.tokens}, {"perplexity", r.perplexity}, {"perplexity_error", r.perplexity_error}};
  if (!r.divergence) return json;
  const PerplexityReport::Divergence& d = *r.divergence;
  json["divergence"] = {{"base_perplexity", d.base_perplexity},
                        {"base_exact", d.base_exact},
                        {"mean", d.mean},
                        {"mean_error", d.mean_error},
                        {"median", d.median},
                        {"percentile_99", d.percentile_99},
                        {"largest", d.largest},
                        {"same_top", d.same_top}};
  return json;
}

int run_perplexity(PerplexityArgs& args) {
  const std::string text = read_input_or_pipe(args.file, "text", "use -f FILE or a pipe");
  choose_model(args.model);
  if (!args.options.save.empty()) {
    require_output("--save-base", args.options.save,
                   inputs_of(args.model, {args.file, args.options.base}));
  }
  LoadOptions& load = args.model.load;
  args.options.chunk = chunk_of(args.chunk, load.context, args.options.chunk, kMostChunk);
  if (load.context == 0) load.context = args.options.chunk;
  load.batch_rows = std::min(load.batch_rows, args.options.chunk);
  load.output_rows = std::min(load.batch_rows, 64);
  const std::unique_ptr<Engine> engine = load_engine(args.model);
  const bool progress = platform::stderr_is_terminal() && !args.model.quiet;
  args.options.on_chunk = [&](int64_t done, int64_t of, double so_far) {
    if (progress) print_line(fmt::format("chunk {} of {}: {:.4f}", done, of, so_far));
    return !platform::interrupted();
  };
  const Result<PerplexityReport> result = [&] {
    const platform::InterruptScope scope;
    return perplexity(*engine, text, args.options);
  }();
  if (platform::interrupted()) return platform::interrupt_code();
  const PerplexityReport done = must(result);
  if (args.json) {
    print_json(report(done));
    return kExitOk;
  }
  say("perplexity {:.4f} ± {:.4f} over {} tokens", done.perplexity, done.perplexity_error,
      done.tokens);
  if (done.divergence) {
    const PerplexityReport::Divergence& d = *done.divergence;
    say("divergence from the base (perplexity {}{:.4f}): mean {:.6f} ± {:.6f}, median {:.6f}, 99 % "
        "below {:.6f}, largest {:.6f}; the same most likely token in {:.2f} %",
        d.base_exact ? "" : "about ", d.base_perplexity, d.mean, d.mean_error, d.median,
        d.percentile_99, d.largest, 100 * d.same_top);
  }
  return kExitOk;
}

}  // namespace

void add_perplexity(Parser& parser) {
  add_command(parser, "perplexity", "Measure how well a model predicts a text", declare_perplexity,
              run_perplexity);
}

}  // namespace infer::cli
