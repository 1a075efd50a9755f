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

/// The parts between the separators. None if the text is empty.
std::vector<std::string> parts_of(std::string_view text, char separator);
/// The same of a flag's value. Throws Failure (usage) if a part is empty.
std::vector<std::string> list_of(std::string_view flag, std::string_view text, char separator);

/// Ids from a JSON array, an object {"tokens": [...]}, or numbers separated by spaces or commas.
/// Nothing if the text is something else, nothing stands between two commas, or an id does not fit
/// into 32 bits.
std::optional<std::vector<int32_t>> parse_tokens(std::string_view text);

/// A JSON text of at most 100 levels. Nothing if it is something else.
std::optional<nlohmann::ordered_json> parse_json(std::string_view text);

/// Throws Failure with the code of a bad input file if the file exists but cannot be opened.
void require_readable(const std::string& path);
/// The most that is read of a file of text. A tokenizer takes no longer text.
inline constexpr int64_t kMostInputBytes = int64_t{64} << 20;
/// The same of a file with many texts.
inline constexpr int64_t kMostTextsBytes = int64_t{1} << 30;
/// A whole file, "-" for stdin. Throws Failure: with the code of a bad input file, also if it has
/// more than `most` bytes, which is found before it is read if it is a file; does not fit if there
/// is no memory for it.
std::string read_input(const std::string& path, int64_t most = kMostInputBytes);
/// The same, for a file that must not be empty.
std::string read_filled_input(const std::string& path);
/// The same; without a path reads from the pipe on stdin. If there is no pipe, throws Failure
/// (usage), which says what is missing and how to give it.
std::string read_input_or_pipe(const std::string& path, const char* what, const char* hint,
                               int64_t most = kMostInputBytes);
bool is_blank(std::string_view text);
/// Without the one line end that editors put behind a text.
std::string without_line_end(std::string text);
/// Tokens of a chunk: what was given, else -c, as in llama.cpp, but `most` at most, else what is
/// usual.
int32_t chunk_of(const std::optional<int32_t>& given, int64_t context, int32_t usual, int32_t most);
/// Replaces \n, \t, \r, \\, \", \' and \xNN by the characters they stand for. Others stay.
std::string unescaped(std::string_view text);

// Headings of the help; help.cpp has their order.
inline constexpr const char* kModelGroup = "Model";
inline constexpr const char* kMemoryGroup = "Memory and devices";
inline constexpr const char* kTemplateGroup = "Chat template";
inline constexpr const char* kSamplingGroup = "Sampling";
inline constexpr const char* kConstraintGroup = "Constraint";
inline constexpr const char* kSpeculationGroup = "Speculation";
inline constexpr const char* kServerGroup = "Server";
inline constexpr const char* kAccessGroup = "Access";
inline constexpr const char* kOutputGroup = "Output";

/// A model of the hub, and how to get it.
struct HubArgs {
  std::string model;  ///< USER/REPO[:QUANT]
  std::string file;
  std::string token;
  bool offline = false;
};

/// A model, and how to load it.
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

/// The path of a model that was given by path or by a part of a name that 'infer list' shows.
/// Throws Failure (usage) if several names match.
std::string model_path_of(const std::string& given);

/// The files that a command with such a model reads: those given, the model, its drafter, tower and
/// adapters. For require_output().
std::vector<std::string> inputs_of(const ModelArgs& args, std::vector<std::string> files);

/// The model in the program itself (infer bundle); empty: it has none. Throws Failure.
std::string bundled_model();

/// Declares the model: -m, or the first word, or -hf; otherwise the bundled one. require_model()
/// checks later that one was given, with a better message than the parser's.
void declare_model(Options options, ModelArgs& args);
/// Declares --device, -t, --isa, --exact.
void declare_device(Options options, LoadOptions& load);
/// Declares how a loaded model runs: the options of declare_device(), -c, -ctk, -ctv, -ngl, --mmap,
/// --spill, --memory, --reserve, --quiet, --verbose and so on. `step_names`: names of the option
/// for the tokens of a step; null: those of load_options.def. `quiet_names`: those of --quiet.
void declare_running(Options options, ModelArgs& args, const char* step_names = nullptr,
                     const char* quiet_names = "-q,--quiet");
/// declare_model and declare_running.
void declare_load(Options options, ModelArgs& args);

void require_model(const ModelArgs& args);
/// Takes the built-in model if none was given, and says so, unless --quiet was given.
void choose_model(ModelArgs& args);
/// The same without a message.
void choose_model_silently(ModelArgs& args);
/// The library's number of threads for -t: both 0 and −1 give 0, which means all. Throws Failure
/// (usage).
int32_t thread_count(int32_t given);
/// Throws Failure (device) if the machine does not have the device.
void require_device(const std::string& name);
/// Checks the arguments and completes the options: memory, device, verbosity, progress on a
/// terminal.
LoadOptions load_options(const ModelArgs& args);
/// Warns if -c is more than the context that the model was trained for.
void warn_of_context(const ModelArgs& args, int64_t trained);
/// The value, or throws as must_read() does; if a model does not fit, the message says what would.
template <typename T>
T must_fit(Result<T> result, const std::string& path, const LoadOptions& options) {
  if (!result && result.error().code() == StatusCode::does_not_fit) {
    throw Failure(kExitDoesNotFit, result.error().message() + fitting_options(path, options));
  }
  return must_read(std::move(result));
}
/// Loads the model. Ctrl-C ends the loading. Throws Failure. Prints notes about surprising choices,
/// and with -v all choices.
std::unique_ptr<Engine> load_engine(const ModelArgs& args);

/// "--image FILE", which may be given several times.
void declare_images(Options options, std::vector<std::string>& files);
/// Where there are images, but nothing that reads them, takes what lies with the model. Throws
/// Failure if that is nothing.
void choose_vision(ModelArgs& model, const std::vector<std::string>& images);
/// Reads these files for the model. Throws Failure.
std::vector<ModelImage> read_images(Engine& engine, const std::vector<std::string>& files);

}  // namespace infer::cli
