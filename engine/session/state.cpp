#include "engine/session/state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "engine/core/atomic_file.h"
#include "engine/core/checked.h"
#include "engine/session/fingerprint.h"
#include "engine/session/page_form.h"

namespace infer {
namespace {

constexpr char kMagic[8] = {'I', 'N', 'F', 'E', 'R', 'S', 'E', 'S'};
constexpr uint32_t kVersion = 4;  // 3: keys lie across; 4: roles of tokens
/// What is read, hashed or copied at a time; of pages at least one.
constexpr int64_t kPartBytes = int64_t{4} << 20;
/// More tokens than any session has ever dropped; with those it holds the sum stays countable.
constexpr int64_t kMostShifted = int64_t{1} << 48;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t page_tokens;
  uint64_t fingerprint;
  int64_t tokens;
  int64_t cached;
  int64_t shifted;
  uint64_t seed;
  uint64_t checksum;  ///< of the header before it
};
static_assert(sizeof(Header) == 64);

uint64_t checksum_of(const Header& header) {
  return XXH3_64bits(&header, offsetof(Header, checksum));
}

/// Pages of a sequence in the file's order.
struct PagePlace {
  size_t kind;
  int64_t page;
};

std::vector<PagePlace> places_of(std::span<const int64_t> first, int64_t length) {
  std::vector<PagePlace> places;
  for (size_t k = 0; k < first.size(); ++k) {
    for (int64_t page = first[k]; page < div_ceil<int64_t>(length, kPageTokens); ++page) {
      places.push_back({k, page});
    }
  }
  return places;
}

Result<uint64_t> fingerprint_of(const Engine::Impl& engine) {
  const std::lock_guard lock(engine.placed_mutex);
  return model_fingerprint(engine.opened);
}

Result<PageForm> form_of(const Engine::Impl& engine) {
  const std::lock_guard lock(engine.placed_mutex);
  INFER_CHECK_R(engine.broken);  // there is no cache then
  const PlanRequest& request = engine.opened.request;
  return PageForm(
      canonical_kv_layout({engine.opened.model->info().kv_layers, request.k_type, request.v_type}),
      engine.opened.plan.kv_layout);
}

/// Calls fn(places, bytes) for parts of the places and as large a buffer as their pages are.
template <typename Fn>
Status for_each_part(const PageForm& form, std::span<const PagePlace> places, Fn fn) {
  std::vector<std::byte> buffer;
  while (!places.empty()) {
    size_t count = 0;
    int64_t bytes = 0;
    do {
      bytes += form.page_bytes(places[count++].kind);
    } while (count < places.size() && bytes + form.page_bytes(places[count].kind) <= kPartBytes);
    buffer.resize(static_cast<size_t>(bytes));
    INFER_CHECK(fn(places.first(count), std::span(buffer)));
    places = places.subspan(count);
  }
  return {};
}

/// Calls copy(place, bytes) for pages and their places in a buffer, on the engine's thread.
/// False if the sequence no longer has its `length` tokens there: others needed the memory.
template <typename Copy>
Result<bool> copy_part(Engine::Impl& engine, const PageForm& form, KvCache::SequenceId id,
                       int64_t length, std::span<const PagePlace> places,
                       std::span<std::byte> buffer, Copy copy) {
  bool there = false;
  Status status;
  engine.thread->call([&] {
    there = engine.cache->length(id) == length;
    for (size_t i = 0; there && i < places.size() && status.ok(); ++i) {
      const auto bytes = static_cast<size_t>(form.page_bytes(places[i].kind));
      status = copy(places[i], buffer.first(bytes));
      buffer = buffer.subspan(bytes);
    }
  });
  INFER_CHECK_R(std::move(status));
  return there;
}

/// Zeroes what a page of which `used` slots are written holds behind them: it may be another's.
void clear_behind(const KvLayout& layout, size_t kind, int64_t used, std::span<std::byte> page) {
  // Of every kPageTokens rows those behind the first `used` ones.
  const auto clear = [&](int64_t begin, int64_t end, int64_t row) {
    for (int64_t head = begin; head + row * kPageTokens <= end; head += row * kPageTokens) {
      std::ranges::fill(page.subspan(static_cast<size_t>(head + row * used),
                                     static_cast<size_t>(row * (kPageTokens - used))),
                        std::byte{0});
    }
  };
  auto end = static_cast<int64_t>(page.size());
  for (size_t i = layout.layers.size(); i-- > 0;) {
    const KvLayerLayout& layer = layout.layers[i];
    if (static_cast<size_t>(layer.kind) != kind) continue;
    clear(layer.v_offset, end, layer.v_row);
    clear(layer.k_offset, layer.v_offset, layer.k_element > 0 ? layer.k_element : layer.k_row);
    end = layer.k_offset;
  }
}

/// A regular file, hashed as it is read.
class Reader {
 public:
  static Result<Reader> open(const std::string& path) {
    Reader reader(path);  // first what may throw, so that nothing stays open
    // Opening a pipe would otherwise wait for its writer.
    reader.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info {};
    if (reader.fd_ < 0 || ::fstat(reader.fd_, &info) != 0) {
      return fail(errno == ENOENT ? StatusCode::not_found : StatusCode::io, "{}: {}", path,
                  std::generic_category().message(errno));
    }
    if (!S_ISREG(info.st_mode)) {
      return fail(StatusCode::io, "{}: expected a regular file, found {}", path,
                  S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
    }
    reader.size_ = info.st_size;
    return reader;
  }
  Reader(Reader&& other) noexcept
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        size_(other.size_),
        at_(other.at_),
        hash_(other.hash_) {}
  Reader& operator=(Reader&&) = delete;
  ~Reader() {
    if (fd_ >= 0) ::close(fd_);
  }

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }
  uint64_t hash() const { return XXH3_64bits_digest(&hash_); }
  int64_t at() const { return at_; }
  /// What is hashed begins there.
  void seek(int64_t at) {
    at_ = at;
    XXH3_64bits_reset(&hash_);
  }

  template <typename T>
  Status read(std::span<T> to) {
    std::span<std::byte> left = std::as_writable_bytes(to);
    while (!left.empty()) {
      const ssize_t done = ::pread(fd_, left.data(), left.size(), at_);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) {
        return error(StatusCode::io, "{}: {}", path_, std::generic_category().message(errno));
      }
      if (done == 0) return error(StatusCode::bad_file, "{}: the file ends too early", path_);
      XXH3_64bits_update(&hash_, left.data(), static_cast<size_t>(done));
      left = left.subspan(static_cast<size_t>(done));
      at_ += done;
    }
    return {};
  }

 private:
  explicit Reader(std::string path) : path_(std::move(path)) { seek(0); }

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
  int64_t at_ = 0;
  XXH3_state_t hash_;
};

/// What comes before the tokens.
struct Head {
  Header header{};
  std::vector<int64_t> first;  ///< by kind
};

/// Reads it. The file is then as long as it says, and what it says can be.
Result<Head> read_head(Reader& reader, const Engine::Impl& engine, const PageForm& form) {
  const std::string& path = reader.path();
  Head head;
  Header& header = head.header;
  if (reader.size() < static_cast<int64_t>(sizeof(Header))) {
    return fail(StatusCode::bad_file, "{}: expected a saved session, found {} bytes", path,
                reader.size());
  }
  INFER_CHECK_R(reader.read(std::span(&header, 1)));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return fail(StatusCode::bad_file, "{}: not a saved session", path);
  }
  if (header.version != kVersion || header.page_tokens != kPageTokens) {
    return fail(StatusCode::unsupported,
                "{}: a session of version {} with pages of {} tokens, expected {} and {}", path,
                header.version, header.page_tokens, kVersion, kPageTokens);
  }
  if (header.checksum != checksum_of(header)) {
    return fail(StatusCode::bad_file, "{}: the header's checksum is wrong", path);
  }
  INFER_TRY(const uint64_t fingerprint, fingerprint_of(engine));
  if (header.fingerprint != fingerprint) {
    return fail(StatusCode::invalid_argument,
                "{}: saved with another model or another type of cache", path);
  }
  if (header.tokens < 0 || header.cached < 0 || header.cached > header.tokens ||
      header.shifted < 0 || header.shifted > kMostShifted) {
    return fail(StatusCode::bad_file, "{}: the header is damaged: {} tokens, {} cached, {} dropped",
                path, header.tokens, header.cached, header.shifted);
  }
  // The last token of a generation that filled the context is held and not computed.
  const int64_t context = engine.cache_options.context;
  if (header.tokens > context + 1) {
    return fail(StatusCode::does_not_fit, "{}: {} tokens do not fit: the context holds {}", path,
                header.tokens, context);
  }
  head.first.resize(form.kinds());
  INFER_CHECK_R(reader.read(std::span(head.first)));
  int64_t size = static_cast<int64_t>(sizeof(Header) + sizeof(uint64_t)) +
                 header.tokens * static_cast<int64_t>(sizeof(int32_t));
  for (size_t k = 0; k < form.kinds(); ++k) {
    const KvKind& kind = form.layout().kinds[k];
    if (head.first[k] < first_seen_page(kind, header.cached, kKvRollback) ||
        head.first[k] > first_seen_page(kind, header.cached, 0)) {
      return fail(StatusCode::bad_file,
                  "{}: the header is damaged: {} cached tokens, but pages from {} on", path,
                  header.cached, head.first[k]);
    }
    size += static_cast<int64_t>(sizeof(int64_t)) +
            (div_ceil<int64_t>(header.cached, kPageTokens) - head.first[k]) * form.page_bytes(k);
  }
  if (size != reader.size()) {
    return fail(StatusCode::bad_file, "{}: expected {} bytes, found {}", path, size, reader.size());
  }
  return head;
}

/// Reads on to the end, where the checksum has to be that of the whole file. Returns that of the
/// pages.
Result<uint64_t> check_rest(Reader& reader) {
  XXH3_state_t pages;
  XXH3_64bits_reset(&pages);
  std::vector<std::byte> part;
  for (int64_t end = reader.size() - static_cast<int64_t>(sizeof(uint64_t)); reader.at() < end;) {
    part.resize(static_cast<size_t>(std::min(end - reader.at(), kPartBytes)));
    INFER_CHECK_R(reader.read(std::span(part)));
    XXH3_64bits_update(&pages, part.data(), part.size());
  }
  const uint64_t expected = reader.hash();
  uint64_t found = 0;
  INFER_CHECK_R(reader.read(std::span(&found, 1)));
  if (found == expected) return XXH3_64bits_digest(&pages);
  return fail(StatusCode::bad_file, "{}: the checksum is wrong", reader.path());
}

/// Writes the file, with pages or without. Null if others took the pages meanwhile.
Result<std::unique_ptr<AtomicFile>> write_state(Engine::Impl& engine, const std::string& path,
                                                uint64_t fingerprint, const SessionState& state,
                                                KvCache::SequenceId id, bool with_pages) {
  INFER_TRY(PageForm form, form_of(engine));
  Head head;
  Header& header = head.header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.page_tokens = kPageTokens;
  header.fingerprint = fingerprint;
  header.tokens = static_cast<int64_t>(state.tokens.size());
  header.shifted = state.shifted;
  header.seed = state.seed;
  head.first.resize(form.kinds());
  if (with_pages) {
    engine.thread->call([&] {
      const KvCache& cache = *engine.cache;
      if (cache.kinds() != form.kept_kinds()) return;  // it has moved to another device: empty
      header.cached = cache.length(id);
      for (size_t k = 0; k < form.kinds(); ++k) head.first[k] = form.first_page(cache, id, k);
    });
  }
  header.checksum = checksum_of(header);

  INFER_TRY(std::unique_ptr<AtomicFile> file,
            AtomicFile::create(path, AtomicFile::Access::user_only));
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  const auto put = [&](auto data) {
    const std::span<const std::byte> bytes = std::as_bytes(data);
    XXH3_64bits_update(&hash, bytes.data(), bytes.size());
    return file->write(bytes);
  };
  INFER_CHECK_R(put(std::span(&header, 1)));
  INFER_CHECK_R(put(std::span(head.first)));
  std::vector<int32_t> tokens = state.tokens;
  for (size_t t = 0; t < state.generated.size(); ++t) {
    if (state.generated[t]) tokens[t] = ~tokens[t];
  }
  INFER_CHECK_R(put(std::span<const int32_t>(tokens)));
  bool there = true;
  const std::vector<PagePlace> places = places_of(head.first, header.cached);
  const auto write_part = [&](std::span<const PagePlace> part, std::span<std::byte> bytes) {
    if (!there) return Status();
    const auto copy = [&](const PagePlace& place, std::span<std::byte> to) {
      return form.read(*engine.cache, id, place.kind, place.page, to);
    };
    INFER_TRY_S(there, copy_part(engine, form, id, header.cached, part, bytes, copy));
    std::span<std::byte> left = bytes;
    for (const PagePlace& place : part) {
      const auto page = left.first(static_cast<size_t>(form.page_bytes(place.kind)));
      const int64_t used = header.cached - place.page * kPageTokens;
      if (used < kPageTokens) clear_behind(form.layout(), place.kind, used, page);
      left = left.subspan(page.size());
    }
    return put(bytes);
  };
  INFER_CHECK_R(for_each_part(form, places, write_part));
  if (!there) return nullptr;
  const uint64_t sum = XXH3_64bits_digest(&hash);
  INFER_CHECK_R(put(std::span(&sum, 1)));
  return file;
}

}  // namespace

CacheSequence::CacheSequence(Engine::Impl& engine) : id(engine.add_sequence()), engine_(engine) {}

CacheSequence::~CacheSequence() { engine_.remove_sequence(id); }

Status save_state(Engine::Impl& engine, const std::string& path, const SessionState& state,
                  KvCache::SequenceId id) {
  INFER_TRY_S(const uint64_t fingerprint, fingerprint_of(engine));
  for (const bool with_pages : {true, false}) {
    INFER_TRY_S(const std::unique_ptr<AtomicFile> file,
                write_state(engine, path, fingerprint, state, id, with_pages));
    if (file != nullptr) return file->commit();
  }
  return {};
}

Result<SessionState> restore_state(Engine::Impl& engine, const std::string& path,
                                   KvCache::SequenceId id) {
  INFER_TRY(Reader reader, Reader::open(path));
  INFER_TRY(PageForm form, form_of(engine));
  INFER_TRY(const Head head, read_head(reader, engine, form));
  SessionState state;
  state.shifted = head.header.shifted;
  state.seed = head.header.seed;
  state.tokens.resize(static_cast<size_t>(head.header.tokens));
  INFER_CHECK_R(reader.read(std::span(state.tokens)));
  const int64_t pages_at = reader.at();
  INFER_TRY(const uint64_t checksum, check_rest(reader));
  const int64_t vocabulary = engine.opened.model->info().vocabulary;
  state.generated.resize(state.tokens.size(), false);
  for (size_t t = 0; t < state.tokens.size(); ++t) {
    state.generated[t] = state.tokens[t] < 0;
    if (state.generated[t]) state.tokens[t] = ~state.tokens[t];
    const int32_t token = state.tokens[t];
    if (token < vocabulary) continue;
    return fail(StatusCode::bad_file, "{}: token {} is not in the vocabulary of 0 to {}", path,
                token, vocabulary - 1);
  }

  const int64_t cached = head.header.cached;
  Status room;
  engine.thread->call([&] {
    Result<PageForm> now = form_of(engine);
    if (!now) {
      room = now.error();
      return;
    }
    form = *std::move(now);
    std::vector<int64_t> first(form.kept_kinds());
    for (size_t k = 0; k < form.kinds(); ++k) {
      for (const size_t part : form.parts(k)) first[part] = head.first[k];
    }
    room = engine.cache->restore(id, cached, first);
  });
  if (room.code() == StatusCode::does_not_fit) return state;
  INFER_CHECK_R(room);
  reader.seek(pages_at);
  bool there = true;
  const auto read_part = [&](std::span<const PagePlace> part, std::span<std::byte> bytes) {
    if (!there) return Status();
    INFER_CHECK(reader.read(bytes));
    const auto copy = [&](const PagePlace& place, std::span<std::byte> from) {
      return form.write(*engine.cache, id, place.kind, place.page, from);
    };
    INFER_TRY_S(there, copy_part(engine, form, id, cached, part, bytes, copy));
    return Status();
  };
  INFER_CHECK_R(for_each_part(form, places_of(head.first, cached), read_part));
  if (!there) return state;
  if (reader.hash() != checksum) {
    return fail(StatusCode::io, "{}: the file was changed while it was read", path);
  }
  state.cached = cached;
  return state;
}

}  // namespace infer
