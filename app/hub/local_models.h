// The models that other programs have downloaded to this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace infer::hub {

/// A model in one of the folders that are looked through.
struct LocalModel {
  std::string name;    ///< "org/repo/file" without .gguf, "llama3.2:3b"
  std::string path;    ///< a GGUF file or a Hugging Face directory
  std::string source;  ///< the program whose folder it is: "LM Studio", "ollama"; or a folder
  int64_t bytes = 0;   ///< of all its files
};

/// What could not be looked into, and why.
struct SkippedPath {
  std::string path;
  std::string reason;
};

struct ScanOptions {
  std::vector<std::string> folders;  ///< that are looked through besides; their models' source
  std::function<bool()> go_on;       ///< asked often; false ends the scan. May be empty
};

struct LocalScan {
  std::vector<LocalModel> models;
  std::vector<SkippedPath> skipped;  ///< at most 1,000
  bool complete = true;              ///< false: go_on ended it
};

/// All models, sorted by source and then by name. Looks into these folders:
///   INFER_MODELS                                           folders with ':' between
///   ~/.lmstudio/models, ~/.cache/lm-studio/models          LM Studio
///   LLAMA_CACHE, else ~/.cache/llama.cpp                   llama.cpp
///   HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub   Hugging Face
///   OLLAMA_MODELS, else ~/.ollama/models, /usr/share/ollama/.ollama/models   ollama
/// If XDG_CACHE_HOME is set, it replaces ~/.cache. Folders are followed to a depth of 5, each once,
/// through links too. Files may come and go meanwhile.
LocalScan scan_models(const ScanOptions& options);
/// The models below one folder, sorted by name: GGUF files, and directories of safetensors.
LocalScan scan_folder(const std::string& folder);
/// scan_models() without a word about what was skipped.
std::vector<LocalModel> local_models();

/// A model's name by its path: that of the file without .gguf and without the number of a part, or
/// that of the directory. Of what ollama keeps the name it has there ("llama3.2:3b"), of a
/// directory in Hugging Face's cache that of the repository, without its owner.
std::string model_name(const std::string& path);
/// Whether the file or directory is kept by another program under names that are not for people:
/// ollama's files, and what is in Hugging Face's cache.
bool is_kept(const std::string& path);

/// The models whose name contains `part`, in any case of letters. If a name equals `part`, only
/// that model.
std::vector<LocalModel> find_models(std::string_view part);

}  // namespace infer::hub
