// infer pull: downloads a model of the Hugging Face hub, or its newer version.
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/hub_options.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

struct PullArgs {
  HubArgs hub;
  bool json = false;
  bool quiet = false;
};

void declare_pull(Options options, PullArgs& args) {
  options.group(kModelGroup)
      .add("repository,-hf,-hfr,--hf-repo", "USER/REPO[:QUANT]", args.hub.model,
           "Model on the hub. QUANT is a word in the name of a GGUF file, such as Q8_0; without it "
           "Q4_K_M, else Q8_0, else the first file. If the repository has no GGUF file: its "
           "directory of safetensors. All parts of a split file are downloaded");
  declare_hub_access(options, args.hub);
  options.flag("--json", args.json, "Print the downloaded files as a JSON object");
  options.flag("-q,--quiet", args.quiet, "Only errors on stderr");
  options.example("infer pull Qwen/Qwen3-0.6B-GGUF:Q8_0", "into Hugging Face's cache");
  options.example("infer run -hf Qwen/Qwen3-0.6B-GGUF:Q8_0 \"Once upon a time\"",
                  "use a model, and download it if it is absent");
}

int run_pull(PullArgs& args) {
  if (args.hub.model.empty()) usage("no model given: use infer pull USER/REPO[:QUANT]");
  const hub::ModelName wanted = wanted_of(args.hub);
  const hub::Pulled pulled = pull_model(wanted, args.hub.token, args.quiet);
  if (!args.json) {
    write_text(pulled.path + "\n");
    check_out();
    return kExitOk;
  }
  Json files = Json::array();
  int64_t bytes = 0;
  int64_t downloaded = 0;
  for (const hub::PulledFile& file : pulled.files) {
    const bool sha256 = file.hash.size() == 64;
    files.push_back({{"path", file.path},
                     {"bytes", file.bytes},
                     {"sha256", sha256 ? Json(file.hash) : Json()},
                     {"downloaded", file.downloaded}});
    bytes += file.bytes;
    downloaded += file.downloaded;
  }
  const bool one = files.size() == 1;
  print_json({{"path", pulled.path},
              {"repository", wanted.repository},
              {"commit", pulled.commit},
              {"bytes", bytes},
              {"sha256", one ? files[0]["sha256"] : Json()},
              {"downloaded", downloaded},
              {"files", std::move(files)}});
  return kExitOk;
}

}  // namespace

void add_pull(Parser& parser) {
  add_command(parser, "pull", "Download a model of the Hugging Face hub", declare_pull, run_pull);
}

}  // namespace infer::cli
