#include "engine/text/special_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <initializer_list>

#include "engine/core/log.h"
#include "engine/text/text_encoder.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

// Longer spellings are not looked for in texts: it bounds the work per byte against a hostile file.
constexpr size_t kMaxSpecialBytes = 512;

int32_t find_any(const TokenMap& by_text, std::initializer_list<std::string_view> spellings) {
  for (const std::string_view s : spellings) {
    if (const auto it = by_text.find(s); it != by_text.end()) return it->second;
  }
  return kNoToken;
}

/// A spelling counts as special only if the file does not say that it is ordinary text.
int32_t find_special(const TokenizerSpec& spec, const TokenMap& by_text,
                     std::initializer_list<std::string_view> spellings) {
  for (const std::string_view s : spellings) {
    const int32_t id = find_any(by_text, {s});
    if (id == kNoToken) continue;
    const TokenType type = token_type(spec, id);
    if (spec.types.empty() || type == TokenType::control || type == TokenType::user_defined) {
      return id;
    }
  }
  return kNoToken;
}

/// Letters, marks, digits, what connects words and what joins characters: \w of the library.
bool in_word(const Utf8Char& c) {
  constexpr char32_t kNonJoiner = 0x200c, kJoiner = 0x200d;
  if (!c.valid) return false;
  if (c.code == kNonJoiner || c.code == kJoiner) return true;
  if ((char_class(c.code) & (kLetter | kMark | kNd)) != 0) return true;
  const auto* properties = utf8proc_get_property(static_cast<utf8proc_int32_t>(c.code));
  return properties->category == UTF8PROC_CATEGORY_PC ||
         properties->category == UTF8PROC_CATEGORY_NL;
}

bool begins_in_word(std::string_view text) {
  return !text.empty() && in_word(decode_utf8(text, 0));
}

bool ends_in_word(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4) {
    const Utf8Char c = decode_utf8(text, --begin);
    if (c.valid) return begin + c.size == text.size() && in_word(c);
  }
  return false;
}

/// Phi-3 vocabularies are Llama's with these added; the file does not say that they strip.
bool looks_like_phi3(const TokenizerSpec& spec, const TokenMap& by_text) {
  return spec.model == "llama" && by_text.contains("<|assistant|>") &&
         by_text.contains("<|placeholder1|>") && by_text.contains("<|end|>");
}

/// Harmony and Solar end each message with <|end|>, and the answer with something else.
bool ends_messages(const TokenizerSpec& spec, const TokenMap& by_text) {
  const auto has = [&](std::string_view s) { return find_special(spec, by_text, {s}) != kNoToken; };
  return (has("<|return|>") && has("<|call|>")) ||
         ((has("<|call|>") || has("<|calls|>")) && has("<|flush|>"));
}

std::vector<int32_t> end_tokens(const TokenizerSpec& spec, const TokenMap& by_text,
                                const SpecialTokens& ids) {
  std::vector<int32_t> eog;
  const auto add = [&](int32_t id) {
    if (id != kNoToken) eog.push_back(id);
  };
  for (const std::string_view spelling : {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|calls|>",
                                          "<|flush|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "\u2581<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>",
                                          "<｜end▁of▁sentence｜>",
                                          "[e~["}) {
    add(find_special(spec, by_text, {spelling}));
  }
  for (const int32_t id : {ids.fim_pad, ids.fim_rep, ids.fim_sep}) add(id);

  if (ends_messages(spec, by_text)) std::erase(eog, find_any(by_text, {"<|end|>"}));
  // Gemma 4 has </s> as plain mark-up.
  if (find_special(spec, by_text, {"<|tool_response>"}) != kNoToken) {
    std::erase(eog, find_any(by_text, {"</s>"}));
  }
  for (const int32_t id : {ids.eos, ids.eot, ids.eom}) add(id);

  std::sort(eog.begin(), eog.end());
  eog.erase(std::unique(eog.begin(), eog.end()), eog.end());
  return eog;
}

}  // namespace

SpecialRules resolve_special_tokens(TokenizerSpec& spec, const TokenMap& by_text,
                                    bool default_add_bos) {
  SpecialRules rules;
  SpecialTokens& ids = rules.ids;
  ids = {spec.bos,       spec.eos,     spec.eot,     spec.eom,     spec.unknown,
         spec.separator, spec.padding, spec.cls,     spec.mask,    spec.fim_pre,
         spec.fim_suf,   spec.fim_mid, spec.fim_pad, spec.fim_rep, spec.fim_sep};
  const auto fill = [&](int32_t& id, std::initializer_list<std::string_view> spellings) {
    if (id == kNoToken) id = find_special(spec, by_text, spellings);
  };
  const auto fill_known = [&](int32_t& id, std::initializer_list<std::string_view> spellings) {
    if (id == kNoToken) id = find_any(by_text, spellings);
  };

  const bool sentencepiece = spec.model == "llama";
  const bool bert = spec.model == "bert";
  const bool unigram = spec.model == "t5";
  if (spec.model != "gpt2") ids.unknown = unknown_token(spec);
  if (sentencepiece) {
    fill_known(ids.bos, {"<s>", "<bos>"});
    fill_known(ids.eos, {"</s>", "<eos>"});
  } else if (bert) {
    fill_known(ids.cls, {"[CLS]", "<s>"});
    fill_known(ids.separator, {"[SEP]", "</s>"});
    fill_known(ids.padding, {"[PAD]", "<pad>"});
    fill_known(ids.mask, {"[MASK]", "<mask>"});
  } else if (unigram) {
    fill_known(ids.eos, {"</s>"});
    fill_known(ids.padding, {"<pad>"});
  }
  fill(ids.eot, {"<|eot_id|>", "<|im_end|>"});
  if (!ends_messages(spec, by_text)) fill(ids.eot, {"<|end|>"});
  fill(ids.eot, {"<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>",
                 "\u2581<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"});
  fill(ids.eom, {"<|eom_id|>"});
  fill(ids.fim_pre, {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>",
                     "▁<PRE>", "<|code_prefix|>", "<|prefix|>", "[PREFIX]"});
  fill(ids.fim_suf, {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>",
                     "▁<SUF>", "<|code_suffix|>", "<|suffix|>", "[SUFFIX]"});
  fill(ids.fim_mid, {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>",
                     "▁<MID>", "<|code_middle|>", "<|middle|>"});
  fill(ids.fim_pad, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"});
  fill(ids.fim_rep, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"});
  fill(ids.fim_sep, {"<|file_sep|>"});

  rules.eog = end_tokens(spec, by_text, ids);
  // An end token must not show up in the output, whatever the file calls it.
  for (const int32_t id : rules.eog) {
    auto& types = spec.types;
    if (types.empty()) continue;
    TokenType& type = types[static_cast<size_t>(id)];
    if (type == TokenType::user_defined) type = TokenType::control;
  }

  const auto flag = [](int8_t given, bool otherwise) { return given < 0 ? otherwise : given != 0; };
  rules.add_bos = flag(spec.add_bos, default_add_bos);
  rules.add_eos = flag(spec.add_eos, unigram);
  if (spec.pre == "gemma4" || spec.model == "gemma4") rules.add_bos = true;
  rules.prefix = bert && ids.cls != kNoToken ? ids.cls : ids.bos;
  rules.suffix = ids.eos;
  if (bert) {
    // A sentence always ends with the separator there.
    rules.add_bos = rules.add_eos = true;
    rules.suffix = ids.separator != kNoToken ? ids.separator : ids.eos;
  }
  const auto check = [&](bool& add, int32_t id, int8_t asked, std::string_view key) {
    if (!add || id != kNoToken) return;
    if (asked == 1)
      log(LogLevel::warning, "{}: {} is set, but the vocabulary has no such token", spec.source,
          key);
    add = false;
  };
  check(rules.add_bos, rules.prefix, spec.add_bos, "tokenizer.ggml.add_bos_token");
  check(rules.add_eos, rules.suffix, spec.add_eos, "tokenizer.ggml.add_eos_token");
  return rules;
}

std::string user_defined_text(const TokenizerSpec& spec, std::string_view token) {
  const bool marks =
      spec.model == "llama" || spec.model == "t5" || (spec.words && spec.words->characters);
  return marks ? unescape_spaces(token) : std::string(token);
}

std::string literal_text(const TokenizerSpec& spec, int32_t id) {
  const std::string& token = spec.tokens[static_cast<size_t>(id)];
  const bool bracketed = token.starts_with('[') && token.ends_with(']');
  const bool word = spec.model == "bert" && token_type(spec, id) == TokenType::normal;
  if (!word || bracketed) return token;
  return token.starts_with(kSpaceMark) ? token.substr(kSpaceMark.size()) : "##" + token;
}

SpecialMatcher SpecialMatcher::raw(const TokenizerSpec& spec) {
  std::vector<std::string> spellings(spec.tokens.size());
  std::vector<Entry> entries;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const TokenType type = token_type(spec, id);
    const bool control = type == TokenType::control || type == TokenType::unknown;
    const bool literal = contains(spec.literal, id);
    if (!literal && !control && type != TokenType::user_defined) continue;
    if (contains(spec.normalised, id)) continue;
    const bool as_spelt = literal || control;
    spellings[i] = as_spelt ? literal_text(spec, id) : user_defined_text(spec, spec.tokens[i]);
    entries.push_back({spellings[i], id, control});
  }
  return {spec, entries};
}

SpecialMatcher SpecialMatcher::normalised(const TokenizerSpec& spec,
                                          const std::vector<std::string>& spellings) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < spellings.size(); ++i) {
    const int32_t id = spec.normalised[i];
    entries.push_back({spellings[i], id, token_type(spec, id) == TokenType::control});
  }
  // Two may become the same: special tokens come first.
  std::stable_partition(entries.begin(), entries.end(), [](const Entry& e) { return e.control; });
  return {spec, entries};
}

SpecialMatcher::SpecialMatcher(const TokenizerSpec& spec, const std::vector<Entry>& entries)
    : strips_left_(spec.strips_left),
      strips_right_(spec.strips_right),
      single_words_(spec.single_words) {
  std::vector<std::pair<std::string_view, int32_t>> all;
  std::vector<std::pair<std::string_view, int32_t>> user_defined;
  TokenMap by_text;
  for (const Entry& entry : entries) {
    if (entry.spelling.size() > kMaxSpecialBytes) continue;
    by_text.emplace(spec.tokens[static_cast<size_t>(entry.id)], entry.id);
    all.emplace_back(entry.spelling, entry.id);
    if (!entry.control) user_defined.emplace_back(entry.spelling, entry.id);
  }

  if (!strips_left_.empty() || !strips_right_.empty()) {
    // The file says it.
  } else if (looks_like_phi3(spec, by_text)) {
    for (const auto& [text, id] : by_text) {
      if (text != "<unk>" && text != "<s>" && text != "<|endoftext|>") strips_right_.push_back(id);
    }
    std::sort(strips_right_.begin(), strips_right_.end());
  } else if (spec.pre == "jina-v2-de" || spec.pre == "jina-v2-es" || spec.pre == "jina-v2-code") {
    if (const int32_t id = find_any(by_text, {"<mask>"}); id != kNoToken) strips_left_ = {id};
  } else if (spec.pre == "modern-bert") {
    if (const int32_t id = find_any(by_text, {"[MASK]"}); id != kNoToken) strips_left_ = {id};
  }
  all_ = ByteTrie(std::move(all));
  user_defined_ = ByteTrie(std::move(user_defined));
}

SpecialMatcher::Hit SpecialMatcher::find(std::string_view text, Place& place, bool control) const {
  const ByteTrie& trie = control ? all_ : user_defined_;
  for (size_t i = place.from; i < text.size(); ++i) {
    if (!trie.starts_with(static_cast<uint8_t>(text[i]))) continue;
    const ByteTrie::Match match = trie.longest_prefix(text.substr(i));
    if (match.value < 0) continue;
    const int32_t id = match.value;
    const size_t end = i + match.size;
    if (contains(single_words_, id) &&
        (ends_in_word(text.substr(0, i)) || begins_in_word(text.substr(end)))) {
      i = end - 1;
      continue;
    }
    size_t first = i;
    if (contains(strips_left_, id)) {
      first = i > place.taken ? i - trailing_white(text.substr(place.taken, i - place.taken))
                              : place.taken;
    }
    size_t last = end;
    if (contains(strips_right_, id)) {
      if (place.white_end < end) place.white_end = end + leading_white(text.substr(end));
      last = place.white_end;
    }
    // White space that a token takes may have tokens of its own. They count as well, unless they
    // take what is before them, which is gone.
    const Hit hit{place.taken, first, id};
    place.from = end;
    place.taken = last;
    if (first < last) return hit;
    i = end - 1;
  }
  place.from = text.size();
  return {place.taken, text.size()};
}

}  // namespace infer
