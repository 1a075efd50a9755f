// infer synth: a model of random weights in a named shape.
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"

namespace infer::cli {
namespace {

struct SynthArgs {
  SynthOptions synth;
  std::string path;
  bool quiet = false;
};

void declare(CLI::App& app, SynthArgs& args) {
  SynthOptions& synth = args.synth;
  app.add_option("shape", synth.shape, "Shape of the model")
      ->required()
      ->type_name("SHAPE")
      ->check(CLI::IsMember(synth_shapes()));
  app.add_option("output", args.path, "GGUF file to write")->required()->type_name("FILE");
  app.add_option("--type", synth.type, "Type of the weights, or a mix such as q4_k_m")
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_option("--vocab", synth.vocabulary, "GGUF file to take the vocabulary from")
      ->type_name("FILE");
  app.add_option("-s,--seed", synth.seed, "Seed")->type_name("N")->capture_default_str();
  const auto size = [&](const char* name, int64_t& to, const char* what) {
    app.add_option(name, to, what)->type_name("N")->check(CLI::Range(1, 1 << 30));
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
  app.add_flag("-q,--quiet", args.quiet, "Only errors on stderr");
}

int run(SynthArgs& args) {
  require_output("output", args.path, {args.synth.vocabulary});
  Progress bar("writing", !args.quiet);
  args.synth.progress = [&bar](double done) {
    bar.update(done);
    return !interrupted();
  };
  const Status status = [&] {
    const InterruptScope scope;
    return synth(args.path, args.synth);
  }();
  erase_progress();
  must(status);
  if (!args.quiet) note("{}: written", args.path);
  return kExitOk;
}

}  // namespace

void add_synth(CLI::App& app, Action& action) {
  add_command(app, action, "synth", "Write a model of random weights", declare, run);
}

}  // namespace infer::cli
