// Arguments that several commands share, and how they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "infer/infer.hpp"

namespace infer::cli {

/// Rewrites the flags of several letters after a single dash that users of llama.cpp know, and
/// which CLI11 would read as bundles of single letters: -ub, -ctk, -ctv, -ngl become --ub and so
/// on. The text that follows a flag which takes free text is left alone.
std::vector<std::string> normalise_arguments(int argc, char** argv);
/// Whether a long name ("ub") is also known after a single dash.
bool is_single_dash_name(std::string_view name);

/// "4096", "512M", "8G", "1.5GiB": bytes, in powers of 1024. Nothing if it is something else.
std::optional<int64_t> parse_size(std::string_view text);

/// What stands between the separators; of an empty text nothing.
std::vector<std::string> parts_of(std::string_view text, char separator);

/// Ids from a JSON array, an object {"tokens": [...]}, or numbers apart by white space or commas.
/// Nothing if the text is something else or an id does not fit into 32 bits.
std::optional<std::vector<int32_t>> parse_tokens(std::string_view text);

/// A JSON text of at most 100 levels. Nothing if it is something else.
std::optional<nlohmann::ordered_json> parse_json(std::string_view text);

/// A whole file, "-" for stdin. Throws Failure with the code of a bad input file.
std::string read_input(const std::string& path);

/// Which model, and how it is loaded.
struct ModelArgs {
  std::string path;
  LoadOptions load;
  std::optional<int32_t> step_tokens;
  std::string memory;
  std::string reserve;
  bool quiet = false;
  bool verbose = false;
};

/// -m. Whether it was given is checked by require_model, whose message helps more than the
/// parser's.
void declare_model(Options options, ModelArgs& args);
/// --device, -t, --isa, --exact.
void declare_device(Options options, LoadOptions& load);
/// How a loaded model runs: those of declare_device, -c, -ctk, -ctv, -ngl, --mmap, --spill,
/// --memory, --reserve,
/// --quiet, --verbose, and the tokens of a step under these names.
inline constexpr const char* kStepNames = "-b,--batch-size,--ub,--ubatch-size";
void declare_running(Options options, ModelArgs& args, const char* step_names = kStepNames);
/// declare_model and declare_running.
void declare_load(Options options, ModelArgs& args);

void require_model(const ModelArgs& args);
/// Takes the built-in model where none was given.
void choose_model(ModelArgs& args);
/// Throws Failure (device) unless the machine has it.
void require_device(const std::string& name);
/// Checks the arguments and completes the options: memory, device, verbosity, progress on a
/// terminal.
LoadOptions load_options(const ModelArgs& args);
/// Warns where -c is more than the tokens that the model was trained for.
void warn_of_context(const ModelArgs& args, int64_t trained);
/// Loads the model; Ctrl-C ends it. Throws Failure. Says what may surprise, and with -v what was
/// chosen.
std::unique_ptr<Engine> load_engine(const ModelArgs& args);

}  // namespace infer::cli
