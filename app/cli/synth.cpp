// infer synth: a model of random weights in a named shape.
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "infer/jobs.hpp"
#include "platform/interrupt.h"

namespace infer::cli {
namespace {

struct SynthArgs {
  SynthOptions synth;
  std::string path;
  bool quiet = false;
};

void declare_synth(Options options, SynthArgs& args) {
  SynthOptions& synth = args.synth;
  options.add("shape", "SHAPE", synth.shape, "Shape of the model")
      .required()
      .one_of(synth_shapes());
  options.add("output", "FILE", args.path, "GGUF file to write").required();
  options.add("--type", "TYPE", synth.type, "Type of the weights, or a mix such as q4_k_m")
      .show_default();
  options.add("--vocab", "FILE", synth.vocabulary, "GGUF file to take the vocabulary from")
      .replaced_by(model_path_of);
  options.add("-s,--seed", "N", synth.seed, "Seed").show_default();
  const auto size = [&](const char* name, int64_t& to, const char* what) {
    options.add(name, "N", to, what).range(1, 1 << 30);
  };
  size("--layers", synth.layers, "Layers (this and the following replace the shape's own)");
  size("--embedding", synth.embedding, "Width");
  size("--feed-forward", synth.feed_forward, "Width of the feed-forward part");
  size("--heads", synth.heads, "Heads");
  size("--kv-heads", synth.kv_heads, "Key-value heads");
  size("--head-dim", synth.head_dim, "Width of a head");
  size("--tokens", synth.tokens, "Vocabulary");
  size("--experts", synth.experts, "Experts");
  size("--experts-used", synth.experts_used, "Experts used for a token");
  size("--expert-feed-forward", synth.expert_feed_forward, "Width of an expert");
  size("--context", synth.context, "Context length");
  options.flag("-q,--quiet", args.quiet, "Only errors on stderr");
  options.example("infer synth tinyllama-1.1b model.gguf --type q4_k_m", "to measure its speed");
}

int run_synth(SynthArgs& args) {
  require_output("output", args.path, {args.synth.vocabulary});
  Progress bar("writing", !args.quiet);
  args.synth.progress = [&bar](double done) {
    bar.update(done);
    return !platform::interrupted();
  };
  const Status status = [&] {
    const platform::InterruptScope scope;
    return synth(args.path, args.synth);
  }();
  erase_progress();
  must(status);
  if (!args.quiet) note("{}: written", args.path);
  return kExitOk;
}

}  // namespace

void add_synth(Parser& parser) {
  add_command(parser, "synth", "Write a model of random weights", declare_synth, run_synth);
}

}  // namespace infer::cli
