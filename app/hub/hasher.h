// The hash of a file while it comes: SHA-256, or the SHA-1 that git gives a blob.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace infer::hub {

class Hasher {
 public:
  /// For the hash in as many hexadecimal digits: 64 are SHA-256; 40 are git's SHA-1, which counts
  /// the bytes of the whole file, `bytes`, as well.
  Hasher(size_t digits, int64_t bytes);
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const char> bytes);
  /// In hexadecimal digits; ends it.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace infer::hub
