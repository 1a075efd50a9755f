// infer bench: speed, and how near it is to what the machine can do.
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

struct BenchArgs {
  ModelArgs model;
  BenchOptions bench;
  bool json = false;
};

void declare(CLI::App& app, BenchArgs& args) {
  declare_load(app, args.model);
  const auto count = [&](const char* name, int32_t& to, const char* what) {
    app.add_option(name, to, what)
        ->type_name("N")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
  };
  count("-p,--n-prompt", args.bench.prompt_tokens, "Tokens of the prompt");
  count("-n,--n-gen", args.bench.generate_tokens, "Tokens to generate");
  count("-r,--repetitions", args.bench.repeats, "Times to repeat");
  app.add_flag("--json", args.json, "Print JSON on stdout");
}

Json to_json(const BenchRate& rate) {
  return {{"tokens", rate.tokens},
          {"tokens_per_s", rate.tokens_per_s},
          {"spread", rate.spread},
          {"fraction", rate.fraction}};
}

void print(const char* name, const BenchRate& rate, const char* of) {
  note("  {:<8} {:>6} tokens  {:>10.2f} tokens/s  ±{:.1f} %  {:>5.1f} % of {}", name, rate.tokens,
       rate.tokens_per_s, rate.spread * 100, rate.fraction * 100, of);
}

int run(BenchArgs& args) {
  args.bench.load = load_options(args.model);
  const BenchReport report = must(bench(args.model.path, args.bench));
  if (args.json) {
    print_json({{"model", report.model},
                {"device", report.device},
                {"threads", report.threads},
                {"read_bandwidth_gb_s", report.read_bandwidth_gb_s},
                {"int8_mac_g_s", report.int8_mac_g_s},
                {"weights_bytes", report.weights_bytes},
                {"prefill", to_json(report.prefill)},
                {"decode", to_json(report.decode)}});
    return kExitOk;
  }
  note("{} on {}, {} threads", report.model, report.device, report.threads);
  note("  ceilings: {:.1f} GB/s read, {:.0f} G int8 multiply-accumulates/s; weights {} a token",
       report.read_bandwidth_gb_s, report.int8_mac_g_s, human_bytes(report.weights_bytes));
  print("prefill", report.prefill, "the arithmetic");
  print("decode", report.decode, "the bandwidth");
  return kExitOk;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  add_command(app, action, "bench", "Measure speed against the machine's ceilings", declare, run);
}

}  // namespace infer::cli
