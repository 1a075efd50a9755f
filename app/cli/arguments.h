// Arguments that several commands share, and how they are read.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/failure.h"
#include "cli/options.h"
#include "cli/placement.h"
#include "infer/infer.hpp"

namespace infer::cli {

/// "4096", "512M", "8G", "1.5GiB": bytes, in powers of 1024. Nothing if it is something else.
std::optional<int64_t> parse_size(std::string_view text);

/// What stands between the separators; of an empty text nothing.
std::vector<std::string> parts_of(std::string_view text, char separator);

/// Ids from a JSON array, an object {"tokens": [...]}, or numbers apart by white space or commas.
/// Nothing if the text is something else or an id does not fit into 32 bits.
std::optional<std::vector<int32_t>> parse_tokens(std::string_view text);

/// A JSON text of at most 100 levels. Nothing if it is something else.
std::optional<nlohmann::ordered_json> parse_json(std::string_view text);

/// Throws Failure with the code of a bad input file if it is there and cannot be opened.
void require_readable(const std::string& path);
/// A whole file, "-" for stdin. Throws Failure with the code of a bad input file.
std::string read_input(const std::string& path);
/// The same, which has to hold something.
std::string read_filled_input(const std::string& path);
/// The same; without a path what comes through a pipe. If nothing does, throws Failure (usage),
/// which says what is missing and how to give it.
std::string read_input_or_pipe(const std::string& path, const char* what, const char* hint);
/// \n, \t, \r, \\, \", \' and \xNN as what they stand for; any other stays as it is.
std::string unescaped(std::string_view text);

// Headings of the help; help.cpp has their order.
inline constexpr const char* kModelGroup = "Model";
inline constexpr const char* kMemoryGroup = "Memory and devices";
inline constexpr const char* kTemplateGroup = "Chat template";
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kConstraintGroup = "Constraint";
inline constexpr const char* kSpeculationGroup = "Speculation";
inline constexpr const char* kOutputGroup = "Output";

/// Which model of the hub, and how to come by it.
struct HubArgs {
  std::string model;  ///< USER/REPO[:QUANT]
  std::string file;
  std::string token;
  bool offline = false;
};

/// Which model, and how it is loaded.
struct ModelArgs {
  std::string path;
  HubArgs hub;
  std::string draft_hub;  ///< a draft model by its name on the hub
  LoadOptions load;
  std::optional<int32_t> step_tokens;
  PlacementArgs placement;
  std::string memory;
  std::string reserve;
  bool quiet = false;
  bool verbose = false;
};

/// The path of a model that is given by its path, or by a part of its name if it is one of those
/// that 'infer list' lists. Throws Failure (usage) where several are.
std::string model_path_of(const std::string& given);

/// The model, with -m or as the first word, or with -hf. Whether it was given is checked by
/// require_model, whose message helps more than the parser's.
void declare_model(Options options, ModelArgs& args);
/// --device, -t, --isa, --exact.
void declare_device(Options options, LoadOptions& load);
/// How a loaded model runs: those of declare_device, -c, -ctk, -ctv, -ngl, --mmap, --spill,
/// --memory, --reserve, --quiet, --verbose and the rest, with the tokens of a step under these
/// names.
inline constexpr const char* kStepNames = "-b,-ub,--batch-size,--ubatch-size";
void declare_running(Options options, ModelArgs& args, const char* step_names = kStepNames);
/// declare_model and declare_running.
void declare_load(Options options, ModelArgs& args);

void require_model(const ModelArgs& args);
/// Takes the built-in model where none was given, and says so unless it is to be quiet.
void choose_model(ModelArgs& args);
/// The same without a word.
void choose_model_silently(ModelArgs& args);
/// -t as the library has it: 0 is all, which here is −1 as well. Throws Failure (usage).
int32_t thread_count(int32_t given);
/// Throws Failure (device) unless the machine has it.
void require_device(const std::string& name);
/// Checks the arguments and completes the options: memory, device, verbosity, progress on a
/// terminal.
LoadOptions load_options(const ModelArgs& args);
/// Warns where -c is more than the tokens that the model was trained for.
void warn_of_context(const ModelArgs& args, int64_t trained);
/// The value, or throws as must_read() does; if a model does not fit, the message says what would.
template <typename T>
T must_fit(Result<T> result, const std::string& path, const LoadOptions& options) {
  if (!result && result.error().code() == StatusCode::does_not_fit) {
    throw Failure(kExitDoesNotFit, result.error().message() + fitting_options(path, options));
  }
  return must_read(std::move(result));
}
/// Loads the model; Ctrl-C ends it. Throws Failure. Says what may surprise, and with -v what was
/// chosen.
std::unique_ptr<Engine> load_engine(const ModelArgs& args);

}  // namespace infer::cli
