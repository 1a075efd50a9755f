// Byte-level BPE (GPT-2, Llama 3, Qwen, …): a text is cut into words, each word into bytes, and
// neighbours are merged by the rank of the pair in the list of merges. Tokens are spelt with a
// printable character for each byte. Gemma 4 is the same on characters, with ▁ for spaces.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <functional>
#include <optional>

#include "engine/core/log.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/regex_splitter.h"
#include "engine/text/special_tokens.h"
#include "engine/text/text_encoder.h"
#include "engine/text/unicode.h"
#include "engine/weights/byte_alphabet.h"

namespace infer {
namespace {

constexpr char32_t kAlphabetEnd = 0x100 + 68;

constexpr std::array<int16_t, kAlphabetEnd> kCharToByte = [] {
  std::array<int16_t, kAlphabetEnd> table{};
  table.fill(-1);
  for (uint32_t b = 0; b < 256; ++b) table[kByteToChar[b]] = static_cast<int16_t>(b);
  return table;
}();

/// The bytes a token's spelling stands for. Characters outside of the alphabet stay as they are,
/// and `exact` becomes false.
std::string decode_alphabet(std::string_view token, bool& exact) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t pos = 0; pos < token.size();) {
    const Utf8Char c = decode_utf8(token, pos);
    const int byte = c.valid && c.code < kAlphabetEnd ? kCharToByte[c.code] : -1;
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      bytes += token.substr(pos, c.size);
      exact = false;
    }
    pos += c.size;
  }
  return bytes;
}

/// Unicode's form C of a text, which is left alone if it is not UTF-8 or ASCII alone.
bool compose(std::string_view text, std::string& out) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; }))
    return false;
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, std::free);
  if (size < 0) return false;
  out.assign(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
  return true;
}

/// From two neighbouring symbols to what they merge into: open addressing, fixed once built.
class MergeTable {
 public:
  struct Merge {
    int32_t rank;  ///< lower first; −1: no such merge
    int32_t result;
  };

  void reserve(size_t merges) { slots_.resize(std::bit_ceil(merges * 2 + 2)); }

  /// The first merge of a pair counts.
  void add(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[position(key_of(left, right))];
    if (slot.merge.rank < 0) slot = {key_of(left, right), merge};
  }
  Merge find(int32_t left, int32_t right) const {
    return slots_[position(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Merge merge{-1, kNoToken};
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t position(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t i = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull >> 20 & mask;
    while (slots_[i].key != key && slots_[i].merge.rank >= 0) i = (i + 1) & mask;
    return i;
  }
  std::vector<Slot> slots_;
};

// A symbol is a token id, or beyond the vocabulary a string that only merges mention.
constexpr int32_t kNoSymbol = -1;

struct Node {
  int32_t symbol;
  int32_t previous, next;
  uint32_t begin, end;  // bytes
  bool dead;
};

// A merge that was possible when it was offered. Symbols only grow, so that it still is exactly if
// the two together end where they did.
struct Candidate {
  int32_t rank;
  int32_t left;
  uint32_t end;  // bytes
  int32_t result;
  bool operator>(const Candidate& other) const {
    return rank > other.rank || (rank == other.rank && left > other.left);
  }
};

/// Space that one encode() call uses again and again.
struct Workspace {
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
};

class ByteBpe : public TextEncoder {
 public:
  ByteBpe(const TokenizerSpec& spec, const PreTokenizer& rules,
          std::optional<RegexSplitter> splitter)
      : rules_(rules),
        splitter_(std::move(splitter)),
        vocabulary_(static_cast<int32_t>(spec.tokens.size())),
        compose_(spec.compose),
        newlines_whole_(rules.raw_utf8 && !spec.words) {
    if (!spec.words || !rules.raw_utf8) return;
    unknown_ = spec.unknown;
    fuse_unknown_ = spec.words->fuse_unknown;
    space_prefix_ = spec.add_space_prefix == 1;
    unless_space_ = spec.prefix_unless_space;
  }

  Status build(const TokenizerSpec& spec);

  std::string normalise(std::string_view text, bool fresh) const override {
    std::string composed;
    if (compose_ && compose(text, composed)) text = composed;
    if (!rules_.raw_utf8 || unless_space_) return std::string(text);
    return with_marks(text, fresh && space_prefix_);
  }
  Status encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const override {
    std::string escaped;
    if (rules_.raw_utf8 && unless_space_) {
      escaped = with_marks(text, fresh && space_prefix_ && !begins_with_space(text));
      text = escaped;
    }
    Workspace work;
    if (splitter_) {
      INFER_TRY_S(const std::vector<RegexSplitter::Word> words, splitter_->split(text));
      for (const RegexSplitter::Word word : words) {
        encode_word(text.substr(word.begin, word.end - word.begin), work, out);
      }
      return {};
    }
    uint32_t begin = 0;
    for (const uint32_t end : split_words(rules_, text)) {
      encode_word(text.substr(begin, end - begin), work, out);
      begin = end;
    }
    return {};
  }

  std::string piece(std::string_view token) const override {
    bool exact = true;
    return rules_.raw_utf8 ? unescape_spaces(token) : decode_alphabet(token, exact);
  }
  bool adds_space_prefix() const override { return space_prefix_; }
  bool default_add_bos() const override { return rules_.add_bos; }

 private:
  std::string bytes_of(std::string_view spelling, bool& exact) const {
    return rules_.raw_utf8 ? std::string(spelling) : decode_alphabet(spelling, exact);
  }
  int32_t symbol_of(std::string_view bytes) const {
    const auto it = symbols_.find(bytes);
    return it == symbols_.end() ? kNoSymbol : it->second;
  }
  void encode_word(std::string_view word, Workspace& work, std::vector<int32_t>& out) const;
  void merge_word(Workspace& work) const;
  void start_nodes(std::string_view word, std::vector<Node>& nodes) const;
  // Appends the merge of a node and the next, if there is one; the heap is then to be put in order.
  void offer(const std::vector<Node>& nodes, std::vector<Candidate>& heap, int32_t left) const;
  // Returns whether the node became the unknown token, and is told that of the one before.
  bool emit(const Node& node, std::string_view word, bool after_unknown,
            std::vector<int32_t>& out) const;

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };

  const PreTokenizer rules_;
  std::optional<RegexSplitter> splitter_;  ///< in place of the stages of rules_
  int32_t vocabulary_;
  bool compose_;
  bool newlines_whole_;  ///< a run of newlines that is a token is that token
  bool space_prefix_ = false;
  bool unless_space_ = false;
  int32_t unknown_ = kNoToken;  ///< what a character without a token becomes
  bool fuse_unknown_ = false;   ///< a run of them is one token
  // Tokens that text can become, by the bytes they stand for.
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> symbols_;
  std::array<int32_t, 256> byte_symbols_{};  ///< of single bytes
  std::vector<int32_t> byte_tokens_;         ///< what a byte without a symbol of its own becomes
  MergeTable merges_;
};

Status ByteBpe::build(const TokenizerSpec& spec) {
  symbols_.reserve(spec.tokens.size());
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (spec.tokens[i].empty() || !is_text_token(spec, id)) continue;
    bool exact = true;
    std::string bytes = bytes_of(spec.tokens[i], exact);
    // A spelling outside of the alphabet can only be found as a special token.
    if (exact) symbols_.emplace(std::move(bytes), id);
  }

  merges_.reserve(spec.merges.size());
  int32_t next_symbol = vocabulary_;
  const auto intern = [&](std::string bytes) {
    const auto [it, added] = symbols_.emplace(std::move(bytes), next_symbol);
    if (added) ++next_symbol;
    return it->second;
  };
  for (size_t i = 0; i < spec.merges.size(); ++i) {
    const std::string_view merge = spec.merges[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return error(StatusCode::bad_file,
                   "{}: tokenizer.ggml.merges[{}] is not two tokens with a space between",
                   spec.source, i);
    }
    bool exact = true;
    const std::string left = bytes_of(merge.substr(0, space), exact);
    const std::string right = bytes_of(merge.substr(space + 1), exact);
    const int32_t left_symbol = intern(left);
    const int32_t right_symbol = intern(right);
    merges_.add(left_symbol, right_symbol, {static_cast<int32_t>(i), intern(left + right)});
  }

  byte_tokens_.assign(256, kNoToken);
  if (rules_.raw_utf8) byte_tokens_ = infer::byte_tokens(spec);
  for (size_t b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_symbols_[b] = symbol_of(std::string_view(&byte, 1));
    if (!rules_.raw_utf8 && byte_symbols_[b] < vocabulary_) byte_tokens_[b] = byte_symbols_[b];
  }
  return {};
}

void ByteBpe::start_nodes(std::string_view word, std::vector<Node>& nodes) const {
  nodes.clear();
  for (uint32_t pos = 0; pos < word.size();) {
    const uint32_t size = rules_.raw_utf8 ? decode_utf8(word, pos).size : 1;
    const int32_t symbol = size == 1 ? byte_symbols_[static_cast<uint8_t>(word[pos])]
                                     : symbol_of(word.substr(pos, size));
    const auto i = static_cast<int32_t>(nodes.size());
    nodes.push_back({symbol, i - 1, i + 1, pos, pos + size, false});
    pos += size;
  }
  nodes.back().next = -1;
}

void ByteBpe::offer(const std::vector<Node>& nodes, std::vector<Candidate>& heap,
                    int32_t left) const {
  if (left < 0) return;
  const Node& a = nodes[static_cast<size_t>(left)];
  if (a.next < 0 || a.symbol < 0) return;
  const Node& b = nodes[static_cast<size_t>(a.next)];
  if (b.symbol < 0) return;
  const MergeTable::Merge merge = merges_.find(a.symbol, b.symbol);
  if (merge.rank < 0) return;
  heap.push_back({merge.rank, left, b.end, merge.result});
}

void ByteBpe::merge_word(Workspace& work) const {
  std::vector<Node>& nodes = work.nodes;
  std::vector<Candidate>& heap = work.heap;
  heap.clear();
  for (size_t i = 0; i + 1 < nodes.size(); ++i) offer(nodes, heap, static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>{});
  const auto offer_later = [&](int32_t left) {
    const size_t before = heap.size();
    offer(nodes, heap, left);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), std::greater<>{});
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    const Candidate best = heap.back();
    heap.pop_back();
    Node& left = nodes[static_cast<size_t>(best.left)];
    if (left.dead || left.next < 0) continue;
    Node& right = nodes[static_cast<size_t>(left.next)];
    if (right.end != best.end) continue;
    left.symbol = best.result;
    left.end = right.end;
    left.next = right.next;
    right.dead = true;
    if (right.next >= 0) nodes[static_cast<size_t>(right.next)].previous = best.left;
    offer_later(left.previous);
    offer_later(best.left);
  }
}

bool ByteBpe::emit(const Node& node, std::string_view word, bool after_unknown,
                   std::vector<int32_t>& out) const {
  if (node.symbol >= 0 && node.symbol < vocabulary_) {
    out.push_back(node.symbol);
    return false;
  }
  for (const char c : word.substr(node.begin, node.end - node.begin)) {
    const int32_t id = byte_tokens_[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      out.push_back(id);
    } else if (unknown_ != kNoToken) {
      if (!after_unknown || !fuse_unknown_) out.push_back(unknown_);
      return true;
    }
  }
  return false;
}

void ByteBpe::encode_word(std::string_view word, Workspace& work, std::vector<int32_t>& out) const {
  const bool whole = rules_.ignore_merges ||
                     (newlines_whole_ && word.find_first_not_of('\n') == std::string_view::npos);
  if (whole) {
    const int32_t id = symbol_of(word);
    if (id >= 0 && id < vocabulary_) {
      out.push_back(id);
      return;
    }
  }
  start_nodes(word, work.nodes);
  merge_word(work);
  bool unknown = false;
  for (int32_t i = 0; i >= 0;) {
    const Node& node = work.nodes[static_cast<size_t>(i)];
    unknown = emit(node, word, unknown, out);
    i = node.next;
  }
}

/// With the rules that a file spells out, by the matchers of a name that has the same.
Result<std::unique_ptr<TextEncoder>> make_with_rules(const TokenizerSpec& spec) {
  PreTokenizer rules;
  std::optional<RegexSplitter> splitter;
  if (const std::string_view name = find_name(*spec.words); !name.empty()) {
    rules.stages = find_pretokenizer(name)->stages;
  } else {
    INFER_TRY(RegexSplitter made, RegexSplitter::create(spec.words->steps, spec.source));
    splitter.emplace(std::move(made));
  }
  rules.ignore_merges = spec.words->ignore_merges;
  rules.raw_utf8 = spec.words->characters;
  auto encoder = std::make_unique<ByteBpe>(spec, rules, std::move(splitter));
  INFER_CHECK_R(encoder->build(spec));
  return encoder;
}

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_byte_bpe(const TokenizerSpec& spec) {
  if (spec.words) return make_with_rules(spec);
  const std::string_view pre = spec.model == "gemma4" ? std::string_view("gemma4") : spec.pre;
  const PreTokenizer* rules = find_pretokenizer(pre);
  if (rules == nullptr) {
    return fail(StatusCode::unsupported,
                "{}: tokenizer.ggml.pre is \"{}\", which is not known; known are {}", spec.source,
                spec.pre, pretokenizer_names());
  }
  if (pre.empty()) {
    log(LogLevel::warning,
        "{}: tokenizer.ggml.pre is missing: the default pre-tokenizer may cut words in other "
        "places "
        "than the model was trained with",
        spec.source);
  }
  if (spec.merges.empty()) {
    return fail(StatusCode::bad_file, "{}: tokenizer.ggml.merges is missing or empty", spec.source);
  }
  PreTokenizer own = *rules;
  if (spec.ignore_merges >= 0) own.ignore_merges = spec.ignore_merges != 0;
  auto encoder = std::make_unique<ByteBpe>(spec, own, std::nullopt);
  INFER_CHECK_R(encoder->build(spec));
  return encoder;
}

}  // namespace infer
