#include "engine/session/state_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/platform/files.h"
#include "engine/session/page_copy.h"

namespace infer {
namespace {

constexpr char kMagic[8] = {'I', 'N', 'F', 'E', 'R', 'S', 'E', 'S'};
constexpr uint32_t kVersion =
    4;  // since 3 keys are stored transposed, since 4 with roles of tokens
/// More tokens than any session drops. Added to the tokens that it holds, no overflow.
constexpr int64_t kMostShifted = int64_t{1} << 48;

uint64_t checksum_of(const StateHeader& header) {
  return XXH3_64bits(&header, offsetof(StateHeader, checksum));
}

}  // namespace

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { restart(); }
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->xxh); }
void Checksum::restart() { XXH3_64bits_reset(&state_->xxh); }

Result<StateReader> StateReader::open(const std::string& path) {
  StateReader reader(path);  // first what may throw, so that nothing stays open
  const os::Answer<int> opened = os::open_to_read(path);
  reader.fd_ = opened.value_or(-1);
  const os::Answer<os::FileInfo> info =
      opened ? os::examine(*opened) : tl::unexpected(opened.error());
  if (!info) {
    const bool absent = info.error() == std::errc::no_such_file_or_directory;
    return fail(absent ? StatusCode::not_found : StatusCode::io, "{}: {}", path,
                info.error().message());
  }
  if (info->kind != os::FileKind::regular) {
    return fail(StatusCode::io, "{}: expected a regular file, found {}", path,
                info->kind == os::FileKind::folder ? "a folder" : "a device, pipe or socket");
  }
  reader.size_ = static_cast<int64_t>(info->bytes);
  return reader;
}

StateReader::StateReader(StateReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      at_(other.at_),
      hash_(std::move(other.hash_)) {}

StateReader::~StateReader() { os::close_file(fd_); }

void StateReader::seek(int64_t at) {
  at_ = at;
  hash_.restart();
}

Status StateReader::read(std::span<std::byte> to) {
  while (!to.empty()) {
    const os::Answer<size_t> done = os::read_at(fd_, to, static_cast<uint64_t>(at_));
    if (!done) return error(StatusCode::io, "{}: {}", path_, done.error().message());
    if (*done == 0) return error(StatusCode::bad_file, "{}: the file ends too early", path_);
    hash_.add(to.first(*done));
    to = to.subspan(*done);
    at_ += static_cast<int64_t>(*done);
  }
  return {};
}

Result<StateHead> StateReader::read_head(uint64_t fingerprint, int64_t context,
                                         const PageForm& form) {
  StateHead head;
  StateHeader& header = head.header;
  if (size_ < static_cast<int64_t>(sizeof(StateHeader))) {
    return fail(StatusCode::bad_file, "{}: expected a saved session, found {} bytes", path_, size_);
  }
  INFER_CHECK_R(read(std::as_writable_bytes(std::span(&header, 1))));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return fail(StatusCode::bad_file, "{}: not a saved session", path_);
  }
  if (header.version != kVersion || header.page_tokens != kPageTokens) {
    return fail(StatusCode::unsupported,
                "{}: a session of version {} with pages of {} tokens, expected {} and {}", path_,
                header.version, header.page_tokens, kVersion, kPageTokens);
  }
  if (header.checksum != checksum_of(header)) {
    return fail(StatusCode::bad_file, "{}: the header's checksum is wrong", path_);
  }
  if (header.fingerprint != fingerprint) {
    return fail(StatusCode::invalid_argument,
                "{}: saved with another model, other adapters or another type of cache", path_);
  }
  if (header.tokens < 0 || header.cached < 0 || header.cached > header.tokens ||
      header.shifted < 0 || header.shifted > kMostShifted) {
    return fail(StatusCode::bad_file, "{}: the header is damaged: {} tokens, {} cached, {} dropped",
                path_, header.tokens, header.cached, header.shifted);
  }
  // One more: if a generation filled the context, its last token is held but not computed.
  if (header.tokens > context + 1) {
    return fail(StatusCode::does_not_fit, "{}: {} tokens do not fit: the context holds {}", path_,
                header.tokens, context);
  }
  head.first.resize(form.kinds());
  INFER_CHECK_R(read(std::as_writable_bytes(std::span(head.first))));
  int64_t size = static_cast<int64_t>(sizeof(StateHeader) + sizeof(uint64_t)) +
                 header.tokens * static_cast<int64_t>(sizeof(int32_t));
  for (size_t k = 0; k < form.kinds(); ++k) {
    const KvKind& kind = form.layout().kinds[k];
    if (head.first[k] < first_seen_page(kind, header.cached, kKvRollback) ||
        head.first[k] > first_seen_page(kind, header.cached, 0)) {
      return fail(StatusCode::bad_file,
                  "{}: the header is damaged: {} cached tokens, but pages from {} on", path_,
                  header.cached, head.first[k]);
    }
    size += static_cast<int64_t>(sizeof(int64_t)) +
            (kind.table_pages(header.cached) - head.first[k]) * form.page_bytes(k);
  }
  if (size != size_) {
    return fail(StatusCode::bad_file, "{}: expected {} bytes, found {}", path_, size, size_);
  }
  return head;
}

Result<uint64_t> StateReader::check_rest() {
  Checksum rest;
  std::vector<std::byte> part;
  for (int64_t end = size_ - static_cast<int64_t>(sizeof(uint64_t)); at_ < end;) {
    part.resize(static_cast<size_t>(std::min(end - at_, kPartBytes)));
    INFER_CHECK_R(read(part));
    rest.add(part);
  }
  const uint64_t expected = hash();
  uint64_t found = 0;
  INFER_CHECK_R(read(std::as_writable_bytes(std::span(&found, 1))));
  if (found == expected) return rest.value();
  return fail(StatusCode::bad_file, "{}: the checksum is wrong", path_);
}

Result<StateWriter> StateWriter::create(const std::string& path, StateHead head) {
  StateHeader& header = head.header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.page_tokens = kPageTokens;
  header.checksum = checksum_of(header);
  INFER_TRY(std::unique_ptr<AtomicFile> file,
            AtomicFile::create(path, AtomicFile::Access::user_only));
  StateWriter writer(std::move(file));
  INFER_CHECK_R(writer.write(std::as_bytes(std::span(&header, 1))));
  INFER_CHECK_R(writer.write(std::as_bytes(std::span(head.first))));
  return writer;
}

Status StateWriter::write(std::span<const std::byte> bytes) {
  hash_.add(bytes);
  return file_->write(bytes);
}

Status StateWriter::commit() {
  const uint64_t sum = hash_.value();
  INFER_CHECK(file_->write(std::as_bytes(std::span(&sum, 1))));
  return file_->commit();
}

}  // namespace infer
