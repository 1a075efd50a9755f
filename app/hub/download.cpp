#include "hub/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <system_error>
#include <thread>

#include "hub/hasher.h"
#include "platform/files.h"

namespace infer::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxRestarts = 3;

using platform::OpenFile;

Status cannot(const char* what, const fs::path& path, int code) {
  return {StatusCode::io, fmt::format("{}: cannot {}: {}", path.string(), what,
                                      std::generic_category().message(code))};
}

int64_t size_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return -1;
  const uintmax_t bytes = fs::file_size(path, failed);
  return failed ? -1 : static_cast<int64_t>(bytes);
}

fs::path part_of(const HubCache& cache, const HubFile& file) {
  return cache.blob(file.hash + ".incomplete");
}

/// The lock of a file. Waits while another process holds it.
Result<std::unique_ptr<OpenFile>> take_lock(const Connection& connection, const fs::path& path,
                                            const std::string& what) {
  for (bool told = false;;) {
    auto file = std::make_unique<OpenFile>(path, 0644, true);
    if (file->failure() != 0) return tl::unexpected(cannot("open", path, file->failure()));
    while (const int failed = file->try_lock()) {
      if (failed != EWOULDBLOCK) return tl::unexpected(cannot("lock", path, failed));
      if (!told && connection.note) {
        connection.note(what + ": another program downloads it; waiting");
      }
      told = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (connection.stop()) return tl::unexpected(Status(StatusCode::cancelled, "interrupted"));
    }
    // Whoever held the lock may have removed the file.
    if (file->is_named(path)) return file;
  }
}

/// Whether a Content-Range ("bytes 5-9/10") is what is missing of a file of that many bytes.
bool is_rest(const std::string& range, int64_t from, int64_t bytes) {
  return range == fmt::format("bytes {}-{}/{}", from, bytes - 1, bytes) ||
         range == fmt::format("bytes {}-{}/*", from, bytes - 1);
}

/// A file that grows, with the hash of what it holds.
class Part {
 public:
  Part(const HubFile& file, const fs::path& path)
      : file_(file), path_(path), out_(path, 0666, false) {
    if (out_.failure() != 0) status_ = cannot("open", path, out_.failure());
  }

  int64_t size() const { return size_; }
  bool whole() const { return size_ == file_.bytes; }
  const Status& status() const { return status_; }

  /// Takes over what an earlier attempt left, and hashes it.
  void take_over(const Connection& connection) {
    if (size_of(path_) > file_.bytes) clear();
    std::vector<char> bytes(1 << 20);
    while (status_.ok() && !connection.stop()) {
      size_t count = 0;
      if (const int failed = out_.read(bytes, count)) status_ = cannot("read", path_, failed);
      if (count == 0) return;
      hash_->add({bytes.data(), count});
      size_ += static_cast<int64_t>(count);
    }
  }

  void clear() {
    hash_ = std::make_unique<Hasher>(file_.hash.size(), file_.bytes);
    size_ = 0;
    if (const int failed = out_.clear()) status_ = cannot("write", path_, failed);
  }

  /// False where that is too much or cannot be written; status() then says why.
  bool add(std::span<const char> bytes) {
    if (static_cast<int64_t>(bytes.size()) > file_.bytes - size_) {
      status_ = {StatusCode::bad_file,
                 fmt::format("the server sends more than the {} bytes of the file", file_.bytes)};
      return false;
    }
    while (!bytes.empty()) {
      size_t count = 0;
      if (const int failed = out_.write(bytes, count)) {
        status_ = cannot("write", path_, failed);
        return false;
      }
      hash_->add(bytes.subspan(0, count));
      bytes = bytes.subspan(count);
      size_ += static_cast<int64_t>(count);
    }
    return true;
  }

  void remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }

  /// Checks the hash and gives the file its name.
  Status commit(const fs::path& to, const std::string& what) {
    const std::string found = hash_->finish();
    if (found != file_.hash) {
      remove();
      return {StatusCode::bad_file,
              fmt::format("{}: the downloaded file has the hash {}, expected {}; it was removed",
                          what, found, file_.hash)};
    }
    if (const int failed = out_.sync()) return cannot("write", path_, failed);
    std::error_code failed;
    fs::rename(path_, to, failed);
    if (failed) return cannot("write", to, failed.value());
    platform::sync_folder(to.parent_path());
    return {};
  }

 private:
  const HubFile& file_;
  fs::path path_;
  OpenFile out_;
  Status status_;
  int64_t size_ = 0;
  std::unique_ptr<Hasher> hash_ = std::make_unique<Hasher>(file_.hash.size(), file_.bytes);
};

}  // namespace

int64_t bytes_present(const HubCache& cache, const HubFile& file) {
  if (size_of(cache.blob(file.hash)) == file.bytes) return file.bytes;
  return std::clamp<int64_t>(size_of(part_of(cache, file)), 0, file.bytes);
}

Result<int64_t> download(const Connection& connection, const HubCache& cache, const HubFile& file,
                         const std::string& url, const std::string& what,
                         const std::function<void(int64_t)>& progress) {
  const fs::path blob = cache.blob(file.hash);
  if (size_of(blob) == file.bytes) return 0;
  const auto lock = take_lock(connection, cache.lock(file.hash), what);
  if (!lock) return tl::unexpected(lock.error());
  if (size_of(blob) == file.bytes) return 0;  // whoever held the lock has made it
  Part part(file, part_of(cache, file));
  if (part.status().ok()) part.take_over(connection);
  int64_t fetched = 0;
  int restarts = 0;
  const auto named = [&](const Status& status) {
    return tl::unexpected(Status(status.code(), what + ": " + status.message()));
  };
  for (Attempts attempts(connection); part.status().ok() && !part.whole();) {
    progress(part.size());
    const int64_t from = part.size();
    Exchange exchange{url};
    if (from > 0) exchange.headers.push_back(fmt::format("Range: bytes={}-", from));
    bool refused = false;
    Status wrong;
    exchange.begin = [&](const Answer& answer) {
      if (answer.status == 206 && from > 0) {
        refused = !is_rest(answer.header("content-range"), from, file.bytes);
        return !refused;
      }
      refused = from > 0 && answer.status == 416;
      if (answer.status != 200) return false;
      const std::string length = answer.header("content-length");
      if (!length.empty() && length != std::to_string(file.bytes)) {
        wrong = {StatusCode::bad_file,
                 fmt::format("the server's file has {} bytes, expected {}", length, file.bytes)};
        return false;
      }
      if (from > 0) part.clear();
      restarts += from > 0 ? 1 : 0;
      return part.status().ok();
    };
    exchange.data = [&](std::span<const char> bytes) {
      const int64_t before = part.size();
      const bool added = part.add(bytes);
      fetched += part.size() - before;
      if (part.size() > before) attempts.progressed();
      progress(part.size());
      return added;
    };
    Transfer result = request(connection, std::move(exchange));
    if (!wrong.ok()) return named(wrong);
    if (!part.status().ok() || part.whole()) break;
    if (refused) {
      part.clear();
      if (++restarts <= kMaxRestarts) continue;
    }
    if (result.end == End::complete) {
      result.end = End::interrupted;
      result.problem =
          fmt::format("the download ended after {} of {} bytes", part.size(), file.bytes);
    }
    if (restarts > kMaxRestarts || !attempts.again(result)) {
      return tl::unexpected(failure_of(connection, result, what));
    }
  }
  if (!part.status().ok()) {
    if (part.status().code() == StatusCode::bad_file) {
      part.remove();
      return named(part.status());
    }
    return tl::unexpected(
        Status(part.status().code(),
               part.status().message() +
                   "; the downloaded part is kept, and the same command continues from there"));
  }
  if (const Status done = part.commit(blob, what); !done.ok()) return tl::unexpected(done);
  return fetched;
}

}  // namespace infer::hub
