// infer plan: what loading a model would use and how fast it should be, and with --check what it
// does use.
#include <algorithm>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "infer/jobs.hpp"
#include "platform/files.h"

namespace infer::cli {
namespace {

struct PlanArgs {
  ModelArgs model;
  ForecastOptions forecast;
  bool no_measure = false;
  bool check = false;
  bool json = false;
};

void declare_plan(Options options, PlanArgs& args) {
  declare_load(options, args.model);
  options.flag("--check", args.check,
               "Load the model, fill the context and generate a token; report what was used");
  options.group(kMemoryGroup)
      .add("--on", "GPU", args.forecast.on,
           "Plan for a GPU that this machine does not have: a name such as 'RTX 4090', or its "
           "memory, bandwidth and, if known, float16 rate: 24G,1008GB/s,330TFLOPS");
  options.flag("--no-measure", args.no_measure,
               "Do not measure what this machine's devices can do if that is not known yet; the "
               "expected speed is then not known either");
  options.group(kOutputGroup).flag("--json", args.json, "Print JSON");
  options.example("infer plan model.gguf --on \"RTX 4090\"",
                  "what a GPU that is not here would do");
  options.example("infer plan model.gguf -c 8192 --memory 8G",
                  "whether it runs in 8 GiB with a context of 8192 tokens");
}

/// What a model did use.
struct Used {
  MemoryReport memory;
  int64_t loading = 0;  ///< bytes; the most of the process that was resident by the end of loading
  int64_t peak = 0;     ///< bytes; by the end
};

/// Computes texts that fill steps of all sizes, the longest ones that the model takes last.
void check_texts(Engine& engine) {
  const bool scores = engine.rerank("", {}).has_value();
  for (int64_t words = 1; words <= 2 * engine.longest_text(); words *= 2) {
    std::string text;
    for (int64_t i = 0; i < words; ++i) text += "a ";
    const std::vector<std::string> one{text};
    if (scores) {
      must(engine.rerank("a", one, {true}));
    } else {
      must(engine.embed(one, {0, true, true}));
    }
  }
}

/// Fills the whole context, so that every page of the cache is touched, with prompts of 1, 2, 4 and
/// so on tokens first, so that steps of all sizes are prepared; then samples.
Used check(const std::string& path, LoadOptions load, const MemoryReport& planned) {
  Used used;
  load.context = planned.context;
  const std::unique_ptr<Engine> engine = must_fit(Engine::load(path, load), path, load);
  used.loading = platform::peak_resident_bytes();
  if (engine->makes_embeddings()) {
    check_texts(*engine);
    used.memory = engine->memory();
    used.peak = platform::peak_resident_bytes();
    return used;
  }
  const std::unique_ptr<Session> session = must(engine->open_session());
  const int32_t vocabulary = engine->vocabulary_size();
  // All but the place of the first token generated.
  std::vector<int32_t> tokens(static_cast<size_t>(std::max<int64_t>(planned.context - 1, 1)));
  std::span<const int32_t> rest(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i % static_cast<size_t>(vocabulary));
  }
  GenerateOptions options;
  options.max_tokens = 2;
  options.ignore_end = true;
  for (size_t rows = 1; rows < static_cast<size_t>(planned.batch_rows); rows *= 2) {
    if (rest.size() <= rows) break;
    must(session->evaluate(rest.first(rows), {}));
    rest = rest.subspan(rows);
  }
  must(session->generate(rest, options, {}));
  used.memory = engine->memory();
  used.peak = platform::peak_resident_bytes();
  return used;
}

Json to_json(const MemoryReport& memory) {
  Json devices = Json::array();
  for (const DeviceMemoryReport& device : memory.devices) {
    devices.push_back({{"device", device.device},
                       {"weights", device.weights},
                       {"kv", device.kv},
                       {"activations", device.activations},
                       {"scratch", device.scratch},
                       {"other", device.other},
                       {"draft", device.draft},
                       {"available", device.available},
                       {"computes", device.computes},
                       {"streams", device.streams}});
  }
  return {{"device", memory.device},
          {"weights", memory.weights},
          {"kv", memory.kv},
          {"states", memory.states},
          {"activations", memory.activations},
          {"scratch", memory.scratch},
          {"host", memory.host},
          {"process", memory.process},
          {"draft", memory.draft},
          {"drafters", memory.drafters},
          {"grammars", memory.grammars},
          {"total", memory.total},
          {"available", memory.available},
          {"context", memory.context},
          {"longest", memory.longest},
          {"page_bytes", memory.page_bytes},
          {"pages", memory.pages},
          {"batch", memory.batch_rows},
          {"cache_type_k", memory.cache_type_k},
          {"cache_type_v", memory.cache_type_v},
          {"spilled", memory.spilled},
          {"layers", memory.layers},
          {"gpu_layers", memory.gpu_layers},
          {"cpu_experts", memory.cpu_experts},
          {"streamed_from", memory.streamed_from},
          {"devices", std::move(devices)},
          {"refused", memory.refused}};
}

Json range_json(const SpeedRange& range) {
  if (range.high <= 0) return nullptr;
  return {{"low", range.low}, {"high", range.high}};
}

const char* source_name(DeviceSpeed::Source source) {
  switch (source) {
    case DeviceSpeed::Source::measured: return "measured";
    case DeviceSpeed::Source::specification: return "specification";
    case DeviceSpeed::Source::unknown: break;
  }
  return "unknown";
}

Json speed_json(const SpeedEstimate& speed) {
  Json devices = Json::array();
  for (const DeviceSpeed& device : speed.devices) {
    devices.push_back({{"device", device.device},
                       {"source", source_name(device.source)},
                       {"read_bandwidth_gb_s", device.read_bandwidth_gb_s},
                       {"int8_mac_g_s", device.int8_mac_g_s},
                       {"prompt_mac_g_s", device.prompt_mac_g_s}});
  }
  return {{"generation", range_json(speed.generation)},
          {"generation_full_context", range_json(speed.generation_full)},
          {"prompt", range_json(speed.prompt)},
          {"prompt_tokens", speed.prompt_tokens},
          {"unknown", speed.unknown},
          {"note", speed.note},
          {"devices", std::move(devices)}};
}

Json absent_json(const DeviceSpecification& device, const std::string& backend) {
  return {{"name", device.name},
          {"prediction", true},
          {"backend", backend},
          {"memory", device.memory},
          {"read_bandwidth_gb_s", device.read_bandwidth_gb_s},
          {"float16_tflops", device.float16_tflops},
          {"int8_tops", device.int8_tops}};
}

/// "12.3 to 20.1": three digits are more than is known.
std::string range_text(const SpeedRange& range) {
  const auto number = [](double rate) {
    return rate < 100 ? fmt::format("{:.1f}", rate) : fmt::format("{:.0f}", rate);
  };
  return range.high > 0 ? number(range.low) + " to " + number(range.high) : "not known";
}

void print_speed(const SpeedEstimate& speed) {
  if (!speed.unknown.empty()) {
    say("  expected     speed not known: {}", speed.unknown);
    return;
  }
  say("  expected     {} tokens/s generated, {} with a full context", range_text(speed.generation),
      range_text(speed.generation_full));
  say("               {} tokens/s of a prompt of {}", range_text(speed.prompt),
      speed.prompt_tokens);
  for (const DeviceSpeed& device : speed.devices) {
    const double rate = device.prompt_mac_g_s > 0 ? device.prompt_mac_g_s : device.int8_mac_g_s;
    say("               from {:.0f} GB/s and {:.0f} G multiply-accumulates/s of {} ({})",
        device.read_bandwidth_gb_s, rate, device.device, source_name(device.source));
  }
  if (!speed.note.empty()) say("               {}", speed.note);
}

void print_table(const MemoryReport& memory) {
  const auto line = [](const char* what, int64_t bytes, const char* note_ = "") {
    say("  {:<12} {:>14}  {:<12}{}", what, bytes, human_bytes(bytes), note_);
  };
  line("weights", memory.weights, memory.spilled ? "at a time; the rest stays in the file" : "");
  const std::string states = human_bytes(memory.states) + " of recurrent states and checkpoints";
  line("cache", memory.kv, memory.states == 0 ? "" : states.c_str());
  line("activations", memory.activations, "intermediate values of a step");
  line("scratch", memory.scratch, "work space of kernels");
  line("host", memory.host, "inputs of a step, sampling, tokens");
  line("process", memory.process, "code, vocabulary, graphs, stacks");
  if (memory.draft > 0) line("draft", memory.draft, "the whole draft model");
  if (memory.drafters > 0) line("drafters", memory.drafters, "texts that drafters keep");
  if (memory.grammars > 0) line("grammars", memory.grammars, "grammars and their tables, at most");
  line("total", memory.total);
  line("available", memory.available);
  say("  context      {} tokens in {} pages of {}, keys {}, values {}", memory.context,
      memory.pages, human_bytes(memory.page_bytes), memory.cache_type_k, memory.cache_type_v);
  if (memory.longest > memory.context) {
    say("  session      up to {} tokens: the cache grows while memory is free", memory.longest);
  }
  say("  batch        {} tokens a step", memory.batch_rows);
  if (memory.devices.size() < 2) return;
  say("  placement    {} of {} layers and output on other devices than the CPU{}",
      memory.gpu_layers, memory.layers + 1,
      memory.cpu_experts == 0
          ? ""
          : fmt::format("; the experts of {} of them on the CPU", memory.cpu_experts));
  for (const DeviceMemoryReport& device : memory.devices) {
    const int64_t total = device.weights + device.kv + device.activations + device.scratch +
                          device.other + device.draft;
    say("  {:<12} {:>14}  {:<12}{}", device.device, total, human_bytes(total),
        device.computes.empty() ? "computes nothing" : device.computes);
    if (device.streams.empty()) continue;
    say("  {:<12} in prompts of {} tokens or more also {}, with weights from the CPU's memory", "",
        memory.streamed_from, device.streams);
  }
  for (const std::string& refused : memory.refused) say("  {}", refused);
}

/// What is asked for is planned, or throws Failure.
Forecast planned(const PlanArgs& args, const LoadOptions& load, bool measure) {
  ForecastOptions what = args.forecast;
  what.measure = measure;
  Result<Forecast> found = forecast(args.model.path, load, what);
  // What would fit on the devices that are here is no answer for another one.
  return what.on.empty() ? must_fit(std::move(found), args.model.path, load)
                         : must_read(std::move(found));
}

int plan(PlanArgs& args) {
  const LoadOptions load = load_options(args.model);
  if (!args.forecast.on.empty()) {
    if (args.check) usage("--check: loads the model; --on plans for a device that is not here");
    if (load.device != "cpu") usage("--on: takes the place of --device; leave one out");
  }
  require_device(load.device);
  // What measuring takes would count as memory that the model uses.
  const bool measure = !args.no_measure;
  Forecast found = planned(args, load, measure && !args.check);
  warn_of_context(args.model, must_read(describe_model(args.model.path)).context);
  Json json = to_json(found.memory);
  if (found.absent) json["absent_device"] = absent_json(*found.absent, found.absent_backend);
  if (!args.json) {
    say("{} on {}{}", args.model.path, found.memory.device,
        found.absent ? fmt::format("; {} is not present: a prediction from its specification",
                                   found.absent->name)
                     : "");
    print_table(found.memory);
  }
  if (args.check) {
    const Used used = check(args.model.path, load, found.memory);
    json["used"] = to_json(used.memory);
    json["used"]["resident_loading"] = used.loading;
    json["used"]["resident"] = used.peak;
    if (!args.json) {
      say("used");
      print_table(used.memory);
      say("  resident     {} at most, {} while loading", human_bytes(used.peak),
          human_bytes(used.loading));
    }
    if (measure) {
      const Result<Forecast> again = forecast(args.model.path, load, args.forecast);
      if (again) found.speed = again->speed;
    }
  }
  json["speed"] = speed_json(found.speed);
  if (args.json) {
    print_json(json);
  } else {
    print_speed(found.speed);
  }
  return kExitOk;
}

}  // namespace

void add_plan(Parser& parser) {
  add_command(parser, "plan", "What loading a model would use", declare_plan, plan);
}

}  // namespace infer::cli
