// infer quantize: a model with weights of other types. infer imatrix: which of them matter most.
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "hub/local_models.h"
#include "infer/jobs.hpp"
#include "platform/interrupt.h"

namespace infer::cli {
namespace {

struct QuantizeArgs {
  QuantizeOptions options;
  std::string input, output;
  std::vector<std::string> tensor_types;
  bool force = false;
  bool json = false;
  bool quiet = false;
};

void declare_quantize(Options options, QuantizeArgs& args) {
  QuantizeOptions& quantize = args.options;
  options.add("input", "FILE", args.input, "Model to read").required().replaced_by(model_path_of);
  options.add(
      "output", "FILE", args.output,
      "GGUF file to write; default: beside the input, with the type in its name (here, if another "
      "program keeps the input)");
  options.add("type", "TYPE", quantize.type, "Type of the weights, or a mix of types")
      .suggests(quantize_types());
  options.add("--imatrix", "FILE", quantize.importance,
              "Importance matrix made by 'infer imatrix' or llama.cpp");
  options.add("--output-tensor-type", "TYPE", quantize.output_type, "Type of the output matrix");
  options.add("--token-embedding-type", "TYPE", quantize.embedding_type,
              "Type of the token embedding");
  options.add("--tensor-type", "PATTERN=TYPE", args.tensor_types,
              "Type of the weights whose names contain a pattern with * and ?; repeatable");
  options.flag("--pure", quantize.pure, "All matrices get one type: no mix");
  options.flag("--allow-requantize", quantize.allow_requantize,
               "Quantise weights even if they are already quantised");
  options.flag("--force", args.force, "Replace a file even if its name was not given");
  options
      .add("-t,--threads", "N", quantize.threads, "Threads; 0 or -1: all that the process may use")
      .range(-1, 64);
  options.flag("--json", args.json, "Print a JSON object");
  options.flag("-q,--quiet", args.quiet, "Only errors on stderr");
  options.example("infer quantize model-f16.gguf Q4_K_M", "write model-Q4_K_M.gguf");
  options.example("infer quantize model-f16.gguf small.gguf IQ3_M --imatrix imatrix.gguf",
                  "with what 'infer imatrix' measured");
}

/// The type as it is usually written. Throws Failure (usage).
std::string type_named(const std::string& name) {
  const std::vector<std::string> types = quantize_types();
  if (std::ranges::count(types, upper(name)) > 0) return upper(name);
  std::string known;
  for (const std::string& type : types) known += (known.empty() ? "" : ", ") + type;
  usage(fmt::format("type: expected one of {}, found '{}'", known, name));
}

/// "models/llama-f16.gguf" and Q4_K_M: "models/llama-Q4_K_M.gguf". Nothing is added to what other
/// programs keep: such a model's file comes into the folder where this program runs.
std::string derived_output(const std::string& input, const std::string& type) {
  std::filesystem::path path = std::filesystem::path(input + "/").parent_path();
  if (path.filename() == "." || path.filename() == "..") {
    path = (std::filesystem::absolute(path) / "").lexically_normal().parent_path();
  }
  const std::filesystem::path folder = hub::is_kept(input) ? "" : path.parent_path();
  std::string name = hub::model_name(input);
  std::ranges::replace(name, '/', '-');
  std::ranges::replace(name, ':', '-');
  for (const std::string_view old : {"-F32", "-F16", "-BF16"}) {
    if (upper(name).ends_with(old)) {
      name.resize(name.size() - old.size());
      break;
    }
  }
  return (folder / fmt::format("{}-{}.gguf", name, type)).string();
}

/// `infer quantize IN TYPE` leaves out the output.
void complete_names(QuantizeArgs& args) {
  const bool derived = args.options.type.empty();
  if (derived && args.output.empty()) usage("expected a type, such as Q4_K_M");
  args.options.type = type_named(derived ? args.output : args.options.type);
  if (!derived) return;
  args.output = derived_output(args.input, args.options.type);
  if (std::filesystem::exists(args.output) && !args.force) {
    throw Failure(kExitRuntime, args.output + ": exists; --force replaces it, or give a name");
  }
}

Json report(const QuantizeArgs& args, const QuantizeReport& r, double seconds) {
  Json tensors = Json::array();
  for (const QuantizeReport::Tensor& tensor : r.tensors) {
    Json json = {{"name", tensor.name},
                 {"from", tensor.from},
                 {"to", tensor.to},
                 {"importance", tensor.importance}};
    if (!tensor.wanted.empty()) json["wanted"] = tensor.wanted;
    tensors.push_back(std::move(json));
  }
  return {{"input", args.input},
          {"output", args.output},
          {"type", args.options.type},
          {"parameters", r.parameters},
          {"source_bytes", r.source_bytes},
          {"bytes", r.bytes},
          {"bits_per_weight", r.bits_per_weight},
          {"seconds", seconds},
          {"tensors", std::move(tensors)}};
}

int run_quantize(QuantizeArgs& args) {
  for (const std::string& pair : args.tensor_types) {
    const size_t equals = pair.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      usage(fmt::format("--tensor-type '{}': expected PATTERN=TYPE", pair));
    }
    args.options.tensor_types.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  complete_names(args);
  args.options.threads = thread_count(args.options.threads);
  require_readable(args.input);
  require_output("output", args.output, {args.input, args.options.importance});
  if (args.quiet) set_log_callback([](Verbosity, std::string_view) {});
  Progress bar("quantising", !args.quiet);
  args.options.progress = [&bar](double done) {
    bar.update(done);
    return !platform::interrupted();
  };
  const auto start = std::chrono::steady_clock::now();
  const Result<QuantizeReport> result = [&] {
    const platform::InterruptScope scope;
    return quantize(args.input, args.output, args.options);
  }();
  erase_progress();
  const QuantizeReport done = must(result);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (args.json) print_json(report(args, done, seconds));
  if (!args.json && !args.quiet) {
    note("{}: {} in place of {}, {:.2f} bits a weight, {:.1f} s", args.output,
         human_bytes(done.bytes), human_bytes(done.source_bytes), done.bits_per_weight, seconds);
  }
  return kExitOk;
}

constexpr int32_t kMostChunk = 1 << 16;

struct ImatrixArgs {
  ModelArgs model;
  ImportanceOptions options;
  std::string file;
  std::string output = "imatrix.gguf";
  std::optional<int32_t> chunk;
  bool json = false;
};

void declare_imatrix(Options options, ImatrixArgs& args) {
  declare_load(options, args.model);
  options.add("-f,--file", "FILE", args.file,
              "File with text like that the model will read; '-': stdin");
  options.add("-o,--output", "FILE", args.output, "GGUF file to write").show_default();
  options.add("--chunk", "N", args.chunk, "Tokens in a chunk (default: -c, else 512)")
      .range(4, kMostChunk);
  options.add("--chunks", "N", args.options.chunks, "Most chunks; 0: all")
      .range(0, std::numeric_limits<int32_t>::max())
      .show_default();
  options.flag("--special", args.options.parse_special,
               "Read the spelling of special tokens in the text as these tokens");
  options.group(kOutputGroup).flag("--json", args.json, "Print a JSON object");
  options.example("infer imatrix -m model-f16.gguf -f text.txt", "write imatrix.gguf");
}

int run_imatrix(ImatrixArgs& args) {
  require_model(args.model);
  require_output("--output", args.output, inputs_of(args.model, {args.file}));
  const std::string text = read_input_or_pipe(args.file, "text", "use -f FILE or a pipe");
  args.options.load = load_options(args.model);
  args.options.chunk =
      chunk_of(args.chunk, args.options.load.context, args.options.chunk, kMostChunk);
  args.options.dataset = args.file;
  Progress bar("measuring", !args.model.quiet);
  args.options.on_chunk = [&bar](int64_t done, int64_t of) {
    bar.update(static_cast<double>(done) / static_cast<double>(of));
    return !platform::interrupted();
  };
  const Result<ImportanceReport> result = [&] {
    const platform::InterruptScope scope;
    return measure_importance(args.model.path, text, args.output, args.options);
  }();
  erase_progress();
  const ImportanceReport done = must(result);
  if (args.json) {
    print_json({{"output", args.output},
                {"tokens", done.tokens},
                {"chunks", done.chunks},
                {"weights", done.weights},
                {"experts_unused", done.experts_unused}});
  } else if (!args.model.quiet) {
    note("{}: importance of {} weights over {} tokens", args.output, done.weights, done.tokens);
    if (done.experts_unused > 0) {
      note("{} experts saw none of the tokens: use a longer or more varied text",
           done.experts_unused);
    }
  }
  return kExitOk;
}

}  // namespace

void add_quantize(Parser& parser) {
  add_command(parser, "quantize", "Write a model with weights of other types", declare_quantize,
              run_quantize);
  add_command(parser, "imatrix", "Measure which weights matter most, for quantize", declare_imatrix,
              run_imatrix);
}

}  // namespace infer::cli
