// infer info, devices: what a model holds, what the machine has.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

struct InfoArgs {
  ModelArgs model;
  bool tensors = false;
  bool json = false;
};

void declare_info(Options options, InfoArgs& args) {
  declare_model(options, args.model);
  options.flag("--tensors", args.tensors, "List the tensors too (with --json they always are)");
  options.flag("--json", args.json, "Print JSON");
  options.example("infer info model.gguf | less", "what a model file holds");
}

struct OfType {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

/// What the file holds of every type, that with most bytes first.
std::vector<std::pair<std::string, OfType>> types_of(const ModelDescription& model) {
  std::map<std::string, OfType> held;
  for (const TensorDescription& tensor : model.tensors) {
    OfType& of = held[tensor.type];
    ++of.tensors;
    of.bytes += tensor.bytes;
  }
  std::vector<std::pair<std::string, OfType>> types(held.begin(), held.end());
  std::ranges::stable_sort(types, std::greater(),
                           [](const auto& type) { return type.second.bytes; });
  return types;
}

Json to_json(const ModelDescription& model) {
  Json metadata = Json::object();
  for (const auto& [key, value] : model.metadata) metadata[key] = value;
  Json types = Json::object();
  for (const auto& [type, held] : types_of(model)) {
    types[type] = {{"tensors", held.tensors}, {"bytes", held.bytes}};
  }
  Json tensors = Json::array();
  for (const TensorDescription& t : model.tensors) {
    tensors.push_back({{"name", t.name}, {"type", t.type}, {"shape", t.shape}, {"bytes", t.bytes}});
  }
  return {{"path", model.path},
          {"name", model.name},
          {"architecture", model.architecture},
          {"file_type", model.file_type},
          {"types", std::move(types)},
          {"parameters", model.parameters},
          {"weight_bytes", model.weight_bytes},
          {"vocabulary", model.vocabulary},
          {"context", model.context},
          {"embedding", model.embedding},
          {"layers", model.layers},
          {"next_token_layers", model.next_token_layers},
          {"tokenizer", model.tokenizer},
          {"chat_template", model.chat_template},
          {"unsupported", model.unsupported},
          {"metadata", std::move(metadata)},
          {"tensors", std::move(tensors)}};
}

int info(InfoArgs& args) {
  require_model(args.model);
  const ModelDescription model = must_read(describe_model(args.model.path));
  if (args.json) {
    print_json(to_json(model));
    return kExitOk;
  }
  say("{}", model.path);
  if (!model.name.empty()) say("  name          {}", printable(model.name));
  say("  architecture  {}", printable(model.architecture));
  say("  type          {}", model.file_type);
  say("  parameters    {}", model.parameters);
  say("  weights       {} in {} tensors", human_bytes(model.weight_bytes), model.tensors.size());
  for (const auto& [type, held] : types_of(model)) {
    say("    {:<11} {} in {} tensors", type, human_bytes(held.bytes), held.tensors);
  }
  say("  vocabulary    {}", model.vocabulary);
  say("  context       {} tokens", model.context);
  say("  embedding     {}", model.embedding);
  say("  layers        {}{}", model.layers,
      model.next_token_layers > 0
          ? fmt::format(", and {} for next tokens (--drafter mtp)", model.next_token_layers)
          : "");
  say("  tokenizer     {}", printable(model.tokenizer));
  say("  chat template {}", model.chat_template.empty()
                                ? std::string("none")
                                : fmt::format("{} bytes", model.chat_template.size()));
  if (!model.unsupported.empty()) say("  cannot run    {}", printable(model.unsupported));
  say("metadata");
  for (const auto& [key, value] : model.metadata)
    say("  {} = {}", printable(key), printable(value));
  if (args.tensors) {
    say("tensors");
    for (const TensorDescription& t : model.tensors) {
      say("  {:<32} {:<8} [{}]", printable(t.name), t.type, fmt::join(t.shape, ", "));
    }
  }
  return kExitOk;
}

struct DevicesArgs {
  bool json = false;
};

void declare_devices(Options options, DevicesArgs& args) {
  options.flag("--json", args.json, "Print JSON");
}

/// "shared_memory_bytes" 32768 as "shared memory 32.0 KiB".
std::string limit_text(std::string name, int64_t value) {
  constexpr std::string_view kBytes = "_bytes";
  const bool bytes = name.ends_with(kBytes);
  if (bytes) name.resize(name.size() - kBytes.size());
  std::ranges::replace(name, '_', ' ');
  return name + ' ' + (bytes ? human_bytes(value) : std::to_string(value));
}

/// "use 42 %, 20.0 GiB of 24.0 GiB used, 215 W of 450 W, 61 °C": what is told.
std::string telemetry_text(const GpuTelemetry& gpu) {
  std::vector<std::string> parts;
  if (gpu.busy) parts.push_back(fmt::format("{:.0f} % busy", *gpu.busy * 100));
  if (gpu.memory_busy) parts.push_back(fmt::format("memory {:.0f} %", *gpu.memory_busy * 100));
  if (gpu.memory_used) parts.push_back(human_bytes(*gpu.memory_used) + " in use");
  if (gpu.watts && gpu.watts_limit) {
    parts.push_back(fmt::format("{:.0f} of {:.0f} W", *gpu.watts, *gpu.watts_limit));
  } else if (gpu.watts) {
    parts.push_back(fmt::format("{:.0f} W", *gpu.watts));
  }
  if (gpu.celsius) parts.push_back(fmt::format("{:.0f} °C", *gpu.celsius));
  if (gpu.core_mhz) parts.push_back(fmt::format("{:.0f} MHz", *gpu.core_mhz));
  if (gpu.memory_mhz) parts.push_back(fmt::format("memory {:.0f} MHz", *gpu.memory_mhz));
  if (gpu.throttled && !gpu.throttled->empty()) parts.push_back("slowed down: " + *gpu.throttled);
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// What is told.
Json telemetry_json(const GpuTelemetry& gpu) {
  Json json = Json::object();
  const auto add = [&](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  json["name"] = gpu.name;
  add("busy", gpu.busy);
  add("memory_busy", gpu.memory_busy);
  add("memory_used", gpu.memory_used);
  add("memory_total", gpu.memory_total);
  add("celsius", gpu.celsius);
  add("watts", gpu.watts);
  add("watts_limit", gpu.watts_limit);
  add("joules", gpu.joules);
  add("core_mhz", gpu.core_mhz);
  add("memory_mhz", gpu.memory_mhz);
  add("throttled", gpu.throttled);
  return json;
}

int list_devices(DevicesArgs& args) {
  Json list = Json::array();
  set_verbosity(Verbosity::info);  // why a back end has none
  for (const DeviceDescription& device : devices()) {
    Json limits = Json::object();
    std::vector<std::string> shown = device.features;
    for (const auto& [name, value] : device.limits) {
      limits[name] = value;
      shown.push_back(limit_text(name, value));
    }
    if (args.json) {
      list.push_back({{"name", device.name},
                      {"description", device.description},
                      {"memory_total", device.memory_total},
                      {"memory_free", device.memory_free},
                      {"threads", device.threads},
                      {"isa", device.isa},
                      {"unusable", device.unusable},
                      {"limits", limits},
                      {"features", device.features},
                      {"pci", device.pci}});
      if (device.telemetry) list.back()["telemetry"] = telemetry_json(*device.telemetry);
      continue;
    }
    say("{:<10} {}", device.name, device.description);
    say("{:<10} memory {} of {} free", "", human_bytes(device.memory_free),
        human_bytes(device.memory_total));
    if (device.threads > 0) say("{:<10} {} threads, {}", "", device.threads, device.isa);
    if (!shown.empty()) say("{:<10} {}", "", fmt::join(shown, ", "));
    if (device.telemetry) say("{:<10} {}", "", telemetry_text(*device.telemetry));
    if (!device.unusable.empty()) say("{:<10} {}", "", device.unusable);
  }
  if (args.json) print_json(list);
  return kExitOk;
}

}  // namespace

void add_reports(Parser& parser) {
  add_command(parser, "info", "What a model file holds", declare_info, info);
  add_command(parser, "devices", "What this machine has", declare_devices, list_devices);
}

}  // namespace infer::cli
