#include "hub/local_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "hub/bounded_json.h"
#include "hub/folder_walk.h"
#include "hub/hub_cache.h"
#include "hub/hub_files.h"
#include "platform/folders.h"

namespace infer::hub {
namespace {

namespace fs = std::filesystem;
using platform::variable;

constexpr std::streamsize kMaxManifestBytes = 1 << 20;
constexpr int kMaxLevels = 20;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

int64_t bytes_of(const fs::path& file) {
  std::error_code failed;
  const uintmax_t bytes = fs::file_size(file, failed);
  return failed ? 0 : static_cast<int64_t>(bytes);
}

/// The GGUF files below a folder; of a split one its first part, with the bytes of all.
void add_files(const fs::path& folder, const std::string& source, FolderWalk& walk,
               std::vector<LocalModel>& models) {
  std::map<std::string, int64_t> whole_bytes;  // by the path without the number
  std::vector<std::pair<size_t, std::string>> firsts;
  walk.visit(folder, [&](const fs::path& file) {
    const std::string stem = file.stem().string();
    if (lower(file.extension().string()) != ".gguf" || lower(stem).starts_with("mmproj")) return;
    const std::optional<SplitPart> part = split_part(stem);
    const fs::path named = file.parent_path() / (part ? part->name : stem);
    const int64_t bytes = bytes_of(file);
    if (part) whole_bytes[named.string()] += bytes;
    if (part && part->number != 1) return;
    if (part) firsts.emplace_back(models.size(), named.string());
    models.push_back({named.lexically_relative(folder).string(), file.string(), source, bytes});
  });
  for (const auto& [index, whole] : firsts) models[index].bytes = whole_bytes[whole];
}

/// The GGUF files and the Hugging Face directories below a folder. A directory within another one
/// is a part of that model, as sentence-transformers' modules are, and no model itself.
void add_folder(const fs::path& folder, const std::string& source, FolderWalk& walk,
                std::vector<LocalModel>& models) {
  add_files(folder, source, walk, models);
  std::map<fs::path, int64_t> weights;  // by their directory
  walk.visit(folder, [&](const fs::path& file) {
    if (file.extension() == ".safetensors") weights[file.parent_path()] += bytes_of(file);
  });
  const auto is_model = [&](const fs::path& path) {
    std::error_code absent;
    return weights.contains(path) && fs::exists(path / "config.json", absent);
  };
  for (const auto& [path, bytes] : weights) {
    if (path == folder || !is_model(path) || is_model(path.parent_path())) continue;
    models.push_back({path.lexically_relative(folder).string(), path.string(), source, bytes});
  }
}

/// models--ORG--REPO/snapshots/COMMIT: GGUF files, or a directory of safetensors. Of a file that is
/// in several commits the newest counts.
void add_hub_cache(const fs::path& cache, FolderWalk& walk, std::vector<LocalModel>& models) {
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
      add_files(snapshot, "Hugging Face", walk, files);
      for (LocalModel& file : files) {
        file.name.insert(0, name + "/");
        add(std::move(file));
      }
      int64_t bytes = 0;
      walk.visit(snapshot, [&](const fs::path& file) {
        if (file.extension() == ".safetensors") bytes += bytes_of(file);
      });
      std::error_code absent;
      if (bytes > 0 && fs::exists(snapshot / "config.json", absent)) {
        add({name, snapshot.string(), "Hugging Face", bytes});
      }
    }
  }
}

/// Why a manifest names no model, or the path of the model's blob.
struct Manifest {
  std::string reason;
  fs::path blob;
};

Manifest read_manifest(const fs::path& file, const fs::path& blobs) {
  std::string text(static_cast<size_t>(kMaxManifestBytes), '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {"the manifest cannot be read", {}};
  stream.read(text.data(), kMaxManifestBytes);
  text.resize(static_cast<size_t>(stream.gcount()));
  const auto manifest = parse_bounded<nlohmann::json>(text, kMaxLevels);
  if (!manifest || !manifest->is_object()) return {"the manifest is not a JSON object", {}};
  const auto layers = manifest->find("layers");
  if (layers == manifest->end() || !layers->is_array()) {
    return {"the manifest has no array 'layers'", {}};
  }
  for (const auto& layer : *layers) {
    if (!layer.is_object() || !layer.contains("mediaType") || !layer.contains("digest")) continue;
    if (layer["mediaType"] != "application/vnd.ollama.image.model") continue;
    std::string digest = layer["digest"].is_string() ? layer["digest"].get<std::string>() : "";
    // The name of a file alone, in the folder of blobs.
    if (!digest.starts_with("sha256:") || !is_hash(std::string_view(digest).substr(7))) {
      return {"the digest of the model is not 'sha256:…'", {}};
    }
    digest[sizeof("sha256") - 1] = '-';
    std::error_code absent;
    if (!fs::is_regular_file(blobs / digest, absent)) {
      return {fmt::format("the model's file {} is missing", (blobs / digest).string()), {}};
    }
    return {{}, blobs / digest};
  }
  return {"the manifest names no model", {}};
}

/// manifests/REGISTRY/NAMESPACE/MODEL/TAG name blobs by their hashes.
void add_ollama(const fs::path& folder, FolderWalk& walk, std::vector<LocalModel>& models) {
  const fs::path manifests = folder / "manifests";
  walk.visit(manifests, [&](const fs::path& file) {
    std::vector<std::string> place;
    for (const fs::path& part : file.lexically_relative(manifests)) place.push_back(part.string());
    if (place.size() != 4) return;
    const Manifest manifest = read_manifest(file, folder / "blobs");
    if (!manifest.reason.empty()) return walk.skip(file, manifest.reason);
    const bool library = place[0] == "registry.ollama.ai" && place[1] == "library";
    models.push_back({(library ? "" : place[1] + "/") + place[2] + ":" + place[3],
                      manifest.blob.string(), "ollama", bytes_of(manifest.blob)});
  });
}

/// The whole path, without a slash at the end.
fs::path plain(const std::string& path) {
  std::error_code failed;
  fs::path plain = fs::absolute(path, failed).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

/// Whether it is models--ORG--REPO/snapshots/COMMIT or in one, and which repository's.
std::optional<std::string> cached_repository(const fs::path& path) {
  for (fs::path at = path; at.has_relative_path(); at = at.parent_path()) {
    const fs::path snapshots = at.parent_path();
    const std::string repository = snapshots.parent_path().filename().string();
    if (snapshots.filename() != "snapshots" || !repository.starts_with("models--")) continue;
    const size_t owner = repository.rfind("--");
    return repository.substr(owner + 2);
  }
  return std::nullopt;
}

bool is_blob_of_ollama(const fs::path& path) {
  constexpr std::string_view kStart = "sha256-";
  const std::string name = path.filename().string();
  return path.parent_path().filename() == "blobs" && name.starts_with(kStart) &&
         is_hash(std::string_view(name).substr(kStart.size()));
}

}  // namespace

LocalScan scan_models(const ScanOptions& options) {
  LocalScan scan;
  std::vector<LocalModel>& models = scan.models;
  FolderWalk walk(scan.skipped, options.go_on);
  for (const std::string& folder : options.folders) {
    std::error_code failed;
    if (fs::is_directory(folder, failed)) {
      add_folder(folder, folder, walk, models);
    } else {
      walk.skip(folder, failed ? "cannot be read: " + failed.message() : "is not a folder");
    }
  }
  std::string own = variable("INFER_MODELS");
  while (!own.empty()) {
    const size_t end = std::min(own.find(':'), own.size());
    if (end > 0) add_folder(own.substr(0, end), "INFER_MODELS", walk, models);
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
  add_files(in(home, ".lmstudio/models"), "LM Studio", walk, models);
  add_files(in(cache, "lm-studio/models"), "LM Studio", walk, models);
  add_files(set_or("LLAMA_CACHE", in(cache, "llama.cpp")), "llama.cpp", walk, models);
  add_hub_cache(hub_cache_folder(), walk, models);
  const fs::path system = "/usr/share/ollama/.ollama/models";
  const fs::path ollama = set_or("OLLAMA_MODELS", in(home, ".ollama/models"));
  if (!ollama.empty()) add_ollama(ollama, walk, models);
  if (ollama != system) add_ollama(system, walk, models);
  const auto order = [](const LocalModel& model) { return std::tie(model.source, model.name); };
  std::ranges::stable_sort(models,
                           [&](const auto& a, const auto& b) { return order(a) < order(b); });
  scan.complete = walk.complete();
  return scan;
}

LocalScan scan_folder(const std::string& folder) {
  LocalScan scan;
  FolderWalk walk(scan.skipped, {});
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    walk.skip(folder, failed ? "cannot be read: " + failed.message() : "is not a folder");
    return scan;
  }
  add_folder(folder, folder, walk, scan.models);
  std::ranges::stable_sort(scan.models, {}, &LocalModel::name);
  return scan;
}

std::vector<LocalModel> local_models() { return scan_models({}).models; }

std::string model_name(const std::string& path) {
  const fs::path file = plain(path);
  if (is_blob_of_ollama(file)) {
    LocalScan scan;
    FolderWalk walk(scan.skipped, {});
    add_ollama(file.parent_path().parent_path(), walk, scan.models);
    for (const LocalModel& model : scan.models) {
      if (model.path == file.string()) return model.name;
    }
  }
  std::string name = file.filename().string();
  if (lower(file.extension().string()) == ".gguf") {
    name = file.stem().string();
    if (const std::optional<SplitPart> part = split_part(name)) name = part->name;
  } else if (const auto repository = cached_repository(file);
             repository && file.parent_path().filename() == "snapshots") {
    name = *repository;
  }
  return name;
}

bool is_kept(const std::string& path) {
  const fs::path file = plain(path);
  return is_blob_of_ollama(file) || cached_repository(file);
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
