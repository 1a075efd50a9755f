// The tokens of a vocabulary by their bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace infer {

/// Immutable and thread-safe. Nodes are in depth-first order. So a subtree is a range of nodes and
/// of tokens, and skipping it is one step.
class TokenTrie {
 public:
  struct Node {
    uint32_t end;     ///< the first node after the subtree
    uint32_t tokens;  ///< tokens()[node(i).tokens, node(i + 1).tokens) end at node i
    uint16_t depth;   ///< bytes before this one
    uint8_t byte;
  };
  struct Piece {
    std::string_view bytes;
    int32_t token;
  };

  /// Longest token in the trie, in bytes. Longer tokens are never allowed.
  static constexpr size_t kMaxPieceBytes = 1024;

  /// The trie of a tokenizer's text tokens: no control, unknown, unused or empty ones.
  static std::shared_ptr<const TokenTrie> of(const Tokenizer& tokenizer);
  /// The trie of these pieces. Several tokens may have the same bytes. `eog`: the tokens that end a
  /// text.
  TokenTrie(std::vector<Piece> pieces, std::vector<int32_t> eog, int32_t vocab_size);

  int32_t vocab_size() const { return vocab_size_; }
  std::span<const int32_t> eog() const { return eog_; }
  bool is_eog(int32_t token) const;

  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  const Node& node(uint32_t i) const { return nodes_[i]; }
  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const int32_t> tokens_at(uint32_t node) const {
    return {tokens_.data() + nodes_[node].tokens, tokens_.data() + nodes_[node + 1].tokens};
  }
  /// The bytes of a token; empty if it is not in the trie.
  std::string_view bytes(int32_t token) const;
  size_t longest() const { return longest_; }
  /// Bytes in use.
  size_t bytes() const {
    return sizeof(*this) + nodes_.capacity() * sizeof(Node) + text_.capacity() +
           (eog_.capacity() + tokens_.capacity() + offsets_.capacity()) * sizeof(int32_t);
  }
  /// True if a token consists of only this byte.
  bool has_byte(uint8_t byte) const { return single_[byte]; }

 private:
  int32_t vocab_size_;
  std::vector<int32_t> eog_;
  std::vector<Node> nodes_;  ///< and one more at the end
  std::vector<int32_t> tokens_;
  std::string text_;
  std::vector<uint32_t> offsets_;  ///< by token, in text_
  std::vector<bool> single_;
  size_t longest_ = 0;
};

}  // namespace infer
