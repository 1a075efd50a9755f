// Every hand-written matcher equals the regular expression it stands for, as PCRE2 sees it.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pretokenizer.h"

#include <doctest.h>
#include <pcre2.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

using namespace infer;

namespace {

/// PCRE2 counts U+180E as white space and its version of Unicode differs, so the class is spelt
/// out.
std::string for_pcre2(std::string_view pattern) {
  constexpr std::string_view kSpaces =
      "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
      "\\x{3000}";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kSpaces) : "[" + std::string(kSpaces) + "]";
      } else if (next == 'S') {
        REQUIRE_FALSE(in_class);
        out += "[^" + std::string(kSpaces) + "]";
      } else if (pattern.substr(i).starts_with("p{Han}")) {
        out += "\\p{sc:Han}";
        i += std::string_view("{Han}").size();
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

class Regex {
 public:
  explicit Regex(std::string_view pattern) {
    const std::string text = for_pcre2(pattern);
    int code = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr);
    REQUIRE_MESSAGE(code_ != nullptr, text, " at ", offset, ": error ", code);
    data_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Regex() {
    pcre2_match_data_free(data_);
    pcre2_code_free(code_);
  }
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// Where text[begin, end), seen as a text of its own, is cut.
  void split(std::string_view text, uint32_t begin, uint32_t end, std::vector<uint32_t>& ends) {
    const std::string_view part = text.substr(begin, end - begin);
    size_t gap = 0;
    const auto cut = [&](size_t at) {
      if (at > gap) ends.push_back(begin + static_cast<uint32_t>(at));
      gap = std::max(gap, at);
    };
    for (size_t pos = 0; pos < part.size();) {
      const int rc = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(part.data()), part.size(), pos,
                                 0, data_, nullptr);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      REQUIRE(rc > 0);
      const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data_);
      cut(match[0]);
      cut(match[1]);
      pos = match[1];
      if (match[1] == match[0] && pos < part.size()) pos += decode_utf8(part, pos).size;
    }
    cut(part.size());
  }

 private:
  pcre2_code* code_;
  pcre2_match_data* data_;
};

/// Characters that the expressions tell apart, and some of every other kind.
std::string random_text(std::mt19937& random, const std::vector<char32_t>& others) {
  static constexpr std::u32string_view kCommon =
      U"  \n\r\t'sStTrRvVmMlLdDeE019aZ.,!?/_-$+|~`^<=>(\u00a0\u3000\u0085\u200b\u00e9\u00c9\u01c5"
      U"\u02b0\u0301\u0903\u20dd\u4e2d\u6587\u3042\u30ab\uac00\u3131\u3105\u0e01\u0661\u2167\u00bd"
      U"\u2026\u3002\uff0c\u20ac\u2603\U0001f600\U0001f999\u017f\u05d0\u0645\u2e80\u3005\ufffd";
  std::string text;
  const size_t length = random() % 24;
  while (text.size() < length) {
    char32_t c = kCommon[random() % kCommon.size()];
    if (random() % 8 == 0) c = others[random() % others.size()];
    const size_t repeat = random() % 6 == 0 ? 1 + random() % 12 : 1;
    for (size_t i = 0; i < repeat; ++i) append_utf8(text, c);
  }
  return text;
}

std::string show(const std::vector<uint32_t>& ends) {
  std::string text;
  for (const uint32_t end : ends) text += std::to_string(end) + " ";
  return text;
}

/// Characters that both Unicode tables put into the same class.
std::vector<char32_t> agreed_characters() {
  const std::pair<const char*, uint32_t> classes[] = {
      {"\\p{Lu}", kLu},         {"\\p{Ll}", kLl},
      {"\\p{Lt}", kLt},         {"\\p{Lm}", kLm},
      {"\\p{Lo}", kLo},         {"\\p{M}", kMark},
      {"\\p{Nd}", kNd},         {"[\\p{Nl}\\p{No}]", kNumberOther},
      {"\\p{P}", kPunctuation}, {"\\p{S}", kSymbol}};
  std::vector<std::unique_ptr<Regex>> regexes;
  for (const auto& [pattern, bits] : classes) regexes.push_back(std::make_unique<Regex>(pattern));
  std::vector<char32_t> agreed;
  size_t differing = 0;
  for (char32_t c = 0x80; c < 0x32000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text = "\x01";
    append_utf8(text, c);
    bool same = true;
    for (size_t i = 0; i < std::size(classes); ++i) {
      std::vector<uint32_t> ends;
      regexes[i]->split(text, 0, static_cast<uint32_t>(text.size()), ends);
      same = same && (ends.size() == 2) == ((char_class(c) & classes[i].second) != 0);
    }
    if (same) agreed.push_back(c);
    differing += same ? 0 : 1;
  }
  CHECK(differing < 10000);
  return agreed;
}

}  // namespace

TEST_CASE("the matchers equal their regular expressions on random texts") {
  const std::vector<char32_t> others = agreed_characters();
  std::set<
      std::pair<const char*, void (*)(const CharText&, uint32_t, uint32_t, std::vector<uint32_t>&)>>
      seen;
  for (const NamedPreTokenizer& named : all_pretokenizers()) {
    for (const SplitStage& stage : named.rules->stages) {
      if (!seen.insert({stage.pattern, stage.split}).second) continue;
      CAPTURE(named.name);
      const std::string pattern = stage.pattern;
      CAPTURE(pattern);
      Regex regex(stage.pattern);
      std::mt19937 random(static_cast<uint32_t>(seen.size()));
      for (int round = 0; round < 6000; ++round) {
        const std::string text = random_text(random, others);
        const CharText characters(text);
        std::vector<uint32_t> expected;
        regex.split(text, 0, static_cast<uint32_t>(text.size()), expected);
        std::vector<uint32_t> ends;
        stage.split(characters, 0, characters.size(), ends);
        for (uint32_t& end : ends) end = characters.offset(end);
        if (characters.size() == 0) ends.clear();
        if (ends != expected) {
          CAPTURE(text);
          CHECK(show(ends) == show(expected));
          break;
        }
      }
    }
  }
  CHECK(seen.size() >= 36);
}

TEST_CASE("stages apply one after the other, each within the pieces of the last") {
  const auto words = [](std::string_view name, std::string_view text) {
    const PreTokenizer* rules = find_pretokenizer(name);
    REQUIRE(rules != nullptr);
    std::vector<std::string> out;
    uint32_t begin = 0;
    for (const uint32_t end : split_words(*rules, text)) {
      out.emplace_back(text.substr(begin, end - begin));
      begin = end;
    }
    return out;
  };
  using Words = std::vector<std::string>;
  CHECK(words("gpt-2", "I've  2 cats\n\n!") ==
        Words{"I", "'ve", " ", " 2", " cats", "\n", "\n", "!"});
  CHECK(words("llama-bpe", "I'VE 12345 cats\n\n!") ==
        Words{"I", "'VE", " ", "123", "45", " cats", "\n\n", "!"});
  CHECK(words("qwen2", "12 a") == Words{"1", "2", " a"});
  CHECK(words("starcoder", "x12 y") == Words{"x", "1", "2", " y"});
  CHECK(words("gpt-4o", "camelCase HTMLPage's") == Words{"camel", "Case", " HTMLPage's"});
  CHECK(words("superbpe", "a 1234567 b") == Words{"a ", "1", "234", "567", " b"});
  CHECK(words("deepseek-v3", "a中文b 12!") == Words{"a", "中文", "b", " ", "12", "!"});
  CHECK(words("gemma4", "a b\n\nc") == Words{"a b", "\n\n", "c"});
  CHECK(words("tiny_aya", "1234567 1234x") == Words{"1", "234", "567", " ", "123", "4", "x"});
  CHECK(words("gpt-2", "").empty());
}

TEST_CASE("bytes that are not UTF-8 are kept apart and lost nowhere") {
  std::mt19937 random(5);
  for (const NamedPreTokenizer& named : all_pretokenizers()) {
    for (int round = 0; round < 50; ++round) {
      std::string text;
      const size_t length = 1 + random() % 40;
      while (text.size() < length) text += static_cast<char>(random() % 256);
      uint32_t begin = 0;
      for (const uint32_t end : split_words(*named.rules, text)) {
        CHECK(end > begin);
        begin = end;
      }
      CHECK(begin == text.size());
    }
  }
}

TEST_CASE("names are unique and unknown ones are refused") {
  std::set<std::string_view> names;
  for (const NamedPreTokenizer& named : all_pretokenizers()) CHECK(names.insert(named.name).second);
  CHECK(find_pretokenizer("no-such") == nullptr);
  CHECK(find_pretokenizer("") == find_pretokenizer("default"));
  CHECK(pretokenizer_names().find("llama-bpe") != std::string::npos);
}
