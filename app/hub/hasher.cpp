#include "hub/hasher.h"

// The functions of one algorithm each: of OpenSSL's archive only these few objects get linked,
// where EVP would bring all algorithms. Version 3 calls them deprecated.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

namespace infer::hub {

struct Hasher::State {
  bool git = false;
  SHA_CTX sha1{};
  SHA256_CTX sha256{};
};

Hasher::Hasher(size_t digits, int64_t bytes) : state_(std::make_unique<State>()) {
  state_->git = digits == 2 * SHA_DIGEST_LENGTH;
  SHA1_Init(&state_->sha1);
  SHA256_Init(&state_->sha256);
  if (!state_->git) return;
  const std::string head = "blob " + std::to_string(bytes);
  add({head.c_str(), head.size() + 1});  // with its 0
}

Hasher::~Hasher() = default;

void Hasher::add(std::span<const char> bytes) {
  if (state_->git) {
    SHA1_Update(&state_->sha1, bytes.data(), bytes.size());
  } else {
    SHA256_Update(&state_->sha256, bytes.data(), bytes.size());
  }
}

std::string Hasher::finish() {
  unsigned char digest[SHA256_DIGEST_LENGTH] = {};
  if (state_->git) {
    SHA1_Final(digest, &state_->sha1);
  } else {
    SHA256_Final(digest, &state_->sha256);
  }
  constexpr char kDigits[] = "0123456789abcdef";
  const size_t size = state_->git ? SHA_DIGEST_LENGTH : SHA256_DIGEST_LENGTH;
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

}  // namespace infer::hub
