#include "formats/safetensors/sentence_modules.h"

#include <filesystem>

#include "engine/core/file.h"
#include "formats/safetensors/json_document.h"

namespace infer::safetensors {
namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// The pooling that a configuration names or switches on.
Status read_pooling(const std::string& path, Metadata& out) {
  INFER_TRY_S(const Json document, read_json_document(path));
  JsonProblem problem{path, {}};
  const JsonPlace config(document, problem);
  struct Mode {
    const char* flag;
    const char* name;
    const char* pooling;  ///< null: not computed
  };
  constexpr Mode kModes[] = {
      {"pooling_mode_cls_token", "cls", "cls"},
      {"pooling_mode_mean_tokens", "mean", "mean"},
      {"pooling_mode_lasttoken", "lasttoken", "last"},
      {"pooling_mode_max_tokens", "max", nullptr},
      {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", nullptr},
      {"pooling_mode_weightedmean_tokens", "weightedmean", nullptr},
  };
  std::string names;
  const char* pooling = nullptr;
  const std::string named = config.at("pooling_mode").text("");
  for (const Mode& mode : kModes) {
    if (named != mode.name && !config.at(mode.flag).flag(false)) continue;
    pooling = names.empty() ? mode.pooling : nullptr;
    names += (names.empty() ? "" : " and ") + std::string(mode.name);
  }
  INFER_CHECK(problem.status);
  if (pooling == nullptr) {
    return error(StatusCode::unsupported, "{}: pooling {}; supported: one of cls, mean, lasttoken",
                 path, names.empty() ? printable(named.empty() ? "none" : named) : names);
  }
  out.set("hf.pooling", std::string(pooling));
  return {};
}

Status read_dense(const std::string& folder, int number, const AddWeights& add) {
  const std::string path = folder + "/config.json";
  INFER_TRY_S(const Json document, read_json_document(path));
  JsonProblem problem{path, {}};
  const JsonPlace config(document, problem);
  const std::string activation = config.at("activation_function").text("");
  INFER_CHECK(problem.status);
  if (!activation.ends_with(".Identity") || number > 3) {
    return error(StatusCode::unsupported, "{}: {}; supported: two dense modules without one", path,
                 number > 3 ? "a third dense module"
                            : "activation_function '" + printable(activation) + "'");
  }
  return add(folder + "/model.safetensors", fmt::format("sentence.dense_{}.", number));
}

}  // namespace

Status read_sentence_modules(const std::string& directory, Metadata& out, const AddWeights& add) {
  const std::string path = directory + "/modules.json";
  if (!is_there(path)) return {};
  INFER_TRY_S(const Json document, read_json_array(path));
  JsonProblem problem{path, {}};
  const JsonPlace modules(document, problem);
  int dense = 2;  // the first one's number, as GGUF counts
  for (size_t i = 0; i < modules.size(); ++i) {
    const std::string type = modules.at(i).at("type").text();
    const std::string folder = modules.at(i).at("path").text("");
    INFER_CHECK(problem.status);
    if (type.ends_with(".Transformer") || type.ends_with(".Normalize")) continue;
    if (!is_file_name(folder)) {
      return error(StatusCode::bad_file,
                   "{}: '[{}].path': expected the name of a folder beside it, found '{}'", path, i,
                   printable(folder));
    }
    if (type.ends_with(".Pooling")) {
      INFER_CHECK(read_pooling(directory + "/" + folder + "/config.json", out));
    } else if (type.ends_with(".Dense")) {
      INFER_CHECK(read_dense(directory + "/" + folder, dense++, add));
    } else {
      return error(StatusCode::unsupported, "{}: module '{}'; supported: Pooling, Dense, Normalize",
                   path, printable(type));
    }
  }
  return problem.status;
}

}  // namespace infer::safetensors
