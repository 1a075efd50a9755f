// infer quantize: a model with weights of other types. infer imatrix: what of them matters most.
#include <chrono>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"

namespace infer::cli {
namespace {

struct QuantizeArgs {
  QuantizeOptions options;
  std::string input, output;
  std::vector<std::string> tensor_types;
  bool json = false;
  bool quiet = false;
};

void declare_quantize(Options options, QuantizeArgs& args) {
  QuantizeOptions& quantize = args.options;
  options.add("input", "FILE", args.input, "Model to read").required();
  options.add("output", "FILE", args.output, "GGUF file to write").required();
  options.add("type", "TYPE", quantize.type, "Type of the weights, or a mix of types")
      .required()
      .one_of_ignoring_case(quantize_types());
  options.add("--imatrix", "FILE", quantize.importance,
              "Importance matrix, of 'infer imatrix' or llama.cpp");
  options.add("--output-tensor-type", "TYPE", quantize.output_type, "Type of the output matrix");
  options.add("--token-embedding-type", "TYPE", quantize.embedding_type,
              "Type of the token embedding");
  options.add("--tensor-type", "PATTERN=TYPE", args.tensor_types,
              "Type of the weights whose names contain a pattern with * and ?; repeatable");
  options.flag("--pure", quantize.pure, "All matrices get one type: no mix");
  options.flag("--allow-requantize", quantize.allow_requantize,
               "Quantise weights again that are quantised already");
  options.add("-t,--threads", "N", quantize.threads, "Threads; 0: all that are there").range(0, 64);
  options.flag("--json", args.json, "Print a JSON object");
  options.flag("-q,--quiet", args.quiet, "Only errors on stderr");
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
  require_output("output", args.output, {args.input, args.options.importance});
  if (args.quiet) set_log_callback([](Verbosity, std::string_view) {});
  Progress bar("quantising", !args.quiet);
  args.options.progress = [&bar](double done) {
    bar.update(done);
    return !interrupted();
  };
  const auto start = std::chrono::steady_clock::now();
  const Result<QuantizeReport> result = [&] {
    const InterruptScope scope;
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

struct ImatrixArgs {
  ModelArgs model;
  ImportanceOptions options;
  std::string file;
  std::string output = "imatrix.gguf";
  bool json = false;
};

void declare_imatrix(Options options, ImatrixArgs& args) {
  declare_load(options, args.model);
  options.add("-f,--file", "FILE", args.file, "A text like those the model is for; '-': stdin");
  options.add("-o,--output", "FILE", args.output, "GGUF file to write").show_default();
  options.add("--chunk", "N", args.options.chunk, "Tokens that are evaluated together")
      .range(4, 1 << 16)
      .show_default();
  options.add("--chunks", "N", args.options.chunks, "Chunks at most; 0: all")
      .range(0, std::numeric_limits<int32_t>::max())
      .show_default();
  options.flag("--special", args.options.parse_special,
               "Special tokens spelt out in the text are such tokens, not plain text");
  options.flag("--json", args.json, "Print a JSON object");
}

int run_imatrix(ImatrixArgs& args) {
  require_model(args.model);
  if (args.file.empty()) usage("no text given: use -f FILE");
  require_output("--output", args.output,
                 {args.model.path, args.model.load.draft_model, args.file});
  const std::string text = read_input(args.file);
  args.options.load = load_options(args.model);
  args.options.dataset = args.file;
  Progress bar("measuring", !args.model.quiet);
  args.options.on_chunk = [&bar](int64_t done, int64_t of) {
    bar.update(static_cast<double>(done) / static_cast<double>(of));
    return !interrupted();
  };
  const Result<ImportanceReport> result = [&] {
    const InterruptScope scope;
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
      note("{} experts met none of the tokens: a longer or more varied text would serve better",
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
