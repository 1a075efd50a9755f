#include "hub/local_models.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "hub/bounded_json.h"
#include "hub/hub_cache.h"
#include "hub/hub_files.h"
#include "platform/folders.h"

namespace infer::hub {
namespace {

namespace fs = std::filesystem;
using platform::variable;

// A folder may be anything, also a whole disk.
constexpr int kMaxDepth = 5;
constexpr int64_t kMaxEntries = 200'000;
constexpr std::streamsize kMaxManifestBytes = 1 << 20;
constexpr int kMaxLevels = 20;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

/// Calls `see` for every file below a folder. Links to files count as files, links to folders do
/// not count.
template <typename See>
void for_each_file(const fs::path& folder, See see) {
  std::error_code failed;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied,
                                      failed);
  const fs::recursive_directory_iterator end;
  for (int64_t seen = 0; !failed && it != end && seen < kMaxEntries; it.increment(failed), ++seen) {
    if (it.depth() >= kMaxDepth) it.disable_recursion_pending();
    std::error_code unknown;
    if (it->is_regular_file(unknown)) see(it->path());
  }
}

int64_t bytes_of(const fs::path& file) {
  std::error_code failed;
  const uintmax_t bytes = fs::file_size(file, failed);
  return failed ? 0 : static_cast<int64_t>(bytes);
}

/// The GGUF files below a folder; of a split one its first part, with the bytes of all.
void add_files(const fs::path& folder, const std::string& source, std::vector<LocalModel>& models) {
  std::vector<std::pair<std::string, int64_t>> parts;  // whole path without the number
  std::vector<std::pair<size_t, std::string>> firsts;
  for_each_file(folder, [&](const fs::path& file) {
    const std::string stem = file.stem().string();
    if (lower(file.extension().string()) != ".gguf" || lower(stem).starts_with("mmproj")) return;
    const std::optional<SplitPart> part = split_part(stem);
    if (part) parts.emplace_back((file.parent_path() / part->name).string(), bytes_of(file));
    if (part && part->number != 1) return;
    if (part) firsts.emplace_back(models.size(), parts.back().first);
    const fs::path named = file.parent_path() / (part ? part->name : stem);
    models.push_back(
        {named.lexically_relative(folder).string(), file.string(), source, bytes_of(file)});
  });
  for (const auto& [index, whole] : firsts) {
    models[index].bytes = 0;
    for (const auto& [of, bytes] : parts) {
      if (of == whole) models[index].bytes += bytes;
    }
  }
}

/// models--ORG--REPO/snapshots/COMMIT: GGUF files, or a directory of safetensors. Of a file that is
/// in several commits the newest counts.
void add_hub_cache(const fs::path& cache, std::vector<LocalModel>& models) {
  std::error_code failed;
  for (fs::directory_iterator it(cache, failed), end; !failed && it != end; it.increment(failed)) {
    std::string name = it->path().filename().string();
    if (!name.starts_with("models--")) continue;
    name.erase(0, sizeof("models--") - 1);
    if (const size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
    std::set<std::string> seen;
    const auto add = [&](LocalModel model) {
      if (seen.insert(model.name).second) models.push_back(std::move(model));
    };
    for (const std::string& commit : snapshots_of(it->path())) {
      const fs::path snapshot = it->path() / "snapshots" / commit;
      std::vector<LocalModel> files;
      add_files(snapshot, "Hugging Face", files);
      for (LocalModel& file : files) {
        file.name.insert(0, name + "/");
        add(std::move(file));
      }
      int64_t bytes = 0;
      for_each_file(snapshot, [&](const fs::path& file) {
        if (file.extension() == ".safetensors") bytes += bytes_of(file);
      });
      std::error_code absent;
      if (bytes > 0 && fs::exists(snapshot / "config.json", absent)) {
        add({name, snapshot.string(), "Hugging Face", bytes});
      }
    }
  }
}

/// manifests/REGISTRY/NAMESPACE/MODEL/TAG name blobs by their hashes.
void add_ollama(const fs::path& folder, std::vector<LocalModel>& models) {
  const fs::path manifests = folder / "manifests";
  for_each_file(manifests, [&](const fs::path& file) {
    std::vector<std::string> place;
    for (const fs::path& part : file.lexically_relative(manifests)) place.push_back(part.string());
    if (place.size() != 4) return;
    std::string text(static_cast<size_t>(kMaxManifestBytes), '\0');
    std::ifstream stream(file, std::ios::binary);
    stream.read(text.data(), kMaxManifestBytes);
    text.resize(static_cast<size_t>(stream.gcount()));
    const auto manifest = parse_bounded<nlohmann::json>(text, kMaxLevels);
    if (!manifest || !manifest->is_object()) return;
    const auto layers = manifest->find("layers");
    if (layers == manifest->end() || !layers->is_array()) return;
    for (const auto& layer : *layers) {
      if (!layer.is_object() || !layer.contains("mediaType") || !layer.contains("digest")) continue;
      if (layer["mediaType"] != "application/vnd.ollama.image.model") continue;
      if (!layer["digest"].is_string()) continue;
      std::string digest = layer["digest"].get<std::string>();
      // The name of a file alone, in the folder of blobs.
      if (!digest.starts_with("sha256:") || digest.find('/') != std::string::npos) continue;
      digest[sizeof("sha256") - 1] = '-';
      const fs::path blob = folder / "blobs" / digest;
      std::error_code absent;
      if (!fs::is_regular_file(blob, absent)) continue;
      const bool library = place[0] == "registry.ollama.ai" && place[1] == "library";
      models.push_back({(library ? "" : place[1] + "/") + place[2] + ":" + place[3], blob.string(),
                        "ollama", bytes_of(blob)});
    }
  });
}

}  // namespace

std::vector<LocalModel> local_models() {
  std::vector<LocalModel> models;
  std::string own = variable("INFER_MODELS");
  while (!own.empty()) {
    const size_t end = std::min(own.find(':'), own.size());
    if (end > 0) add_files(own.substr(0, end), "INFER_MODELS", models);
    own.erase(0, end + 1);
  }
  const fs::path home = platform::home_folder();
  const fs::path cache = platform::cache_folder();
  // Without such a folder nothing is in it: the path is not to begin where the program runs.
  const auto in = [](const fs::path& folder, const char* path) {
    return folder.empty() ? folder : folder / path;
  };
  const auto set_or = [](const char* name, const fs::path& usual) {
    const std::string value = variable(name);
    return value.empty() ? usual : fs::path(value);
  };
  add_files(in(home, ".lmstudio/models"), "LM Studio", models);
  add_files(in(cache, "lm-studio/models"), "LM Studio", models);
  add_files(set_or("LLAMA_CACHE", in(cache, "llama.cpp")), "llama.cpp", models);
  add_hub_cache(hub_cache_folder(), models);
  const fs::path system = "/usr/share/ollama/.ollama/models";
  const fs::path ollama = set_or("OLLAMA_MODELS", in(home, ".ollama/models"));
  if (!ollama.empty()) add_ollama(ollama, models);
  if (ollama != system) add_ollama(system, models);
  const auto order = [](const LocalModel& model) { return std::tie(model.source, model.name); };
  std::ranges::stable_sort(models,
                           [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return models;
}

std::vector<LocalModel> find_models(std::string_view part) {
  std::vector<LocalModel> found;
  const std::string wanted = lower(part);
  for (LocalModel& model : local_models()) {
    const std::string name = lower(model.name);
    if (name == wanted) return {std::move(model)};
    if (name.find(wanted) != std::string::npos) found.push_back(std::move(model));
  }
  return found;
}

}  // namespace infer::hub
