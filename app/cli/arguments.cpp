#include "cli/arguments.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <limits>
#include <new>
#include <system_error>

#include "bundle/bundle.h"
#include "cli/failure.h"
#include "cli/hub_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "demo/demo_model.h"
#include "hub/bounded_json.h"
#include "platform/files.h"
#include "platform/interrupt.h"
#include "platform/streams.h"

namespace infer::cli {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

std::optional<std::vector<int32_t>> tokens_of(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int32_t> tokens;
  for (const Json& item : json) {
    if (!item.is_number_integer()) return std::nullopt;
    // An unsigned number beyond int64 turns negative beyond int32 or stays beyond it: both refused.
    const auto id = item.get<int64_t>();
    const bool wrapped = item.is_number_unsigned() && id < 0;
    if (wrapped || !std::in_range<int32_t>(id)) return std::nullopt;
    tokens.push_back(static_cast<int32_t>(id));
  }
  return tokens;
}

bool is_cpu(const std::string& name) { return name == "cpu" || name == "cpu:0"; }

/// Whether a name means a device: "vulkan" means all of that kind.
bool is_named(const DeviceDescription& device, const std::string& name) {
  return device.name == name || device.name + ":0" == name || device.name.starts_with(name + ":");
}

}  // namespace

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<std::string> list_of(std::string_view flag, std::string_view text, char separator) {
  std::vector<std::string> parts = parts_of(text, separator);
  if (text.ends_with(separator) || std::ranges::count(parts, "") > 0) {
    usage(fmt::format("{}: expected values separated by '{}', found an empty one in '{}'", flag,
                      separator, text));
  }
  return parts;
}

std::optional<int64_t> parse_size(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (parsed.ec != std::errc() || !(number >= 0)) return std::nullopt;
  std::string unit(parsed.ptr, end);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  });
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with("b")) {
    unit.resize(unit.size() - 1);
  }
  constexpr std::string_view kUnits = "kmgt";
  if (unit.size() > 1) return std::nullopt;
  if (!unit.empty()) {
    const size_t power = kUnits.find(unit[0]);
    if (power == std::string_view::npos) return std::nullopt;
    for (size_t i = 0; i <= power; ++i) number *= 1024;
  }
  if (number >= 0x1p62) return std::nullopt;
  return static_cast<int64_t>(number);
}

std::optional<std::vector<int32_t>> parse_tokens(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && (text[start] == '[' || text[start] == '{')) {
    const std::optional<Json> json = parse_json(text);
    if (!json || !json->is_object()) return json ? tokens_of(*json) : std::nullopt;
    const auto found = json->find("tokens");
    return found == json->end() ? std::nullopt : tokens_of(*found);
  }
  std::vector<int32_t> tokens;
  bool wants_id = false;  // a comma was the last that is no space
  for (size_t at = 0; at < text.size();) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    if (text[at] == ',') {
      if (wants_id || tokens.empty()) return std::nullopt;
      wants_id = true;
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && !is_space(text[end]) && text[end] != ',') ++end;
    int32_t id = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + end, id);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end) return std::nullopt;
    tokens.push_back(id);
    wants_id = false;
    at = end;
  }
  if (wants_id) return std::nullopt;
  return tokens;
}

std::optional<Json> parse_json(std::string_view text) {
  constexpr int kMaxLevels = 100;
  return hub::parse_bounded<Json>(text, kMaxLevels);
}

void require_readable(const std::string& path) {
  if (const int refused = platform::check_readable(path)) {
    throw Failure(kExitBadFile, fmt::format("{}: cannot open: {}", path,
                                            std::generic_category().message(refused)));
  }
}

std::string read_input(const std::string& path, int64_t most) {
  const std::string name = path == "-" ? "stdin" : path;
  const auto failed = [&](const char* what, int code) {
    return Failure(kExitBadFile, fmt::format("{}: cannot {}: {}", name, what,
                                             std::generic_category().message(code)));
  };
  const auto too_long = [&](const std::string& found) {
    return Failure(kExitBadFile,
                   fmt::format("{}: expected at most {} bytes, found {}; use a part of it", name,
                               most, found));
  };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(nullptr, std::fclose);
  if (path != "-") {
    opened.reset(std::fopen(path.c_str(), "rbe"));
    if (opened == nullptr) throw failed("open", errno);
  }
  std::FILE* file = path == "-" ? stdin : opened.get();
  const int64_t size = platform::bytes_of(file);
  if (size > most) throw too_long(std::to_string(size));
  std::string text;
  try {
    text.reserve(static_cast<size_t>(size));
    char part[65536];
    while (const size_t count = std::fread(part, 1, sizeof(part), file)) {
      if (static_cast<int64_t>(text.size() + count) > most) throw too_long("more");
      text.append(part, count);
    }
  } catch (const std::bad_alloc&) {
    throw Failure(kExitDoesNotFit, name + ": there is no memory to read it");
  }
  if (std::ferror(file) != 0) throw failed("read", errno);
  return text;
}

std::string read_filled_input(const std::string& path) {
  std::string text = read_input(path);
  if (is_blank(text)) {
    throw Failure(kExitBadFile, (path == "-" ? "stdin" : path) + ": is empty");
  }
  return text;
}

std::string read_input_or_pipe(const std::string& path, const char* what, const char* hint,
                               int64_t most) {
  if (!path.empty()) return read_input(path, most);
  std::string text = platform::stdin_is_terminal() ? std::string() : read_input("-", most);
  if (text.empty()) usage(fmt::format("no {} given: {}", what, hint));
  return text;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string without_line_end(std::string text) {
  if (!text.ends_with('\n')) return text;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

int32_t chunk_of(const std::optional<int32_t>& given, int64_t context, int32_t usual,
                 int32_t most) {
  if (given) return *given;
  return context > 0 ? static_cast<int32_t>(std::clamp<int64_t>(context, 4, most)) : usual;
}

std::string unescaped(std::string_view text) {
  constexpr std::string_view kEscapes = "ntr\\\"'";
  constexpr std::string_view kMeant = "\n\t\r\\\"'";
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t known = text[i] == '\\' && i + 1 < text.size() ? kEscapes.find(text[i + 1])
                                                                : std::string_view::npos;
    uint8_t byte = 0;
    const char* const digits = text.data() + std::min(i + 2, text.size());
    const char* const end = text.data() + std::min(i + 4, text.size());
    if (known != std::string_view::npos) {
      plain += kMeant[known];
      ++i;
    } else if (text.substr(i).starts_with("\\x") && end - digits == 2 &&
               std::from_chars(digits, end, byte, 16).ptr == end) {
      plain += static_cast<char>(byte);
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<std::string> inputs_of(const ModelArgs& args, std::vector<std::string> files) {
  files.insert(files.end(), {args.path, args.load.draft_model, args.load.vision});
  for (const std::string& adapter : args.load.adapters) {
    files.push_back(adapter);
    files.push_back(adapter.substr(0, adapter.rfind(':')));  // without its scale
  }
  return files;
}

std::string bundled_model() { return must_read(bundle::own_model()); }

void declare_model(Options options, ModelArgs& args) {
  const Option model =
      options.group(kModelGroup)
          .add("model,-m,--model", "FILE", args.path,
               "Model file or directory, or part of a name that 'infer list' lists; run, chat and "
               "perplexity have one built in")
          .replaced_by(model_path_of);
  declare_hub(options, args.hub).in_place_of(model);
  options.before_running([&args] {
    if (!args.hub.model.empty() && !args.path.empty()) {
      usage("-m and -hf: each names the model; leave one out");
    }
    const std::string path = path_of_hub(args.hub, args.quiet);
    if (!path.empty()) args.path = path;
    if (args.path.empty()) args.path = bundled_model();
  });
}

void declare_load(Options options, ModelArgs& args) {
  declare_model(options, args);
  declare_running(options, args);
}

void require_model(const ModelArgs& args) {
  if (args.path.empty()) usage("no model given: use -m FILE");
}

void choose_model(ModelArgs& args) {
  if (args.path.empty() && !args.quiet) note("no model given (-m FILE): this is the built-in one");
  choose_model_silently(args);
}

void choose_model_silently(ModelArgs& args) {
  if (!args.path.empty()) return;
  args.path = demo::model_path();
  if (std::ranges::count(args.load.drafters, "model") > 0 && args.load.draft_model.empty()) {
    args.load.draft_model = demo::draft_path();
  }
}

int32_t thread_count(int32_t given) {
  if (given < -1) usage(fmt::format("--threads: expected -1 or more, found {}", given));
  return std::max(given, 0);
}

void require_device(const std::string& names) {
  // Always there; and to look for others loads their drivers, which take memory.
  if (is_cpu(names)) return;
  const std::vector<DeviceDescription> present = devices();
  for (const std::string& name : list_of("--device", names, ',')) {
    std::string known;
    bool found = false;
    std::string unusable;
    for (const DeviceDescription& device : present) {
      const bool named = is_named(device, name);
      if (!device.unusable.empty()) {
        if (named) unusable = device.unusable;
        continue;
      }
      found = found || named;
      known += (known.empty() ? "" : ", ") + device.name;
    }
    if (found) continue;
    if (!unusable.empty()) throw Failure(kExitDevice, unusable);
    throw Failure(kExitDevice, fmt::format("there is no device '{}'; this machine has: {}", name,
                                           known.empty() ? "none" : known));
  }
}

namespace {

/// A size, or "50%" of what is free on the first of the devices.
std::optional<int64_t> memory_of(std::string_view text, const std::string& names) {
  if (!text.ends_with('%')) return parse_size(text);
  text.remove_suffix(1);
  double percent = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, percent, std::chars_format::fixed);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(percent > 0 && percent <= 1e6)) {
    return std::nullopt;
  }
  const std::string first = names.substr(0, names.find(','));
  for (const DeviceDescription& device : devices(first.substr(0, first.find(':')))) {
    if (!is_named(device, first) || !device.unusable.empty()) continue;
    return static_cast<int64_t>(static_cast<double>(device.memory_free) * percent / 100);
  }
  return std::nullopt;
}

}  // namespace

LoadOptions load_options(const ModelArgs& args) {
  require_model(args);
  LoadOptions load = args.load;
  if (args.step_tokens) {
    load.batch_rows = *args.step_tokens;
    load.fewer_rows = false;
  }
  if (load.fallback.empty()) require_device(load.device);
  load.threads = thread_count(load.threads);
  apply_placement(args.placement, load);
  if (!args.memory.empty()) {
    const std::optional<int64_t> bytes = memory_of(args.memory, load.device);
    if (!bytes || *bytes == 0) {
      usage(fmt::format("--memory: expected a size such as 8G, 512M, 50% or bytes, found '{}'",
                        args.memory));
    }
    load.memory_limit = *bytes;
  }
  if (!args.reserve.empty()) {
    const std::optional<int64_t> bytes = parse_size(args.reserve);
    if (!bytes) {
      usage(fmt::format("--reserve: expected a size such as 1G, 512M or bytes, found '{}'",
                        args.reserve));
    }
    load.reserve = *bytes;
  }
  if (std::ranges::count(load.drafters, "model") > 0 && load.draft_model.empty()) {
    usage("--drafter model: needs a draft model: -md FILE");
  }
  if (!load.drafters.empty() && !load.draft_model.empty() &&
      std::ranges::count(load.drafters, "model") == 0) {
    usage(
        fmt::format("-md {}: is not used by these drafters: add 'model' to --drafter, or leave -md "
                    "out",
                    printable(load.draft_model)));
  }
  if (args.verbose) set_verbosity(Verbosity::debug);
  if (args.quiet) set_verbosity(Verbosity::quiet);
  load.progress = [bar = std::make_shared<Progress>("loading", !args.quiet)](double done) {
    bar->update(done);
    return !platform::interrupted();
  };
  return load;
}

void warn_of_context(const ModelArgs& args, int64_t trained) {
  if (args.quiet || trained <= 0 || args.load.context <= trained) return;
  print_log(Verbosity::warnings, fmt::format("-c {} is more than the {} tokens that the model was "
                                             "trained for: text beyond them may make little sense",
                                             args.load.context, trained));
}

namespace {

/// What the CPU does and how. Of other devices the library says what they compute.
void tell_choice(const Engine& engine) {
  const std::vector<DeviceDescription> devices = engine.devices();
  if (devices.size() > 1) return;
  const DeviceDescription& device = devices.front();
  std::string computes = "nothing";
  for (const DeviceMemoryReport& report : engine.memory().devices) {
    if (report.device == device.name && !report.computes.empty()) computes = report.computes;
  }
  print_log(Verbosity::info, fmt::format("{}: {} kernels, {} threads; computes {}", device.name,
                                         device.isa, device.threads, computes));
}

}  // namespace

std::unique_ptr<Engine> load_engine(const ModelArgs& args) {
  const LoadOptions load = load_options(args);
  if (load.gpu_layers > 0 && is_cpu(load.device) && !args.quiet) {
    note(
        "-ngl {} has no effect without a GPU: everything runs on the CPU; choose a GPU with "
        "--device",
        args.placement.gpu_layers);
  }
  const platform::InterruptScope scope;
  std::unique_ptr<Engine> engine = must_fit(Engine::load(args.path, load), args.path, load);
  warn_of_context(args, engine->model().context);
  if (args.verbose && !args.quiet) tell_choice(*engine);
  return engine;
}

}  // namespace infer::cli
