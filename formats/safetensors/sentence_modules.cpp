#include "formats/safetensors/sentence_modules.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

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
  JsonPlace mode_name = config.at("pooling_mode");
  if (mode_name.value().is_array() && mode_name.size() == 1) mode_name = mode_name.at(size_t{0});
  std::string named = mode_name.text("");
  const auto has_flag = [&](const Mode& mode) { return config.at(mode.flag).present(); };
  if (named.empty() && std::ranges::none_of(kModes, has_flag)) named = "mean";
  for (const Mode& mode : kModes) {
    // The name, which is the newer form, counts alone.
    if (named.empty() ? !config.at(mode.flag).flag(false) : named != mode.name) continue;
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
  if (config.at("use_residual").flag(false)) config.at("use_residual").unsupported();
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const JsonPlace name = config.at(key);
    if (name.present() && name.text() != "sentence_embedding") name.unsupported();
  }
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
  // They are computed in this order, whatever theirs is.
  constexpr std::string_view kOrder[] = {".Transformer", ".Pooling", ".Dense", ".Normalize"};
  size_t last = 0;  // place in it
  for (size_t i = 0; i < modules.size(); ++i) {
    const std::string type = modules.at(i).at("type").text();
    const std::string folder = modules.at(i).at("path").text("");
    INFER_CHECK(problem.status);
    if (type.ends_with(".Dropout")) continue;  // nothing is dropped but in training
    const bool has_folder = !type.ends_with(".Transformer") && !type.ends_with(".Normalize");
    if (has_folder && !is_file_name(folder)) {
      return error(StatusCode::bad_file,
                   "{}: '[{}].path': expected the name of a folder beside it, found '{}'", path, i,
                   printable(folder));
    }
    const auto* const place = std::ranges::find_if(
        kOrder, [&](std::string_view ending) { return type.ends_with(ending); });
    if (place == std::end(kOrder)) {
      return error(StatusCode::unsupported, "{}: module '{}'; supported: Pooling, Dense, Normalize",
                   path, printable(type));
    }
    const auto at = static_cast<size_t>(place - kOrder);
    const bool again = at == last && at < 2 && i > 0;
    if (at < last || again || (at > 1 && last == 0)) {
      return error(
          StatusCode::unsupported,
          "{}: '[{}].type': '{}' in this place; supported: Transformer, Pooling, then Dense "
          "modules, then Normalize",
          path, i, printable(type));
    }
    last = at;
    if (type.ends_with(".Pooling")) {
      INFER_CHECK(read_pooling(directory + "/" + folder + "/config.json", out));
    } else if (type.ends_with(".Dense")) {
      INFER_CHECK(read_dense(directory + "/" + folder, dense++, add));
    }
  }
  return problem.status;
}

}  // namespace infer::safetensors
