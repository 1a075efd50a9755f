// The import of a file: what was read goes into the store in parts.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <streambuf>
#include <system_error>
#include <utility>

#include "conversations/import.h"
#include "conversations/limits.h"

namespace infer::conversations {
namespace {

/// How long one part uses the store.
constexpr std::chrono::milliseconds kPart{20};
/// So many bytes of texts are collected before they are written.
constexpr size_t kBatchBytes = 1 << 20;

/// A file that ends where the import is cancelled.
class WatchedFile final : public std::streambuf {
 public:
  WatchedFile(const std::string& path, ImportControl& control)
      : file_(path, std::ios::binary), failure_(file_ ? 0 : errno), control_(control) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(path, unknown);
    if (!unknown) size_ = static_cast<double>(size);
  }
  /// errno; 0: it is open.
  int failure() const { return failure_; }

 protected:
  int_type underflow() override {
    if (control_.is_cancelled) return traits_type::eof();
    file_.read(buffer_, sizeof(buffer_));
    if (file_.bad()) throw std::ios_base::failure("cannot read");  // the stream becomes bad
    const std::streamsize count = file_.gcount();
    read_ += static_cast<double>(count);
    if (size_ > 0) control_.share = std::min(1.0, read_ / size_);
    if (count == 0) return traits_type::eof();
    setg(buffer_, buffer_, buffer_ + count);
    return traits_type::to_int_type(*gptr());
  }

 private:
  std::ifstream file_;
  int failure_;
  ImportControl& control_;
  double size_ = 0, read_ = 0;
  char buffer_[1 << 16];
};

class FileImport {
 public:
  FileImport(const RunPart& run, ImportControl& control) : run_(run), control_(control) {}

  Result<ImportReport> read(std::istream& in, const std::string& name) {
    Status done = part([&](Store& store) -> Status {
      mark_ = store.begin_import();
      return {};
    });
    if (!done.ok()) return tl::unexpected(done);
    ImportSink sink;
    sink.conversation = [&](const ImportedConversation& conversation) {
      return take(conversation);
    };
    sink.preset = [&](const Preset& preset) { return take(preset, name); };
    Result<ImportReport> report = read_conversations(in, name, sink);
    done = report ? write() : report.error();
    if (done.ok()) {
      done = part(
          [&](Store& store) { return store.show_import(mark_, report->conversations, presets_); });
    }
    if (control_.is_cancelled && !done.ok()) done = cancelled();
    if (done.ok()) return report;
    // If this fails, the next opening of the store does it.
    (void)run_([&](Store& store) { return store.abandon_import(mark_); });
    return tl::unexpected(done);
  }

 private:
  static Status cancelled() { return {StatusCode::cancelled, "the import was cancelled"}; }

  Status part(const std::function<Status(Store&)>& work) {
    return control_.is_cancelled ? cancelled() : run_(work);
  }

  Status take(const ImportedConversation& conversation) {
    for (const Message& message : conversation.messages) {
      bytes_ += sizeof(message) + message.text.size() + message.reasoning.size();
    }
    bytes_ += sizeof(conversation) + conversation.conversation.system_prompt.size();
    batch_.push_back(conversation);
    return bytes_ < kBatchBytes ? Status() : write();
  }

  Status take(const Preset& preset, const std::string& name) {
    preset_bytes_ += sizeof(preset) + preset.system_prompt.size() + preset.settings.size();
    if (preset_bytes_ > kMaxImportedBytes) {
      return {StatusCode::bad_file,
              fmt::format("{}: presets: expected at most {} bytes", name, kMaxImportedBytes)};
    }
    presets_.push_back(preset);
    return {};
  }

  Status write() {
    ImportPlace place;
    Status done;
    while (done.ok() && place.conversation < batch_.size()) {
      done = part([&](Store& store) { return store.import_part(mark_, batch_, place, kPart); });
    }
    batch_.clear();
    bytes_ = 0;
    return done;
  }

  const RunPart& run_;
  ImportControl& control_;
  Time mark_ = 0;
  std::vector<ImportedConversation> batch_;
  size_t bytes_ = 0;
  std::vector<Preset> presets_;
  size_t preset_bytes_ = 0;
};

}  // namespace

Result<ImportReport> import_file(const RunPart& run, const std::string& path,
                                 ImportControl& control) {
  // Opening a pipe would wait for its other end.
  std::error_code failed;
  const std::filesystem::file_status kind = std::filesystem::status(path, failed);
  if (std::filesystem::exists(kind) && !std::filesystem::is_regular_file(kind)) {
    return tl::unexpected(
        Status(StatusCode::io, fmt::format("{}: cannot open the file: not a file", path)));
  }
  WatchedFile file(path, control);
  if (file.failure() != 0) {
    return tl::unexpected(
        Status(StatusCode::not_found,
               fmt::format("{}: cannot open the file: {}", path, strerror(file.failure()))));
  }
  std::istream in(&file);
  return FileImport(run, control).read(in, path);
}

Result<ImportReport> import_file(Store& store, const std::string& path) {
  ImportControl control;
  Result<ImportReport> report = import_file(
      [&](const std::function<Status(Store&)>& part) { return part(store); }, path, control);
  while (store.needs_cleaning() && store.clean(kPart).ok()) {
  }
  return report;
}

}  // namespace infer::conversations
