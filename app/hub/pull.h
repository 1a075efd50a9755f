// Models of the hub by their names: finds them in the cache or downloads them. No other part of the
// program opens a connection.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/http.h"
#include "hub/hub_files.h"
#include "infer/status.hpp"

namespace infer::hub {

struct PulledFile {
  std::string path;
  int64_t bytes = 0;
  std::string hash;        ///< SHA-256 of large files, SHA-1 of git's blob of others
  int64_t downloaded = 0;  ///< bytes that came over the network
};

struct Pulled {
  std::string path;  ///< the model: a GGUF file or a directory
  std::string commit;
  std::vector<PulledFile> files;
};

/// What the user sees of a pull. Called on the caller's thread.
struct PullWatch {
  std::function<void(int64_t missing, int64_t bytes)> begin;  ///< before the first byte
  std::function<void(int64_t done, int64_t bytes)> progress;  ///< of all files together
};

/// The model's path if it is in the cache, whole. No connection is opened.
std::optional<std::string> find_in_cache(const ModelName& wanted);

/// The endpoint and the token. `token` is what the user gave, else HF_TOKEN,
/// HUGGING_FACE_HUB_TOKEN, or the file HF_TOKEN_PATH or HF_HOME/token; the endpoint is
/// MODEL_ENDPOINT, else HF_ENDPOINT, else https://huggingface.co. Fails with invalid_argument where
/// one of them cannot be such, with io without libcurl, and with not_found if HF_HUB_OFFLINE or
/// TRANSFORMERS_OFFLINE is set.
Result<Connection> connect(const std::string& token);

/// Brings the model of the repository's newest commit into the cache, or what is missing of it.
Result<Pulled> pull(const Connection& connection, const ModelName& wanted, const PullWatch& watch);

}  // namespace infer::hub
