#include "hub/hub_api.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "hub/bounded_json.h"

namespace infer::hub {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxPageBytes = 4 << 20;
constexpr int kMaxPages = 100;
constexpr size_t kMostListed = 100'000;
constexpr int kMaxLevels = 20;
/// 32 TiB: the sum of as many as are listed fits into 64 bits.
constexpr int64_t kMaxFileBytes = int64_t{1} << 45;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// A size in bytes; −1 if it is none.
int64_t bytes_of(const Json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_unsigned()) return -1;
  const auto bytes = found->get<uint64_t>();
  return bytes <= static_cast<uint64_t>(kMaxFileBytes) ? static_cast<int64_t>(bytes) : -1;
}

/// Whether a file of that name could be chosen.
bool is_of_use(std::string_view path) {
  for (const std::string_view ending : {".gguf", ".GGUF", ".safetensors", ".json", ".jinja"}) {
    if (path.ends_with(ending)) return true;
  }
  return path == "tokenizer.model" || path == "tokenizer.jsonl";
}

Status wrong(const std::string& repository, const std::string& expected) {
  return {StatusCode::bad_file,
          fmt::format("{}: the hub's list of files is wrong: expected {}", repository, expected)};
}

Status add_entry(const std::string& repository, const Json& entry, std::vector<HubFile>& files) {
  if (!entry.is_object()) return wrong(repository, "objects");
  if (text_of(entry, "type") != "file") return {};
  HubFile file;
  file.path = text_of(entry, "path");
  if (!is_of_use(file.path)) return {};
  if (!is_safe_path(file.path)) return {};  // nothing that is chosen
  const auto lfs = entry.find("lfs");
  const bool large = lfs != entry.end() && lfs->is_object();
  const Json& of = large ? *lfs : entry;
  file.bytes = bytes_of(of);
  file.hash = text_of(of, "oid");
  if (constexpr std::string_view kPrefix = "sha256:"; file.hash.starts_with(kPrefix)) {
    file.hash.erase(0, kPrefix.size());
  }
  if (file.bytes < 0) return wrong(repository, file.path + ": a size in bytes");
  if (!is_hash(file.hash) || file.hash.size() != (large ? 64U : 40U)) {
    return wrong(repository, file.path + ": a hash (oid)");
  }
  files.push_back(std::move(file));
  return {};
}

/// The address of <…>; rel="next" in a Link header; empty: there is none.
std::string next_of(const std::string& link) {
  const size_t rel = link.find("rel=\"next\"");
  if (rel == std::string::npos) return {};
  const size_t begin = link.rfind('<', rel);
  if (begin == std::string::npos) return {};
  const size_t end = link.find('>', begin);
  return end < rel ? link.substr(begin + 1, end - begin - 1) : std::string();
}

std::string escaped_path(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string text;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain) {
      text += c;
    } else {
      text += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

/// An ETag without its quotation marks.
std::string plain_tag(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

}  // namespace

Result<std::vector<HubFile>> list_files(const Connection& connection,
                                        const std::string& repository) {
  const std::optional<Url> endpoint = parse_url("", connection.endpoint);
  std::vector<HubFile> files;
  std::string url =
      fmt::format("{}/api/models/{}/tree/main?recursive=true", connection.endpoint, repository);
  size_t entries = 0;
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMaxPages) return tl::unexpected(wrong(repository, "fewer pages"));
    Answer answer;
    const Result<std::string> text = get_text(connection, url, kMaxPageBytes, repository, answer);
    if (!text) return tl::unexpected(text.error());
    const std::optional<Json> list = parse_bounded<Json>(*text, kMaxLevels);
    if (!list || !list->is_array()) return tl::unexpected(wrong(repository, "a JSON array"));
    entries += list->size();
    if (entries > kMostListed) return tl::unexpected(wrong(repository, "fewer files"));
    for (const Json& entry : *list) {
      if (const Status added = add_entry(repository, entry, files); !added.ok()) {
        return tl::unexpected(added);
      }
    }
    const std::string next = next_of(answer.header("link"));
    if (next.empty()) break;
    const std::optional<Url> followed = parse_url(url, next);
    if (!followed || !endpoint || followed->origin != endpoint->origin) {
      return tl::unexpected(wrong(repository, "its next page on the same host"));
    }
    url = followed->whole;
  }
  return files;
}

Result<std::string> find_commit(const Connection& connection, const std::string& repository,
                                const HubFile& file) {
  const std::string what = repository + ": " + file.path;
  const Result<Answer> head =
      get_head(connection, file_url(connection, repository, "main", file.path), what);
  if (!head) return tl::unexpected(head.error());
  const std::string commit = head->header("x-repo-commit");
  if (!is_hash(commit)) {
    return tl::unexpected(
        Status(StatusCode::bad_file, what + ": the hub names no commit (X-Repo-Commit)"));
  }
  const std::string linked = head->header("x-linked-etag");
  const std::string tag = plain_tag(linked.empty() ? head->header("etag") : linked);
  // Other servers than the hub may give tags of their own kind.
  if (is_hash(tag) && tag.size() == file.hash.size() && tag != file.hash) {
    return tl::unexpected(
        Status(StatusCode::io, what + ": changed on the hub just now; try again"));
  }
  return commit;
}

std::string file_url(const Connection& connection, const std::string& repository,
                     const std::string& revision, const std::string& path) {
  return fmt::format("{}/{}/resolve/{}/{}", connection.endpoint, repository, revision,
                     escaped_path(path));
}

}  // namespace infer::hub
