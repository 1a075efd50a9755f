#include "engine/session/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "engine/core/atomic_file.h"

namespace infer {
namespace {

constexpr char kMagic[8] = {'I', 'N', 'F', 'E', 'R', 'S', 'E', 'S'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPart = size_t{1} << 20;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t page_tokens;
  uint64_t fingerprint;
  int64_t tokens;
  int64_t cached;
  int64_t shifted;
  uint64_t seed;
};
static_assert(sizeof(Header) == 56);

class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(const void* data, size_t bytes) { XXH3_64bits_update(&state_, data, bytes); }
  template <typename T>
  void add(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    add(&value, sizeof(value));
  }
  void add(const std::string& text) {
    add(text.size());
    add(text.data(), text.size());
  }
  uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

/// A file from its beginning, hashed as it is read.
class Reader {
 public:
  static Result<Reader> open(const std::string& path) {
    Reader reader(path);
    if (reader.file_ == nullptr) {
      return fail(errno == ENOENT ? StatusCode::not_found : StatusCode::io, "{}: {}", path,
                  std::generic_category().message(errno));
    }
    return reader;
  }

  Status read(void* to, size_t bytes) {
    errno = 0;
    if (std::fread(to, 1, bytes, file_.get()) != bytes) {
      if (std::ferror(file_.get()) != 0) {
        return error(StatusCode::io, "{}: {}", path_, std::generic_category().message(errno));
      }
      return error(StatusCode::bad_file, "{}: the file ends too early", path_);
    }
    hash_.add(to, bytes);
    return {};
  }
  const Hash& hash() const { return hash_; }
  bool at_end() { return std::fgetc(file_.get()) == EOF; }
  Result<int64_t> size() {
    if (std::fseek(file_.get(), 0, SEEK_END) != 0) return not_seekable();
    const int64_t size = std::ftell(file_.get());
    if (size < 0 || std::fseek(file_.get(), 0, SEEK_SET) != 0) return not_seekable();
    return size;
  }

 private:
  explicit Reader(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "rbe"), &std::fclose) {}
  tl::unexpected<Status> not_seekable() const {
    return fail(StatusCode::io, "{}: expected a regular file", path_);
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  Hash hash_;
};

/// The header, after the whole file has been found undamaged.
Result<Header> check_file(const std::string& path, uint64_t fingerprint) {
  INFER_TRY(Reader reader, Reader::open(path));
  INFER_TRY(const int64_t size, reader.size());
  Header header;
  if (size < static_cast<int64_t>(sizeof(Header) + sizeof(uint64_t))) {
    return fail(StatusCode::bad_file, "{}: expected a saved session, found {} bytes", path, size);
  }
  INFER_CHECK_R(reader.read(&header, sizeof(header)));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return fail(StatusCode::bad_file, "{}: not a saved session", path);
  }
  if (header.version != kVersion || header.page_tokens != kPageTokens) {
    return fail(StatusCode::unsupported,
                "{}: a session of version {} with pages of {} tokens, expected {} and {}", path,
                header.version, header.page_tokens, kVersion, kPageTokens);
  }
  std::vector<std::byte> part(kPart);
  for (int64_t left = size - static_cast<int64_t>(sizeof(Header) + sizeof(uint64_t)); left > 0;) {
    const auto take = static_cast<size_t>(std::min<int64_t>(left, kPart));
    INFER_CHECK_R(reader.read(part.data(), take));
    left -= static_cast<int64_t>(take);
  }
  const uint64_t expected = reader.hash().value();
  uint64_t found = 0;
  INFER_CHECK_R(reader.read(&found, sizeof(found)));
  if (found != expected) return fail(StatusCode::bad_file, "{}: the checksum is wrong", path);
  if (header.fingerprint != fingerprint) {
    return fail(StatusCode::invalid_argument,
                "{}: saved with another model or another type of cache", path);
  }
  const int64_t most = size / static_cast<int64_t>(sizeof(int32_t));
  if (header.tokens < 0 || header.tokens > most || header.cached < 0 ||
      header.cached > header.tokens || header.shifted < 0) {
    return fail(StatusCode::bad_file, "{}: {} tokens, {} of them cached, in {} bytes", path,
                header.tokens, header.cached, size);
  }
  return header;
}

}  // namespace

Result<uint64_t> model_fingerprint(const WeightSource& source, const KvGeometry& geometry,
                                   const KvLayout& layout) {
  Hash hash;
  hash.add(geometry.k_type);
  hash.add(geometry.v_type);
  for (const KvKind& kind : layout.kinds) {
    hash.add(kind.window);
    hash.add(kind.page_bytes);
  }
  std::byte first[256];
  for (const Weight& weight : source.weights()) {
    hash.add(weight.name);
    hash.add(weight.desc.type);
    for (const int64_t n : weight.desc.shape) hash.add(n);
    const auto bytes =
        static_cast<size_t>(std::min<int64_t>(weight.desc.extent_bytes(), sizeof(first)));
    INFER_CHECK_R(source.read(weight.place, 0, std::span(first).first(bytes)));
    hash.add(first, bytes);
  }
  return hash.value();
}

Status save_state(const std::string& path, uint64_t fingerprint, const SessionState& state,
                  Device& device, const KvCache& cache, KvCache::SequenceId id) {
  INFER_TRY_S(const std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  Hash hash;
  const auto put = [&](const void* data, size_t bytes) {
    hash.add(data, bytes);
    return file->write({static_cast<const std::byte*>(data), bytes});
  };
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.page_tokens = kPageTokens;
  header.fingerprint = fingerprint;
  header.tokens = static_cast<int64_t>(state.tokens.size());
  header.cached = state.cached;
  header.shifted = state.shifted;
  header.seed = state.seed;
  INFER_CHECK(put(&header, sizeof(header)));
  INFER_CHECK(put(state.tokens.data(), state.tokens.size() * sizeof(int32_t)));
  std::vector<std::byte> page;
  INFER_CHECK(cache.for_each_page(id, [&](size_t, int64_t, const MemoryRef& memory, int64_t bytes) {
    page.resize(static_cast<size_t>(bytes));
    if (Status read = device.read(memory, page); !read.ok()) return read;
    return put(page.data(), page.size());
  }));
  const uint64_t sum = hash.value();
  INFER_CHECK(put(&sum, sizeof(sum)));
  return file->commit();
}

Result<SessionState> restore_state(const std::string& path, uint64_t fingerprint,
                                   int64_t vocabulary, Device& device, KvCache& cache,
                                   KvCache::SequenceId id) {
  INFER_TRY(Header header, check_file(path, fingerprint));
  INFER_TRY(Reader reader, Reader::open(path));
  Header again;
  INFER_CHECK_R(reader.read(&again, sizeof(again)));
  if (std::memcmp(&again, &header, sizeof(header)) != 0) {
    return fail(StatusCode::io, "{}: the file was changed while it was read", path);
  }
  SessionState state;
  state.cached = header.cached;
  state.shifted = header.shifted;
  state.seed = header.seed;
  state.tokens.resize(static_cast<size_t>(header.tokens));
  INFER_CHECK_R(reader.read(state.tokens.data(), state.tokens.size() * sizeof(int32_t)));
  for (const int32_t token : state.tokens) {
    if (token >= 0 && token < vocabulary) continue;
    return fail(StatusCode::bad_file, "{}: token {} is not in the vocabulary of 0 to {}", path,
                token, vocabulary - 1);
  }
  std::vector<std::byte> page;
  INFER_CHECK_R(cache.restore(id, std::span(state.tokens).first(static_cast<size_t>(state.cached)),
                              [&](size_t, int64_t, const MemoryRef& memory, int64_t bytes) {
                                page.resize(static_cast<size_t>(bytes));
                                if (Status read = reader.read(page.data(), page.size()); !read.ok())
                                  return read;
                                return device.write(page, memory);
                              }));
  const uint64_t expected = reader.hash().value();
  uint64_t found = 0;
  Status end = reader.read(&found, sizeof(found));
  if (end.ok() && (found != expected || !reader.at_end())) {
    end = error(StatusCode::bad_file, "{}: not the pages of {} tokens", path, header.cached);
  }
  if (!end.ok()) {
    cache.rollback(id, 0);
    return tl::unexpected(std::move(end));
  }
  return state;
}

}  // namespace infer
