// The models that other programs have downloaded to this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace infer::hub {

/// A model in one of the folders that are looked through.
struct LocalModel {
  std::string name;    ///< "org/repo/file" without .gguf, "llama3.2:3b"
  std::string path;    ///< a GGUF file or a Hugging Face directory
  std::string source;  ///< the program whose folder it is: "LM Studio", "ollama"
  int64_t bytes = 0;   ///< of all its files
};

/// All models, sorted by source and then by name. Looks into these folders:
///   INFER_MODELS                                           folders with ':' between
///   ~/.lmstudio/models, ~/.cache/lm-studio/models          LM Studio
///   LLAMA_CACHE, else ~/.cache/llama.cpp                   llama.cpp
///   HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub   Hugging Face
///   OLLAMA_MODELS, else ~/.ollama/models, /usr/share/ollama/.ollama/models   ollama
/// If XDG_CACHE_HOME is set, it replaces ~/.cache. Files that cannot be read are left out.
std::vector<LocalModel> local_models();

/// The models whose name contains `part`, in any case of letters. If a name equals `part`, only
/// that model.
std::vector<LocalModel> find_models(std::string_view part);

}  // namespace infer::hub
