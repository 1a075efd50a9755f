// infer convert: a Hugging Face directory as a GGUF file.
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

struct ConvertArgs {
  ConvertOptions convert;
  std::string model;
  std::string path;
  bool json = false;
  bool quiet = false;
};

void declare_convert(Options options, ConvertArgs& args) {
  options.add("model", "FILE", args.model, "Hugging Face directory, or its only safetensors file")
      .required();
  options.add("output", "FILE", args.path, "GGUF file to write").required();
  options
      .add("--to,--type", "TYPE", args.convert.type,
           "Type of the matrices; auto: as stored (norms and biases become F32). NF4 stays NF4, "
           "which other programs cannot read: for them choose bf16, or use 'infer quantize'")
      .one_of({"auto", "f32", "f16", "bf16"})
      .show_default();
  options.flag("--json", args.json, "Print what was written as a JSON object");
  options.flag("-q,--quiet", args.quiet, "Only errors on stderr");
  options.example("infer convert Llama-3.2-1B/ llama-3.2-1b.gguf --to bf16", "as a GGUF file");
}

int run_convert(ConvertArgs& args) {
  require_readable(args.model);
  require_output("output", args.path, {args.model});
  Progress bar("converting", !args.quiet);
  args.convert.progress = [&bar](double done) {
    bar.update(done);
    return !platform::interrupted();
  };
  Result<ConvertReport> result = [&] {
    const platform::InterruptScope scope;
    return convert(args.model, args.path, args.convert);
  }();
  erase_progress();
  const ConvertReport report = must(std::move(result));
  if (args.json) {
    Json types = Json::object();
    for (const auto& [type, count] : report.types) types[type] = count;
    print_json({{"path", args.path},
                {"architecture", report.architecture},
                {"tensors", report.tensors},
                {"bytes", report.bytes},
                {"types", std::move(types)}});
  } else if (!args.quiet) {
    note("{}: written, {} in {} tensors", args.path, human_bytes(report.bytes), report.tensors);
  }
  return kExitOk;
}

}  // namespace

void add_convert(Parser& parser) {
  add_command(parser, "convert", "Write a Hugging Face directory as a GGUF file", declare_convert,
              run_convert);
}

}  // namespace infer::cli
