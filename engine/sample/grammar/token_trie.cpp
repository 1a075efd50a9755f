#include "engine/sample/grammar/token_trie.h"

#include <algorithm>

namespace infer {

std::shared_ptr<const TokenTrie> TokenTrie::of(const Tokenizer& tokenizer) {
  std::vector<Piece> pieces;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const TokenType type = tokenizer.type(id);
    if (type == TokenType::control || type == TokenType::unknown || type == TokenType::unused) {
      continue;
    }
    if (tokenizer.is_control(id) || tokenizer.is_eog(id)) continue;
    pieces.push_back({tokenizer.piece(id), id});
  }
  const std::span<const int32_t> eog = tokenizer.eog_tokens();
  return std::make_shared<const TokenTrie>(
      std::move(pieces), std::vector<int32_t>(eog.begin(), eog.end()), tokenizer.vocab_size());
}

TokenTrie::TokenTrie(std::vector<Piece> pieces, std::vector<int32_t> eog, int32_t vocab_size)
    : vocab_size_(vocab_size), eog_(std::move(eog)), single_(256, false) {
  std::ranges::sort(eog_);
  std::erase_if(eog_, [&](int32_t id) { return id < 0 || id >= vocab_size; });
  std::erase_if(pieces,
                [](const Piece& p) { return p.bytes.empty() || p.bytes.size() > kMaxPieceBytes; });
  std::ranges::sort(pieces, [](const Piece& a, const Piece& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });

  std::vector<std::pair<uint32_t, uint32_t>> at(static_cast<size_t>(vocab_size));
  std::vector<uint32_t> path;  // the nodes of the bytes so far
  std::string_view before;
  for (const Piece& p : pieces) {
    const auto [differs, unused] = std::ranges::mismatch(before, p.bytes);
    const auto shared = static_cast<size_t>(differs - before.begin());
    for (; path.size() > shared; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
    for (size_t depth = shared; depth < p.bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(depth),
                        static_cast<uint8_t>(p.bytes[depth])});
    }
    tokens_.push_back(p.token);
    if (p.bytes.size() == 1) single_[static_cast<uint8_t>(p.bytes[0])] = true;
    longest_ = std::max(longest_, p.bytes.size());
    at[static_cast<size_t>(p.token)] = {static_cast<uint32_t>(text_.size()),
                                        static_cast<uint32_t>(p.bytes.size())};
    text_ += p.bytes;
    before = p.bytes;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(
      {static_cast<uint32_t>(nodes_.size()) + 1, static_cast<uint32_t>(tokens_.size()), 0, 0});

  // In the order of ids, so that two offsets delimit a token.
  std::string by_id;
  offsets_.reserve(static_cast<size_t>(vocab_size) + 1);
  for (const auto& [begin, size] : at) {
    offsets_.push_back(static_cast<uint32_t>(by_id.size()));
    by_id.append(text_, begin, size);
  }
  offsets_.push_back(static_cast<uint32_t>(by_id.size()));
  text_ = std::move(by_id);
}

bool TokenTrie::is_eog(int32_t token) const { return std::ranges::binary_search(eog_, token); }

std::string_view TokenTrie::bytes(int32_t token) const {
  if (token < 0 || token >= vocab_size_) return {};
  const auto i = static_cast<size_t>(token);
  return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

}  // namespace infer
