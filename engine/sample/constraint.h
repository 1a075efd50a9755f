// What a generated text may be: the tokens that are allowed next, as the text grows.
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

/// The state of one sequence. One thread at a time; constraints of the same grammar may be used by
/// several threads at once, each by one.
class Constraint {
 public:
  virtual ~Constraint() = default;
  /// Whether `token` may come next, without computing the whole mask.
  virtual bool allows(int32_t token) const = 0;
  /// All tokens that may come next: as allows() says of each, except that of a grammar whose
  /// ambiguity exceeds the limits of the implementation some may be missing. Never empty before an
  /// end-of-generation token was accepted. Valid until the next call that is not const.
  virtual const TokenMask& mask() = 0;
  /// mask() will be called next, on another thread than those that use other constraints of the
  /// same grammar. Until it has returned mask_is_known() is false for all of them.
  virtual void announce_mask() {}
  /// Whether mask() returns at once. False also while another thread computes one of this grammar.
  virtual bool mask_is_known() const { return true; }
  /// Appends a token. False, and nothing changes, if it is not allowed.
  virtual bool accept(int32_t token) = 0;
  /// The text may end here: end-of-generation tokens are allowed.
  virtual bool complete() const = 0;
  /// The text is complete and nothing but its end may follow.
  virtual bool must_end() const = 0;
  /// A state of its own at the same place, e.g. to look ahead with drafted tokens.
  virtual std::unique_ptr<Constraint> clone() const = 0;
};

}  // namespace infer
