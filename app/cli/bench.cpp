// infer bench: speed, and how near it is to what the machine can do.
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/hub_options.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/sampling.h"
#include "cli/speculation.h"
#include "infer/jobs.hpp"

namespace infer::cli {
namespace {

struct BenchArgs {
  std::vector<std::string> paths;
  ModelArgs model;
  BenchOptions bench;
  std::string trace;
  bool json = false;
  // With drafters.
  std::vector<std::string> texts;
  SpeculationArgs speculation;
  GenerateOptions generate;
  float temperature = 0;
};

void declare_bench(Options options, BenchArgs& args) {
  BenchOptions& bench = args.bench;
  options.group(kModelGroup)
      .add("model,-m,--model", "FILE", args.paths,
           "Model file (needed); several are measured in turns")
      .replaced_by(model_path_of);
  declare_hub(options, args.model.hub);
  options.before_running([&args] {
    const std::string path = path_of_hub(args.model.hub, args.model.quiet);
    if (!path.empty()) args.paths.push_back(path);
    if (args.paths.empty()) args.paths.push_back(bundled_model());
  });
  declare_running(options, args.model, "-ub,--ubatch-size,--batch-size");
  constexpr int kMost = 1 << 20;
  const auto list = [&](const char* name, std::vector<int32_t>& to, int least, int most,
                        const char* what) {
    options.add(name, "N,…", to, what).separated_by_commas().range(least, most).show_default();
  };
  list("-p,--n-prompt", bench.prompt_tokens, 0, kMost, "Tokens of the prompts to measure; 0: none");
  list("-n,--n-gen", bench.generate_tokens, 0, kMost, "Tokens to generate; 0: none");
  list("-d,--n-depth", bench.depths, 0, kMost,
       "Tokens already in the context before each measurement");
  list("-b,--n-parallel", bench.batches, 1, 1024, "Sequences that generate together");
  options.add("-r,--repetitions", "N", bench.repeats, "Times to repeat")
      .range(1, kMost)
      .show_default();
  options.flag("--profile", bench.profile, "Print the time of each operation");
  options.add("--trace", "FILE", args.trace, "Write a timeline of all threads, for Perfetto");
  options.group(kOutputGroup).flag("--json", args.json, "Print JSON");
  options.add("-f,--file", "FILE", args.texts,
              "With drafters: a text to continue; repeat the flag for more texts");
  options.add("--temp", "T", args.temperature, "With drafters: the temperature")
      .not_negative()
      .show_default();
  declare_speculation(options, args.speculation);
  options.example("infer bench model.gguf -p 256,512 -n 32 -d 0,4096", "prompts and generations");
  options.example("infer bench model.gguf -md small.gguf -f text.txt -n 500",
                  "what a draft model gains");
}

/// What drafters gain on texts, -n tokens after each, in turns with plain decoding.
int run_speculation(BenchArgs& args) {
  SpeculationBenchOptions options;
  options.load = args.bench.load;
  options.generate = args.generate;
  options.generate.sampling.temperature = args.temperature;
  options.repeats = args.bench.repeats;
  options.tokens = args.bench.generate_tokens.front();
  for (const std::string& file : args.texts) options.prompts.push_back(read_input(file));
  const std::vector<SpeculationBenchResult> results =
      must_read(bench_speculation(args.model.path, options));
  Json json = Json::array();
  if (!args.json) {
    say("  {:<24} {:>10} {:>10} {:>7} {:>9}  {:>8}  {:>8}  {}", "text", "plain", "drafted", "", "",
        "expected", "accepted", "by place");
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const SpeculationBenchResult& r = results[i];
    const SpeculationStatistics& s = r.statistics;
    if (args.json) {
      json.push_back({{"text", args.texts[i]},
                      {"plain_tokens_per_s", r.plain_tokens_per_s},
                      {"tokens_per_s", r.tokens_per_s},
                      {"speedup", r.speedup},
                      {"spread", r.spread},
                      {"expected", r.expected},
                      {"speculation", speculation_json(s)}});
      continue;
    }
    std::string places;
    for (size_t p = 0; p < std::min<size_t>(s.places.size(), 8); ++p) {
      places += fmt::format(" {:.2f}", static_cast<double>(s.places[p].accepted) /
                                           static_cast<double>(s.places[p].reached));
    }
    say("  {:<24} {:>10.2f} {:>10.2f} {:>6.2f}x ± {:>4.1f} %  {:>7.2f}x  {:>4}/{:<4}{}",
        printable(args.texts[i], 24), r.plain_tokens_per_s, r.tokens_per_s, r.speedup,
        r.spread * 100, r.expected, s.accepted, s.drafted, places);
  }
  if (args.json) print_json(json);
  return kExitOk;
}

const char* bound_name(BenchBound bound) {
  switch (bound) {
    case BenchBound::bandwidth: return "bandwidth";
    case BenchBound::arithmetic: return "arithmetic";
    case BenchBound::none: break;
  }
  return "none";
}

/// "pp256", "tg32@d4096 b4".
std::string test_name(const BenchResult& r) {
  std::string name = fmt::format("{}{}", r.prefill ? "pp" : "tg", r.tokens);
  if (r.depth > 0) name += fmt::format("@d{}", r.depth);
  if (r.batch > 1) name += fmt::format(" b{}", r.batch);
  return name;
}

Json profile_json(const BenchResult& r) {
  Json operations = Json::array();
  for (const BenchOperation& o : r.profile) {
    operations.push_back({{"name", o.name},
                          {"calls", o.calls},
                          {"seconds", o.seconds},
                          {"share", o.share},
                          {"bytes", o.bytes},
                          {"macs", o.macs},
                          {"dispatches", o.dispatches},
                          {"barriers", o.barriers},
                          {"fraction", o.fraction},
                          {"bound", bound_name(o.bound)}});
  }
  return operations;
}

/// What the steps of a profile have on average.
double a_step(const BenchResult& r, int64_t BenchOperation::*count) {
  int64_t sum = 0;
  for (const BenchOperation& o : r.profile) sum += o.*count;
  return r.profiled_steps > 0 ? static_cast<double>(sum) / static_cast<double>(r.profiled_steps)
                              : 0;
}

/// The form that there is for a single measurement.
Json rate_json(const BenchResult& r) {
  Json json = {{"tokens", r.tokens},
               {"tokens_per_s", r.tokens_per_s},
               {"spread", r.spread},
               {"fraction", r.fraction}};
  if (r.watts > 0) {
    json["watts"] = r.watts;
    json["joules_per_token"] = r.joules_per_token;
  }
  if (!r.profile.empty()) {
    json["profile"] = profile_json(r);
    json["dispatches_per_step"] = a_step(r, &BenchOperation::dispatches);
    json["barriers_per_step"] = a_step(r, &BenchOperation::barriers);
  }
  return json;
}

Json result_json(const BenchResult& r) {
  Json json = {
      {"model", r.model}, {"test", test_name(r)}, {"phase", r.prefill ? "prefill" : "decode"}};
  json.update(rate_json(r));
  json["depth"] = r.depth;
  json["batch"] = r.batch;
  json["tokens_per_s_per_sequence"] = r.tokens_per_s / r.batch;
  json["bound"] = bound_name(r.bound);
  return json;
}

/// The first measurement of each phase stands where a single one does.
Json to_json(const BenchReport& report) {
  Json json = {{"model", report.models.front().path},
               {"device", report.device},
               {"threads", report.threads},
               {"read_bandwidth_gb_s", report.read_bandwidth_gb_s},
               {"int8_mac_g_s", report.int8_mac_g_s},
               {"large_page_bytes", report.large_page_bytes},
               {"streams", report.streams},
               {"weights_bytes", report.models.front().weights_bytes}};
  bool several = false;
  for (const bool prefill : {true, false}) {  // -p 0 and -n 0 leave one of them out
    const auto first = std::ranges::find(report.results, prefill, &BenchResult::prefill);
    if (first != report.results.end()) json[prefill ? "prefill" : "decode"] = rate_json(*first);
    several = several || std::ranges::count(report.results, prefill, &BenchResult::prefill) > 1;
  }
  if (report.prompt_mac_g_s > 0) json["prompt_mac_g_s"] = report.prompt_mac_g_s;
  json["energy"] = {{"sources", report.energy_sources}, {"unknown", report.energy_unknown}};
  if (!several) return json;
  json["models"] = Json::array();
  for (const BenchModel& model : report.models) {
    json["models"].push_back({{"model", model.path}, {"weights_bytes", model.weights_bytes}});
  }
  json["results"] = Json::array();
  for (const BenchResult& result : report.results) json["results"].push_back(result_json(result));
  return json;
}

/// Models by number where there are several: the table's lines stay short.
std::string line_name(const BenchReport& report, size_t result) {
  const std::string name = test_name(report.results[result]);
  const size_t models = report.models.size();
  return models == 1 ? name : fmt::format("[{}] {}", result % models + 1, name);
}

void print_profile(const BenchResult& r, const std::string& name) {
  say("");
  say("  {:<46} {:>7} {:>10} {:>6} {:>10} {:>9} {:>9}", "where the time of " + name + " went",
      "calls", "ms", "share", "MB", "M MAC", "ceiling");
  for (const BenchOperation& o : r.profile) {
    const std::string of = o.bound == BenchBound::none
                               ? ""
                               : fmt::format("{:.1f} % {}", o.fraction * 100,
                                             o.bound == BenchBound::bandwidth ? "B" : "A");
    say("  {:<46} {:>7} {:>10.2f} {:>4.1f} % {:>10.2f} {:>9.1f} {:>9}", printable(o.name, 200),
        o.calls, o.seconds * 1e3, o.share * 100, o.bytes * 1e-6, o.macs * 1e-6, of);
  }
  const double dispatches = a_step(r, &BenchOperation::dispatches);
  if (dispatches == 0) return;
  say("  a step: {:.1f} dispatches, {:.1f} barriers", dispatches,
      a_step(r, &BenchOperation::barriers));
}

void print(const BenchReport& report) {
  for (size_t m = 0; m < report.models.size(); ++m) {
    const BenchModel& model = report.models[m];
    say("{}{} on {}, {} threads; weights {} a token",
        report.models.size() > 1 ? fmt::format("[{}] ", m + 1) : "", printable(model.path),
        report.device, report.threads, human_bytes(model.weights_bytes));
  }
  say("ceilings: {:.1f} GB/s read (B), {:.0f} G int8 multiply-accumulates/s (A)",
      report.read_bandwidth_gb_s, report.int8_mac_g_s);
  if (report.streams > 1)
    say("each thread reads {} streams of a matrix at once (chosen by measurement)", report.streams);
  if (report.large_page_bytes > 0) {
    say("{} of memory in large pages", human_bytes(report.large_page_bytes));
  }
  if (report.prompt_mac_g_s > 0) {
    say("of prompts (A): {:.0f} G float16 multiply-accumulates/s", report.prompt_mac_g_s);
  }
  size_t width = 4;
  for (size_t i = 0; i < report.results.size(); ++i) {
    width = std::max(width, line_name(report, i).size());
  }
  say("  {:<{}}  {:>10} {:>9}  {:>12}  {}", "test", width, "tokens/s", "", "a sequence",
      "of the ceiling");
  for (size_t i = 0; i < report.results.size(); ++i) {
    const BenchResult& r = report.results[i];
    say("  {:<{}}  {:>10.2f} ± {:>5.1f} %  {:>12}  {:.1f} % {}{}", line_name(report, i), width,
        r.tokens_per_s, r.spread * 100,
        r.batch > 1 ? fmt::format("{:.2f}", r.tokens_per_s / r.batch) : "", r.fraction * 100,
        bound_name(r.bound),
        r.watts > 0 ? fmt::format("; {:.3g} J a token, {:.1f} W", r.joules_per_token, r.watts)
                    : "");
  }
  if (!report.energy_sources.empty()) {
    say("energy: {}; what other programs use counts too", fmt::join(report.energy_sources, ", "));
  }
  if (!report.energy_unknown.empty()) say("energy: {}", report.energy_unknown);
  for (size_t i = 0; i < report.results.size(); ++i) {
    if (!report.results[i].profile.empty()) print_profile(report.results[i], line_name(report, i));
  }
}

/// What drafters are not measured with.
void check_drafting(const BenchArgs& args) {
  if (args.texts.empty()) usage("drafters are measured on texts: give at least one -f FILE");
  if (args.paths.size() > 1) usage("-m: with drafters one model is measured at a time");
  const BenchOptions usual;
  const BenchOptions& bench = args.bench;
  const std::pair<bool, std::string_view> unused[] = {
      {!bench.prompt_tokens.empty() && bench.prompt_tokens != usual.prompt_tokens, "-p"},
      {bench.depths != usual.depths, "-d"},
      {bench.batches != usual.batches, "-b"},
      {bench.generate_tokens.size() > 1, "-n with several numbers"},
      {bench.profile, "--profile"},
      {!args.trace.empty(), "--trace"}};
  for (const auto& [given, name] : unused) {
    if (given) usage(fmt::format("{}: is not measured with drafters; leave it out", name));
  }
}

int run_bench(BenchArgs& args) {
  if (args.paths.empty() || std::ranges::count(args.paths, "") > 0) require_model({});
  args.model.path = args.paths.front();
  // What a file may draft with by itself is measured where it is asked for.
  if (!args.speculation.mode.empty()) {
    apply_speculation(args.speculation, args.model, args.generate);
  }
  const bool drafts = !args.model.load.drafters.empty() || !args.model.load.draft_model.empty();
  if (!drafts && !args.texts.empty()) usage("-f: needs drafters (--drafter, -md or --spec)");
  std::erase(args.bench.prompt_tokens, 0);
  std::erase(args.bench.generate_tokens, 0);
  if (args.bench.generate_tokens.empty() && (drafts || args.bench.prompt_tokens.empty())) {
    usage("-n 0 leaves nothing to measure");
  }
  if (drafts) check_drafting(args);
  args.bench.load = load_options(args.model);
  if (drafts) return run_speculation(args);
  args.bench.trace = !args.trace.empty();
  if (args.bench.trace) require_output("--trace", args.trace, inputs_of(args.model, args.paths));
  const BenchReport report = must_read(bench(args.paths, args.bench));
  if (args.bench.trace) replace_file(args.trace, report.trace);
  if (args.json) {
    print_json(to_json(report));
  } else {
    print(report);
  }
  return kExitOk;
}

}  // namespace

void add_bench(Parser& parser) {
  add_command(parser, "bench", "Measure speed against the machine's ceilings", declare_bench,
              run_bench);
}

}  // namespace infer::cli
