// infer plan: what loading a model would use, and with --check what it does use.
#include <algorithm>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "platform/files.h"

namespace infer::cli {
namespace {

struct PlanArgs {
  ModelArgs model;
  bool check = false;
  bool json = false;
};

void declare_plan(Options options, PlanArgs& args) {
  declare_load(options, args.model);
  options.flag("--check", args.check,
               "Load the model, fill the context and generate a token; report what was used");
  options.group(kOutputGroup).flag("--json", args.json, "Print JSON");
  options.example("infer plan model.gguf -c 8192 --memory 8G",
                  "whether it runs in 8 GiB with a context of 8192 tokens");
}

/// What a model did use.
struct Used {
  MemoryReport memory;
  int64_t loading = 0;  ///< bytes; the most of the process that was resident by the end of loading
  int64_t peak = 0;     ///< bytes; by the end
};

/// Fills the whole context, so that every page of the cache is touched, with prompts of 1, 2, 4 and
/// so on tokens first, so that steps of all sizes are prepared; then samples.
Used check(const std::string& path, LoadOptions load, const MemoryReport& planned) {
  Used used;
  load.context = planned.context;
  const std::unique_ptr<Engine> engine = must_fit(Engine::load(path, load), path, load);
  used.loading = platform::peak_resident_bytes();
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
                       {"available", device.available},
                       {"computes", device.computes}});
  }
  return {{"device", memory.device},
          {"weights", memory.weights},
          {"kv", memory.kv},
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
          {"page_bytes", memory.page_bytes},
          {"pages", memory.pages},
          {"batch", memory.batch_rows},
          {"cache_type_k", memory.cache_type_k},
          {"cache_type_v", memory.cache_type_v},
          {"spilled", memory.spilled},
          {"layers", memory.layers},
          {"gpu_layers", memory.gpu_layers},
          {"cpu_experts", memory.cpu_experts},
          {"devices", std::move(devices)},
          {"refused", memory.refused}};
}

void print_table(const MemoryReport& memory) {
  const auto line = [](const char* what, int64_t bytes, const char* note_ = "") {
    say("  {:<12} {:>14}  {:<12}{}", what, bytes, human_bytes(bytes), note_);
  };
  line("weights", memory.weights, memory.spilled ? "at a time; the rest stays in the file" : "");
  line("cache", memory.kv);
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
  say("  batch        {} tokens a step", memory.batch_rows);
  if (memory.devices.size() < 2) return;
  say("  placement    {} of {} layers and output on other devices than the CPU{}",
      memory.gpu_layers, memory.layers + 1,
      memory.cpu_experts == 0
          ? ""
          : fmt::format("; the experts of {} of them on the CPU", memory.cpu_experts));
  for (const DeviceMemoryReport& device : memory.devices) {
    const int64_t total =
        device.weights + device.kv + device.activations + device.scratch + device.other;
    say("  {:<12} {:>14}  {:<12}{}", device.device, total, human_bytes(total),
        device.computes.empty() ? "computes nothing" : device.computes);
  }
  for (const std::string& refused : memory.refused) say("  {}", refused);
}

int plan(PlanArgs& args) {
  const LoadOptions load = load_options(args.model);
  require_device(load.device);
  const MemoryReport memory = must_fit(plan_model(args.model.path, load), args.model.path, load);
  warn_of_context(args.model, must_read(describe_model(args.model.path)).context);
  Json json = to_json(memory);
  if (!args.json) {
    say("{} on {}", args.model.path, memory.device);
    print_table(memory);
  }
  if (args.check) {
    const Used used = check(args.model.path, load, memory);
    json["used"] = to_json(used.memory);
    json["used"]["resident_loading"] = used.loading;
    json["used"]["resident"] = used.peak;
    if (!args.json) {
      say("used");
      print_table(used.memory);
      say("  resident     {} at most, {} while loading", human_bytes(used.peak),
          human_bytes(used.loading));
    }
  }
  if (args.json) print_json(json);
  return kExitOk;
}

}  // namespace

void add_plan(Parser& parser) {
  add_command(parser, "plan", "What loading a model would use", declare_plan, plan);
}

}  // namespace infer::cli
