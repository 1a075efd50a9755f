// The `model` section of a tokenizer.json: BPE, Unigram or WordPiece.
#include <algorithm>
#include <cmath>

#include "engine/core/file.h"
#include "formats/safetensors/tokenizer_parts.h"

namespace infer::safetensors {
namespace {

// Longer tokens are not looked at from within: it bounds the work against a hostile file.
constexpr size_t kMaxMergedBytes = 256;

struct Pair {
  int32_t left, right;
  bool operator==(const Pair&) const = default;
};

/// A list of merges with what each makes.
struct Merges {
  std::vector<Pair> pairs;
  std::vector<int32_t> results;
};

/// One of the two ways a merge is written: "left right", or ["left", "right"].
std::pair<std::string, std::string> read_pair(const JsonPlace& merge) {
  if (merge.value().is_array()) {
    std::pair<std::string, std::string> pair;
    if (merge.size() == 2) pair = {merge.at(size_t{0}).text(), merge.at(1).text()};
    if (!pair.first.empty() && !pair.second.empty()) return pair;
  } else if (merge.value().is_string()) {
    const auto& text = merge.value().get_ref<const std::string&>();
    const size_t space = text.find(' ', 1);
    const bool two = space != std::string::npos && space + 1 < text.size() &&
                     text.find(' ', space + 1) == std::string::npos;
    if (two) return {text.substr(0, space), text.substr(space + 1)};
  }
  merge.expected("two tokens");
  return {};
}

Merges read_merges(const JsonPlace& list, const TokenIds& ids) {
  Merges merges;
  const size_t count = list.size();
  for (size_t i = 0; i < count; ++i) {
    const JsonPlace merge = list.at(i);
    const auto [left, right] = read_pair(merge);
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || both == ids.end()) {
      merge.expected("tokens of the vocabulary that make another one");
      return {};
    }
    merges.pairs.push_back({a->second, b->second});
    merges.results.push_back(both->second);
  }
  return merges;
}

uint64_t key_of(Pair pair) {
  return static_cast<uint64_t>(static_cast<uint32_t>(pair.left)) << 32 |
         static_cast<uint32_t>(pair.right);
}

/// Bytes of the character that begins here, of valid UTF-8.
size_t char_size(char lead) {
  const auto b = static_cast<uint8_t>(lead);
  return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/// Whether a token is one character again and again.
bool is_run(std::string_view token) {
  const std::string_view first = token.substr(0, char_size(token.front()));
  for (size_t at = 0; at < token.size(); at += first.size()) {
    if (!token.substr(at).starts_with(first)) return false;
  }
  return true;
}

/// The scores that put tokens in the order in which merges make them; nothing if the merges of some
/// lie among those of others, so that there is no such order. Llama has runs of spaces like that,
/// which SentencePiece scores the same: so do these.
std::optional<std::vector<float>> order_of(const Merges& merges, const TokenizerSpec& spec) {
  const size_t count = merges.results.size();
  std::vector<size_t> last(spec.tokens.size());
  for (size_t i = 0; i < count; ++i) last[static_cast<size_t>(merges.results[i])] = i;
  std::vector<float> scores(spec.tokens.size(), -static_cast<float>(count));
  for (size_t begin = 0; begin < count;) {
    size_t end = last[static_cast<size_t>(merges.results[begin])];
    bool several = false, runs = true;
    for (size_t i = begin; i <= end; ++i) {
      const auto result = static_cast<size_t>(merges.results[i]);
      scores[result] = -static_cast<float>(begin);
      several = several || merges.results[i] != merges.results[begin];
      runs = runs && is_run(spec.tokens[result]);
      end = std::max(end, last[result]);
    }
    if (several && !runs) return std::nullopt;
    begin = end + 1;
  }
  return scores;
}

/// SentencePiece merges whatever two neighbours make a token, the best token first; a list of
/// merges says so pair by pair. Gives the scores by which the first does the same as the second, or
/// nothing if none do: there must be an order of tokens, and no pairs but those of the list.
std::optional<std::vector<float>> scores_of(const Merges& merges, const TokenIds& ids,
                                            const TokenizerSpec& spec) {
  std::optional<std::vector<float>> scores = order_of(merges, spec);
  if (!scores) return std::nullopt;
  std::vector<uint64_t> pairs;
  pairs.reserve(merges.pairs.size());
  for (const Pair& pair : merges.pairs) pairs.push_back(key_of(pair));
  std::ranges::sort(pairs);

  // Added tokens are found before there are merges, unless they are looked for in another text.
  const auto is_text = [&](int32_t id) {
    const TokenType type = spec.types[static_cast<size_t>(id)];
    return type == TokenType::normal ||
           (type == TokenType::user_defined && std::ranges::binary_search(spec.normalised, id) &&
            !std::ranges::binary_search(spec.apart, id));
  };
  // What two neighbours can be: a token, or a character that is none.
  const auto symbol = [&](std::string_view text) {
    const auto it = ids.find(text);
    if (it != ids.end() && is_text(it->second)) return it->second;
    return text.size() == char_size(text.front()) ? -1 : -2;
  };
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string_view token = spec.tokens[id];
    if (!is_text(static_cast<int32_t>(id)) || token.empty()) continue;
    if (token.size() > kMaxMergedBytes) return std::nullopt;
    for (size_t cut = char_size(token[0]); cut < token.size(); cut += char_size(token[cut])) {
      const int32_t left = symbol(token.substr(0, cut));
      const int32_t right = left == -2 ? -2 : symbol(token.substr(cut));
      if (right == -2) continue;
      if (left < 0 || right < 0) return std::nullopt;
      if (!std::ranges::binary_search(pairs, key_of({left, right}))) return std::nullopt;
    }
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!is_text(static_cast<int32_t>(id))) (*scores)[id] = 0;
  }
  return scores;
}

bool is_byte_token(std::string_view token) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>') &&
         is_hex(token[3]) && is_hex(token[4]);
}

void mark_byte_tokens(TokenizerSpec& spec) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.types[id] == TokenType::normal && is_byte_token(spec.tokens[id])) {
      spec.types[id] = TokenType::byte;
    }
  }
}

void mark_unknown(int32_t id, TokenizerSpec& spec) {
  spec.unknown = id;
  if (id != kNoToken) spec.types[static_cast<size_t>(id)] = TokenType::unknown;
}

int32_t read_unknown(const JsonPlace& unknown, const TokenIds& ids) {
  if (!unknown.present()) return kNoToken;
  const auto it = ids.find(unknown.text());
  if (it != ids.end()) return it->second;
  unknown.expected("a token of the vocabulary");
  return kNoToken;
}

/// A token of byte-level BPE as lists of merges spell it: they have a space between two.
std::string without_spaces(std::string token) {
  for (size_t at = 0; (at = token.find(' ', at)) != std::string::npos;) token.replace(at, 1, "Ġ");
  return token;
}

void require_absent(const JsonPlace& model, const char* key) {
  const JsonPlace place = model.at(key);
  if (place.present() && !place.text().empty()) place.unsupported();
}

/// Added tokens that are the model's own as well: texts may become them where they are not found.
template <typename Which>
void keep_as_text(TokenizerSpec& spec, Which&& which) {
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const bool added = spec.types[i] == TokenType::user_defined;
    if (!added || std::ranges::binary_search(spec.apart, id) || !which(id)) continue;
    spec.types[i] = TokenType::normal;
    spec.literal.push_back(id);
  }
  std::ranges::sort(spec.literal);
}

void put_token(const JsonPlace& place, std::string token, int64_t id, TokenizerSpec& spec) {
  const auto at = static_cast<size_t>(id);
  if (at >= spec.tokens.size()) {
    spec.tokens.resize(at + 1);
    spec.types.resize(at + 1, TokenType::unused);
  }
  if (spec.types[at] != TokenType::unused) {
    place.expected(fmt::format("an id of its own, not that of '{}'", printable(spec.tokens[at])));
    return;
  }
  spec.tokens[at] = std::move(token);
  spec.types[at] = TokenType::normal;
}

}  // namespace

void read_vocabulary(const JsonPlace& model, TokenizerSpec& spec) {
  const JsonPlace vocab = model.at("vocab");
  if (vocab.value().is_array()) {
    for (size_t i = 0; i < vocab.size(); ++i) {
      const JsonPlace entry = vocab.at(i);
      if (entry.size() != 2) {
        entry.expected("a token and its score");
        return;
      }
      put_token(entry, entry.at(size_t{0}).text(), static_cast<int64_t>(i), spec);
      const double score = entry.at(1).number();
      spec.scores.push_back(static_cast<float>(score));
      spec.exact_scores.push_back(score);
    }
  } else if (vocab.value().is_object()) {
    for (const auto& [token, id] : vocab.value().get_ref<const Json::object_t&>()) {
      const JsonPlace place = vocab.at(token);
      put_token(place, token, place.integer(0, kMaxTokens - 1), spec);
    }
  }
  if (spec.tokens.empty()) vocab.expected("a vocabulary");
  const auto same = [](double score, float rounded) { return score == double{rounded}; };
  if (std::ranges::equal(spec.exact_scores, spec.scores, same)) spec.exact_scores.clear();
}

void read_bpe(const JsonPlace& model, TextSteps steps, const TokenIds& ids, TokenizerSpec& spec) {
  require_absent(model, "continuing_subword_prefix");
  require_absent(model, "end_of_word_suffix");
  if (steps.bert || steps.words_at_white_space || steps.strip_left || steps.strip_right ||
      steps.join_spaces || !steps.charsmap.empty() || (steps.byte_level && steps.prepends)) {
    model.unsupported("after these steps");
    return;
  }
  const bool whole_words = model.at("ignore_merges").flag(false);
  const Merges merges = read_merges(model.at("merges"), ids);
  const int32_t unknown = read_unknown(model.at("unk_token"), ids);
  spec.compose = steps.compose;
  if (steps.byte_level) {
    if (steps.space_marks) {
      model.unsupported("with ByteLevel and Metaspace");
      return;
    }
    spec.model = "gpt2";
    spec.words = {std::move(steps.splits), whole_words, false};
    for (const Pair& pair : merges.pairs) {
      spec.merges.push_back(without_spaces(spec.tokens[static_cast<size_t>(pair.left)]) + " " +
                            without_spaces(spec.tokens[static_cast<size_t>(pair.right)]));
    }
    return;
  }
  if (!steps.space_marks) {
    model.unsupported("without ByteLevel, Metaspace or a Replace of spaces");
    return;
  }
  const bool fallback = model.at("byte_fallback").flag(false);
  if (fallback) mark_byte_tokens(spec);
  mark_unknown(unknown, spec);
  spec.add_space_prefix = steps.prefix ? 1 : 0;
  spec.prefix_at_start_only = steps.prefix_at_start_only;
  spec.prefix_unless_space = steps.prefix_unless_space;
  std::optional<std::vector<float>> scores;
  const bool fuses = model.at("fuse_unk").flag(false);
  if (steps.splits.empty() && !whole_words && !steps.compose && (fallback || fuses)) {
    scores = scores_of(merges, ids, spec);
  }
  if (scores) {
    spec.model = "llama";
    spec.pre = "default";
    spec.scores = *std::move(scores);
    return;
  }
  // Not SentencePiece's way: the merges themselves are needed.
  spec.model = "gpt2";
  spec.words = {std::move(steps.splits), whole_words, true, fuses};
  for (const Pair& pair : merges.pairs) {
    const std::string& left = spec.tokens[static_cast<size_t>(pair.left)];
    const std::string& right = spec.tokens[static_cast<size_t>(pair.right)];
    if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos) {
      model.at("merges").unsupported("tokens with spaces");
      return;
    }
    spec.merges.push_back(left + " " + right);
  }
}

void read_unigram(const JsonPlace& model, TextSteps steps, TokenizerSpec& spec) {
  const bool marks_only = std::ranges::all_of(steps.splits, [](const SplitRule& s) {
    return s.pattern == kSpaceMark && s.behaviour == SplitBehaviour::next;
  });
  if (steps.bert || steps.byte_level || steps.compose || !marks_only || !steps.space_marks) {
    model.unsupported("after these steps");
    return;
  }
  keep_as_text(spec, [&](int32_t id) {
    return std::ranges::binary_search(spec.normalised, id) ||
           std::ranges::find(spec.single_words, id) != spec.single_words.end();
  });
  spec.model = "t5";
  spec.pre = "default";
  spec.precompiled_charsmap = std::move(steps.charsmap);
  spec.maps_graphemes = !spec.precompiled_charsmap.empty();
  spec.add_space_prefix = steps.prefix ? 1 : 0;
  // For other programs the nearest that there is.
  const bool strips = steps.strip_left || steps.strip_right;
  spec.remove_extra_whitespaces =
      steps.words_at_white_space || (steps.join_spaces && strips) ? 1 : 0;
  spec.strip_left = steps.strip_left;
  spec.strip_right = steps.strip_right;
  spec.strips_first = steps.strips_first;
  spec.cuts_at_marks = !steps.splits.empty();
  spec.words_at_white_space = steps.words_at_white_space;
  spec.join_spaces = steps.join_spaces;
  spec.joins_to_marks = steps.joins_to_marks;
  spec.prefix_at_start_only = steps.prefix_at_start_only;
  spec.prefix_unless_space = steps.prefix_unless_space;
  if (const JsonPlace id = model.at("unk_id"); id.present()) {
    const auto count = static_cast<int64_t>(spec.scores.size());
    const int64_t unknown = id.integer(0, count - 1);
    if (unknown < count) mark_unknown(static_cast<int32_t>(unknown), spec);
  }
  if (model.at("byte_fallback").flag(false)) mark_byte_tokens(spec);
}

void read_wordpiece(const JsonPlace& model, const TextSteps& steps, TokenizerSpec& spec) {
  const std::string continued = model.at("continuing_subword_prefix").text("##");
  const bool more = steps.compose || steps.byte_level || steps.space_marks || steps.prepends ||
                    steps.strip_left || steps.strip_right || steps.words_at_white_space ||
                    steps.join_spaces || !steps.charsmap.empty() || !steps.splits.empty();
  if (!steps.bert || more || continued != "##") {
    model.unsupported("other than BERT's");
    return;
  }
  keep_as_text(spec, [](int32_t) { return true; });
  spec.model = "bert";
  spec.lowercase = steps.lowercase;
  spec.strip_accents = steps.strip_accents;
  if (const JsonPlace most = model.at("max_input_chars_per_word"); most.present()) {
    spec.max_word_chars = static_cast<int32_t>(most.integer(0, INT32_MAX));
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    std::string& token = spec.tokens[id];
    if (spec.types[id] != TokenType::normal) continue;
    if (token.starts_with("[") && token.ends_with("]")) continue;
    if (token.starts_with(continued) && token.size() > continued.size()) {
      token.erase(0, continued.size());
    } else {
      token.insert(0, kSpaceMark);
    }
  }
}

}  // namespace infer::safetensors
