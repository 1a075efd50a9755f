// The files of a repository of the hub: which names may become paths, and which files are a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/status.hpp"

namespace infer::hub {

struct HubFile {
  std::string path;  ///< within the repository, with '/' between folders
  int64_t bytes = 0;
  /// Large files: the SHA-256 in 64 hexadecimal digits; others: the SHA-1 of git's blob in 40.
  /// Empty for a file that is known by its name alone.
  std::string hash;
};

/// A model that the user asks for.
struct ModelName {
  std::string repository;  ///< "USER/REPO"
  std::string quant;       ///< what follows the colon; empty: none
  std::string file;        ///< one file by its path; empty: none
};

/// "USER/REPO", "USER/REPO:QUANT", also with "hf.co/" or "https://huggingface.co/" before it. Fails
/// with invalid_argument where the hub would allow no such name.
Result<ModelName> parse_model_name(std::string_view text);

/// Whether a path of a repository may become a path here: relative, without "..", in printable
/// ASCII.
bool is_safe_path(std::string_view path);
/// 40 to 64 hexadecimal digits in small letters: a commit or a hash.
bool is_hash(std::string_view text);

/// "name-00002-of-00005" without an ending: the name, the number, from 1 on, and how many there
/// are.
struct SplitPart {
  std::string name;
  int number = 0;
  int count = 0;
};
std::optional<SplitPart> split_part(std::string_view stem);

/// The quantisation that a GGUF file's name tells: "Q4_K_M", "UD-IQ2_XXS"; else empty.
std::string quant_of(std::string_view path);

/// What was chosen: the files to have, and which of them is the model. A folder if `model` is
/// empty.
struct Chosen {
  std::vector<HubFile> files;
  std::string model;
};

/// The files of the model that the user asks for, with all parts of a split file. Without a
/// quantisation and a file: the GGUF file of Q4_K_M, else of Q8_0, else the first one. Unless a
/// file is named, also the one beside it that reads images (mmproj). If there is no GGUF file: the
/// files of a Hugging Face directory that the engine reads. Errors: not_found, which lists the
/// existing files.
Result<Chosen> choose(const ModelName& wanted, const std::vector<HubFile>& files);

}  // namespace infer::hub
