// The file of a saved session.
//
// Little endian: the header; for each kind of pages the first that is there, int64; tokens, int32
// each, all bits inverted of those that the model made itself; then the pages, kind by kind, in the
// canonical layout, whatever devices keep them. Pages of tokens are zero behind the last token. The
// recurrent states of a sequence are one page of float32. Last comes the XXH3-64 of all before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/atomic_file.h"
#include "engine/session/page_form.h"

namespace infer {

struct StateHeader {
  char magic[8];
  uint32_t version;
  uint32_t page_tokens;
  uint64_t fingerprint;  ///< of the model and its cache
  int64_t tokens;
  int64_t cached;  ///< number of leading tokens whose pages follow
  int64_t shifted;
  uint64_t seed;
  uint64_t checksum;  ///< of the header before it
};
static_assert(sizeof(StateHeader) == 64);

/// What comes before the tokens.
struct StateHead {
  StateHeader header{};
  std::vector<int64_t> first;  ///< first page, by kind
};

/// The XXH3-64 of what is added.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) = delete;

  void add(std::span<const std::byte> bytes);
  uint64_t value() const;
  void restart();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads a saved session and hashes it.
class StateReader {
 public:
  /// Errors: not_found; io if the file is no regular file.
  static Result<StateReader> open(const std::string& path);
  StateReader(StateReader&& other) noexcept;
  StateReader& operator=(StateReader&&) = delete;
  ~StateReader();

  /// Reads the head. The file is then as long as the head says. `context`: tokens that a session
  /// may have. Errors: bad_file; unsupported; invalid_argument for another fingerprint;
  /// does_not_fit.
  Result<StateHead> read_head(uint64_t fingerprint, int64_t context, const PageForm& form);
  /// Errors: bad_file if the file ends, io.
  Status read(std::span<std::byte> to);
  /// Reads on to the end, where the checksum of the whole file is. Returns that of what was read
  /// here. bad_file if it is wrong.
  Result<uint64_t> check_rest();

  const std::string& path() const { return path_; }
  int64_t at() const { return at_; }
  /// Reads from there on; hash() begins there.
  void seek(int64_t at);
  uint64_t hash() const { return hash_.value(); }

 private:
  explicit StateReader(std::string path) : path_(std::move(path)) {}

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
  int64_t at_ = 0;
  Checksum hash_;
};

/// Writes a saved session.
class StateWriter {
 public:
  /// Begins the file with the head, whose magic, version and checksum are set here.
  static Result<StateWriter> create(const std::string& path, StateHead head);
  Status write(std::span<const std::byte> bytes);
  /// Ends the file with the checksum and puts it in place.
  Status commit();

 private:
  explicit StateWriter(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AtomicFile> file_;
  Checksum hash_;
};

}  // namespace infer
