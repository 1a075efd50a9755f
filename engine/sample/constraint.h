// Restricts a generated text: says which tokens are allowed next, as the text grows.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace infer {

/// A set of tokens of one vocabulary, one bit each, the lowest bit of a word first.
class TokenMask {
 public:
  TokenMask() = default;
  explicit TokenMask(int32_t vocab_size)
      : size_(vocab_size), words_((static_cast<size_t>(vocab_size) + 63) / 64) {}

  int32_t vocab_size() const { return size_; }
  /// False for tokens outside the vocabulary.
  bool test(int32_t token) const {
    return token >= 0 && token < size_ && ((words_[word(token)] >> (token & 63)) & 1) != 0;
  }
  void set(int32_t token) { words_[word(token)] |= uint64_t{1} << (token & 63); }
  void set_all() {
    for (uint64_t& word : words_) word = ~uint64_t{0};
    if (size_ % 64 != 0) words_.back() = (uint64_t{1} << (size_ % 64)) - 1;
  }
  void reset(int32_t token) { words_[word(token)] &= ~(uint64_t{1} << (token & 63)); }
  /// Adds the tokens of a mask of the same vocabulary.
  void add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  int32_t count() const {
    int32_t total = 0;
    for (const uint64_t w : words_) total += std::popcount(w);
    return total;
  }
  /// (vocab_size + 63) / 64 words; bits behind the last token are 0.
  std::span<const uint64_t> words() const { return words_; }

  bool operator==(const TokenMask&) const = default;

 private:
  static size_t word(int32_t token) { return static_cast<size_t>(token) / 64; }

  int32_t size_ = 0;
  std::vector<uint64_t> words_;
};

/// The state of a constraint after the text of one sequence. One thread at a time. Constraints of
/// the same grammar may be used by different threads at the same time.
class Constraint {
 public:
  virtual ~Constraint() = default;
  /// True if nothing holds the text at present, and nearly all tokens are allowed. mask() takes
  /// long then: a token is better chosen without it, and again if allows() does not take it.
  virtual bool is_free() const { return false; }
  /// Whether `token` may come next, without computing the whole mask.
  virtual bool allows(int32_t token) const = 0;
  /// The set of all tokens for which allows() is true. Exception: if a grammar is more ambiguous
  /// than the implementation's limits, some may be missing. Never empty before an end-of-generation
  /// token was accepted. Valid until the next non-const call.
  virtual const TokenMask& mask() = 0;
  /// Announces that mask() will be called next, on a thread of its own. Until that call returns,
  /// mask_is_known() is false for all constraints of the same grammar.
  virtual void announce_mask() {}
  /// True if mask() returns at once. False also while another thread computes a mask of the same
  /// grammar.
  virtual bool mask_is_known() const { return true; }
  /// Appends a token. Returns false, without any change, if the token is not allowed.
  virtual bool accept(int32_t token) = 0;
  /// True if the text may end here, that is, end-of-generation tokens are allowed.
  virtual bool complete() const = 0;
  /// True if the text must end here.
  virtual bool must_end() const = 0;
  /// An independent copy of the state, for example to look ahead with drafted tokens.
  virtual std::unique_ptr<Constraint> clone() const = 0;
};

}  // namespace infer
