#include "hub/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "hub/download.h"
#include "hub/hub_api.h"
#include "hub/hub_cache.h"
#include "platform/folders.h"

namespace infer::hub {
namespace {

namespace fs = std::filesystem;
using platform::variable;

constexpr size_t kMaxTokenBytes = 4096;

bool is_set(const char* name) {
  std::string value = variable(name);
  for (char& c : value) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string token_of_file() {
  const std::string given = variable("HF_TOKEN_PATH");
  std::ifstream file(given.empty() ? hub_home() / "token" : fs::path(given), std::ios::binary);
  std::string text(kMaxTokenBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

std::string find_token(const std::string& given) {
  for (const std::string& token :
       {given, variable("HF_TOKEN"), variable("HUGGING_FACE_HUB_TOKEN")}) {
    if (std::string text = trimmed(token); !text.empty()) return text;
  }
  return trimmed(token_of_file());
}

std::string size_text(int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

/// Fails where the disk has no room for that many bytes more.
Status require_space(const fs::path& folder, int64_t bytes) {
  std::error_code unknown;
  const fs::space_info disk = fs::space(folder, unknown);
  if (bytes == 0 || unknown) return {};
  const auto free = static_cast<double>(disk.available);
  const double missing = static_cast<double>(bytes) - free;
  if (missing <= 0) return {};
  return {StatusCode::io,
          fmt::format("{}: the disk has {} free, and {} have to be downloaded: {} are missing; "
                      "HF_HUB_CACHE names another folder",
                      folder.string(), size_text(static_cast<int64_t>(free)), size_text(bytes),
                      size_text(static_cast<int64_t>(missing)))};
}

}  // namespace

std::optional<std::string> find_in_cache(const ModelName& wanted) {
  if (hub_cache_folder().empty()) return std::nullopt;
  return HubCache(wanted.repository).find(wanted);
}

Result<Connection> connect(const std::string& token) {
  const auto refused = [](StatusCode code, const std::string& message) {
    return tl::unexpected(Status(code, message));
  };
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (is_set(name)) {
      return refused(StatusCode::not_found, fmt::format("nothing is downloaded: {} is set", name));
    }
  }
  if (const Status opened = open_curl(); !opened.ok()) return tl::unexpected(opened);
  Connection connection;
  const char* from = "MODEL_ENDPOINT";
  connection.endpoint = variable(from);
  if (connection.endpoint.empty()) {
    from = "HF_ENDPOINT";
    connection.endpoint = variable(from);
  }
  if (connection.endpoint.empty()) connection.endpoint = "https://huggingface.co";
  while (connection.endpoint.ends_with('/')) connection.endpoint.pop_back();
  const bool known =
      connection.endpoint.starts_with("http://") || connection.endpoint.starts_with("https://");
  if (!known || connection.endpoint.find_first_of("?#") != std::string::npos ||
      !parse_url("", connection.endpoint)) {
    return refused(
        StatusCode::invalid_argument,
        fmt::format("{}: expected a URL of http or https, found '{}'", from, connection.endpoint));
  }
  connection.token = find_token(token);
  const auto printable = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::ranges::all_of(connection.token, printable)) {
    return refused(StatusCode::invalid_argument,
                   "the token for the hub has characters that are not allowed in a token");
  }
  return connection;
}

Result<Pulled> pull(const Connection& connection, const ModelName& wanted, const PullWatch& watch) {
  if (hub_cache_folder().empty()) {
    return tl::unexpected(Status(StatusCode::io,
                                 "there is no folder for downloads: neither HF_HUB_CACHE, HF_HOME, "
                                 "XDG_CACHE_HOME nor HOME is set"));
  }
  const Result<std::vector<HubFile>> files = list_files(connection, wanted.repository);
  if (!files) return tl::unexpected(files.error());
  const Result<Chosen> chosen = choose(wanted, *files);
  if (!chosen) return tl::unexpected(chosen.error());
  const Result<std::string> commit =
      find_commit(connection, wanted.repository, chosen->files.front());
  if (!commit) return tl::unexpected(commit.error());
  const HubCache cache(wanted.repository);
  if (const Status made = cache.prepare(); !made.ok()) return tl::unexpected(made);
  int64_t total = 0;
  int64_t present = 0;
  for (const HubFile& file : chosen->files) {
    total += file.bytes;
    present += bytes_present(cache, file);
  }
  if (const Status room = require_space(hub_cache_folder(), total - present); !room.ok()) {
    return tl::unexpected(room);
  }
  watch.begin(total - present, total);
  Pulled pulled;
  int64_t before = 0;
  for (const HubFile& file : chosen->files) {
    const Result<int64_t> fetched = download(
        connection, cache, file, file_url(connection, wanted.repository, *commit, file.path),
        wanted.repository + ": " + file.path,
        [&](int64_t done) { watch.progress(before + done, total); });
    if (!fetched) return tl::unexpected(fetched.error());
    if (const Status linked = cache.link(*commit, file); !linked.ok()) {
      return tl::unexpected(linked);
    }
    before += file.bytes;
    const fs::path path = cache.snapshot(*commit) / file.path;
    pulled.files.push_back({path.string(), file.bytes, file.hash, *fetched});
  }
  if (const Status noted = cache.set_main(*commit); !noted.ok()) return tl::unexpected(noted);
  pulled.path = path_of(cache.snapshot(*commit), *chosen);
  pulled.commit = *commit;
  return pulled;
}

}  // namespace infer::hub
