// The published pre-tokenizers: regular expressions and the matchers that equal them.
#include "engine/text/pretokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "engine/text/regex_splitter.h"
#include "engine/text/split_rules.h"
#include "engine/text/split_sets.h"

namespace infer {
namespace {

using namespace split;

// Sets that only one or two vocabularies use.

bool is_newline_at(const CharText& t, uint32_t i) { return is_newline(t.code(i)); }
bool is_letter(const CharText& t, uint32_t i) { return t.is(i, kLetter); }
bool is_punctuation(const CharText& t, uint32_t i) { return t.is(i, kPunctuation); }

bool is_ascii_digit(const CharText& t, uint32_t i) { return t.code(i) >= '0' && t.code(i) <= '9'; }

bool between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

bool is_deepseek_punctuation(const CharText& t, uint32_t i) {
  const char32_t c = t.code(i);
  return between(c, 0x21, 0x2f) || between(c, 0x3a, 0x7e) || between(c, 0xff01, 0xff0f) ||
         between(c, 0xff1a, 0xff5e) || between(c, 0x2018, 0x201f) || between(c, 0x3000, 0x3002);
}

bool is_east_asian(const CharText& t, uint32_t i) {
  const char32_t c = t.code(i);
  return between(c, 0x0800, 0x9fa5) || between(c, 0xac00, 0xd7ff);
}

bool is_ideograph_or_kana(const CharText& t, uint32_t i) {
  const char32_t c = t.code(i);
  return between(c, 0x4e00, 0x9fa5) || between(c, 0x3040, 0x30ff);
}

bool is_falcon_punctuation(const CharText& t, uint32_t i) {
  return t.is(i, kPunctuation) || (t.code(i) < 128 && is_ascii_punctuation(t.code(i)));
}

bool is_default_punctuation(const CharText& t, uint32_t i) {
  return is_falcon_punctuation(t, i) && t.code(i) != '`';
}

bool is_bloom_word(const CharText& t, uint32_t i) {
  constexpr std::u32string_view kEnders = U"(|.,!?)\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c";
  return !t.is(i, kSpace) && kEnders.find(t.code(i)) == std::u32string_view::npos;
}

bool is_hangul(const CharText& t, uint32_t i) {
  return between(t.code(i), 0xac00, 0xd7a3) || between(t.code(i), 0x3131, 0x318e);
}

bool is_bopomofo(const CharText& t, uint32_t i) { return between(t.code(i), 0x3105, 0x312f); }

/// `[^\n]+|[\n]+`
struct Lines {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    const bool lf = text.code(pos) == '\n';
    while (pos < end && (text.code(pos) == '\n') == lf) ++pos;
    return pos;
  }
};

/// A run of one of four sets.
struct YoutuScripts {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    for (const auto is : {is_hangul, is_youtu_punctuation, is_bopomofo, is_ideograph_or_kana}) {
      uint32_t stop = pos;
      while (stop < end && is(text, stop)) ++stop;
      if (stop > pos) return stop;
    }
    return pos;
  }
};

/// `[0-9][0-9][0-9]`
struct ThreeDigits {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    if (end - pos < 3) return pos;
    for (uint32_t i = pos; i < pos + 3; ++i) {
      if (!is_ascii_digit(text, i)) return pos;
    }
    return pos + 3;
  }
};

/// `<sentinel:[0-9]+>`
struct ChameleonSentinel {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    constexpr std::u32string_view kBegin = U"<sentinel:";
    uint32_t i = pos;
    for (const char32_t c : kBegin) {
      if (i >= end || text.code(i) != c) return pos;
      ++i;
    }
    const uint32_t digits = i;
    while (i < end && is_ascii_digit(text, i)) ++i;
    return i > digits && i < end && text.code(i) == '>' ? i + 1 : pos;
  }
};

/// `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`
struct ChameleonImage {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    constexpr std::u32string_view kBegin = U"IMGIMG";
    uint32_t i = pos;
    for (const char32_t c : kBegin) {
      if (i >= end || text.code(i) != c) return pos;
      ++i;
    }
    const uint32_t first = i;
    while (i < end && i < first + 4 && between(text.code(i), 'A', 'I')) ++i;
    return i > first && i < end && text.code(i) == 'Z' ? i + 1 : pos;
  }
};

/// `[\t\n]|    |  `
struct ChameleonSpace {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    if (text.code(pos) == '\t' || text.code(pos) == '\n') return pos + 1;
    uint32_t spaces = 0;
    while (spaces < 4 && pos + spaces < end && text.code(pos + spaces) == ' ') ++spaces;
    return spaces == 4 ? pos + 4 : spaces >= 2 ? pos + 2 : pos;
  }
};

// Parts of the expressions that recur.
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+"
#define SPACE "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end) \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define HAN_UPPER "(?:(?!\\p{Han})" UPPER ")"
#define HAN_LOWER "(?:(?!\\p{Han})" LOWER ")"
#define ASCII_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define DEEPSEEK_LETTERS "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"

// Stages that several use.
constexpr SplitStage kGpt2Stage{
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    split_by<Gpt2>};
constexpr SplitStage kOneNumber{"\\p{N}", split_by<ClassRun<kNumber, 1>>};
constexpr SplitStage kThreeNumbers{"\\p{N}{1,3}", split_by<ClassRun<kNumber, 3>>};
constexpr SplitStage kNumbers{"\\p{N}+", split_by<ClassRun<kNumber>>};
constexpr SplitStage kThreeDigits{"[0-9][0-9][0-9]", split_by<ThreeDigits>};
constexpr SplitStage kNewline{"[\\r\\n]", split_by<One<is_newline_at>>};
constexpr SplitStage kEastAsian{"[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+",
                                split_by<Run<is_east_asian>>};
constexpr SplitStage kIdeographsAndKana{
    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
    split_by<Run<is_ideograph_or_kana>>};
constexpr SplitStage kLines{"[^\\n]+|[\\n]+", split_by<Lines>};
constexpr SplitStage kBloom{
    " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+",
    split_by<SpacedRun<is_bloom_word, true>>};
constexpr SplitStage kLlama3Stage{CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS
                                              "[\\r\\n]*|" SPACE,
                                  split_by<Cl100k<Cl100kRules{}>>};
constexpr SplitStage kQwen2Stage{CONTRACTION "|" LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|" SPACE,
                                 split_by<Cl100k<Cl100kRules{.digits = 1}>>};
constexpr SplitStage kO200kStage{CASED(CONTRACTION "?") "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n/]*|" SPACE,
                                 split_by<O200k<O200kRules{}>>};
constexpr SplitStage kDeepseekStage{ASCII_WORD "|" DEEPSEEK_LETTERS
                                               "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACE,
                                    split_by<DeepSeek<false>>};

constexpr SplitStage kGpt2[] = {kGpt2Stage};
constexpr SplitStage kStarcoder[] = {kOneNumber, kGpt2Stage};
constexpr SplitStage kFalcon[] = {
    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", split_by<Run<is_falcon_punctuation>>}, kGpt2Stage, kThreeDigits};
constexpr SplitStage kDefault[] = {
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", split_by<Run<is_default_punctuation>>},
    kGpt2Stage,
    kNumbers,
    kThreeDigits};
constexpr SplitStage kLlama3[] = {kLlama3Stage};
constexpr SplitStage kQwen2[] = {kQwen2Stage};
constexpr SplitStage kQwen35[] = {
    {CONTRACTION
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACE,
     split_by<Cl100k<Cl100kRules{.word = kLetter | kMark, .digits = 1}>>}};
constexpr SplitStage kMinicpm5[] = {kThreeNumbers,
                                    {CONTRACTION "|" LETTERS "|\\p{N}+|" SYMBOLS "[\\r\\n]*|" SPACE,
                                     split_by<Cl100k<Cl100kRules{.digits = UINT32_MAX}>>}};
constexpr SplitStage kUfakzeka[] = {
    {LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|" SPACE,
     split_by<Cl100k<Cl100kRules{.contractions = false, .digits = 1}>>}};
constexpr SplitStage kSeedCoder[] = {
    {CONTRACTION "|" LETTERS "|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACE,
     split_by<Cl100k<Cl100kRules{.digits = 1, .tail = Tail::none}>>}};
constexpr SplitStage kBailing[] = {{"'(?i:[sdmt]|ll|ve|re)|" LETTERS "|\\p{N}|" SYMBOLS
                                    "[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
                                    split_by<Cl100k<Cl100kRules{.digits = 1}>>}};
constexpr SplitStage kExaoneMoe[] = {
    {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" SYMBOLS
                 "[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     split_by<Cl100k<Cl100kRules{
         .digits = 1, .tail = Tail::one_newline_or_slash, .spaced_words = true}>>}};
constexpr SplitStage kJais2[] = {
    {CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS
                 "[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)"
                 "|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)"
                 "|\\s{1,2}(?!\\S)|\\s{1}",
     split_by<Cl100k<Cl100kRules{.cascade = true}>>}};
constexpr SplitStage kLaguna[] = {kLines, kQwen2Stage};
constexpr SplitStage kLinesOnly[] = {kLines};
constexpr SplitStage kO200k[] = {kO200kStage};
constexpr SplitStage kTekken[] = {
    {CASED("") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" SPACE,
     split_by<O200k<O200kRules{.contractions = false, .digits = 1}>>}};
constexpr SplitStage kTinyAya[] = {
    {"\\d{1,3}(?=(?:\\d{3})*(?![\\p{L}\\p{M}\\p{N}_]))", split_number_groups}, kO200kStage};
constexpr SplitStage kKimi[] = {
    {"\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?" HAN_UPPER "*" HAN_LOWER "+" CONTRACTION
     "?|[^\\r\\n\\p{L}\\p{N}]?" HAN_UPPER "+" HAN_LOWER "*" CONTRACTION "?|\\p{N}{1,3}|" SYMBOLS
     "[\\r\\n]*|" SPACE,
     split_by<O200k<O200kRules{.tail = Tail::newlines, .han_apart = true}>>}};
constexpr SplitStage kYoutu[] = {
    {"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{"
     "2019}"
     "\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+"
     "|[\\x{3105}-\\x{312f}]+|[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
     split_by<YoutuScripts>},
    {CASED(CONTRACTION "?") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" SPACE,
     split_by<O200k<O200kRules{.digits = 1}>>}};
constexpr SplitStage kDeepseekV3[] = {kThreeNumbers, kIdeographsAndKana, kDeepseekStage};
constexpr SplitStage kSpark[] = {
    kThreeNumbers,
    kIdeographsAndKana,
    {ASCII_WORD "|" DEEPSEEK_LETTERS "| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+",
     split_by<DeepSeek<true>>},
    kOneNumber};
constexpr SplitStage kDeepseekCoder[] = {kNewline,
                                         {"\\s?\\p{L}+", split_by<SpacedRun<is_letter>>},
                                         {"\\s?\\p{P}+", split_by<SpacedRun<is_punctuation>>},
                                         kEastAsian,
                                         kOneNumber};
constexpr SplitStage kDeepseekLlm[] = {
    kNewline,
    {"\\s?["
     "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"
     "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}-\\x{377}\\x{37b}-\\x{37d}"
     "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"
     "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"
     "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"
     "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"
     "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"
     "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"
     "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"
     "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"
     "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"
     "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"
     "\\x{214e}\\x{2183}-\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"
     "\\x{2cf2}-\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"
     "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"
     "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"
     "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"
     "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
     "]+",
     split_by<SpacedRun<is_deepseek_letter>>},
    {"\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
     split_by<SpacedRun<is_deepseek_punctuation>>},
    {"\\s+$", split_final_space},
    kEastAsian,
    kNumbers};
constexpr SplitStage kAfmoe[] = {
    {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", split_afmoe_numbers},
    {"[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{"
     "30ff}"
     "\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}"
     "\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{"
     "11ff}]+",
     split_by<Run<is_afmoe_script>>},
    kDeepseekStage};
constexpr SplitStage kBloomOnly[] = {kBloom};
constexpr SplitStage kViking[] = {kBloom, kOneNumber};
constexpr SplitStage kSuperbpe[] = {kNumbers, {"(?=(\\d{3})+(?!\\d))", split_digit_groups}};
constexpr SplitStage kChameleon[] = {
    {"<sentinel:[0-9]+>", split_by<ChameleonSentinel>},
    {"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", split_by<ChameleonImage>},
    {"([\\t\\n]|    |  )", split_by<ChameleonSpace>},
    kOneNumber,
    {"[\\p{P}!-/:-@\\[-`{-~]", split_by<One<is_falcon_punctuation>>},
    kGpt2Stage};

#undef CONTRACTION
#undef LETTERS
#undef SYMBOLS
#undef SPACE
#undef UPPER
#undef LOWER
#undef CASED
#undef HAN_UPPER
#undef HAN_LOWER
#undef ASCII_WORD
#undef DEEPSEEK_LETTERS

constexpr PreTokenizer kDefaultRules{kDefault};
constexpr PreTokenizer kGpt2Rules{kGpt2};
constexpr PreTokenizer kStarcoderRules{kStarcoder};
constexpr PreTokenizer kLlama3Rules{kLlama3, true, true};
constexpr PreTokenizer kPlainLlama3Rules{kLlama3};
constexpr PreTokenizer kQwen2Rules{kQwen2};
constexpr PreTokenizer kO200kRules{kO200k};
constexpr PreTokenizer kO200kWholeRules{kO200k, true};
constexpr PreTokenizer kDeepseekV3Rules{kDeepseekV3};
constexpr PreTokenizer kBailingRules{kBailing};
constexpr PreTokenizer kBloomRules{kBloomOnly};
constexpr PreTokenizer kGemma4Rules{kLinesOnly, false, true, true};
constexpr PreTokenizer kSarvamRules{kLinesOnly, false, false, true};
constexpr PreTokenizer kTinyAyaRules{kTinyAya};
constexpr PreTokenizer kFalconRules{kFalcon};
constexpr PreTokenizer kDeepseekLlmRules{kDeepseekLlm};
constexpr PreTokenizer kDeepseekCoderRules{kDeepseekCoder};
constexpr PreTokenizer kSparkRules{kSpark};
constexpr PreTokenizer kYoutuRules{kYoutu, true};
constexpr PreTokenizer kMinicpm5Rules{kMinicpm5, true};
constexpr PreTokenizer kJais2Rules{kJais2};
constexpr PreTokenizer kQwen35Rules{kQwen35};
constexpr PreTokenizer kVikingRules{kViking};
constexpr PreTokenizer kTekkenRules{kTekken, true, true};
constexpr PreTokenizer kExaoneMoeRules{kExaoneMoe};
constexpr PreTokenizer kChameleonRules{kChameleon, false, true};
constexpr PreTokenizer kSuperbpeRules{kSuperbpe};
constexpr PreTokenizer kSeedCoderRules{kSeedCoder};
constexpr PreTokenizer kKimiRules{kKimi};
constexpr PreTokenizer kUfakzekaRules{kUfakzeka};
constexpr PreTokenizer kAfmoeRules{kAfmoe};
constexpr PreTokenizer kLagunaRules{kLaguna};

constexpr NamedPreTokenizer kNames[] = {
    {"default", &kDefaultRules},
    {"a.x-4.0", &kGpt2Rules},
    {"afmoe", &kAfmoeRules},
    {"bailingmoe", &kBailingRules},
    {"bailingmoe2", &kBailingRules},
    {"bloom", &kBloomRules},
    {"chameleon", &kChameleonRules},
    {"chatglm-bpe", &kPlainLlama3Rules},
    {"codeshell", &kStarcoderRules},
    {"cohere2moe", &kTinyAyaRules},
    {"command-r", &kStarcoderRules},
    {"dbrx", &kPlainLlama3Rules},
    {"deepseek-coder", &kDeepseekCoderRules},
    {"deepseek-llm", &kDeepseekLlmRules},
    {"deepseek-r1-qwen", &kQwen2Rules},
    {"deepseek-v3", &kDeepseekV3Rules},
    {"exaone", &kStarcoderRules},
    {"exaone-moe", &kExaoneMoeRules},
    {"exaone4", &kGpt2Rules},
    {"f2llmv2", &kQwen2Rules},
    {"falcon", &kFalconRules},
    {"falcon-h1", &kLlama3Rules},
    {"falcon3", &kLlama3Rules},
    {"gemma4", &kGemma4Rules},
    {"gigachat", &kGpt2Rules},
    {"glm4", &kPlainLlama3Rules},
    {"gpt-2", &kGpt2Rules},
    {"gpt-4o", &kO200kRules},
    {"gpt3-finnish", &kBloomRules},
    {"granite-docling", &kGpt2Rules},
    {"granite-embed-multi-311m", &kGemma4Rules},
    {"granite-embed-multi-97m", &kO200kWholeRules},
    {"grok-2", &kQwen2Rules},
    {"hunyuan", &kQwen2Rules},
    {"hunyuan-dense", &kDeepseekV3Rules},
    {"hy_v4", &kDeepseekV3Rules},
    {"jais", &kGpt2Rules},
    {"jais-2", &kJais2Rules},
    {"jina-de", &kGpt2Rules},
    {"jina-es", &kGpt2Rules},
    {"jina-v1-en", &kGpt2Rules},
    {"jina-v2-code", &kGpt2Rules},
    {"jina-v2-de", &kGpt2Rules},
    {"jina-v2-es", &kGpt2Rules},
    {"jina-v5-nano", &kLlama3Rules},
    {"joyai-llm", &kDeepseekV3Rules},
    {"kanana2", &kO200kRules},
    {"kimi-k2", &kKimiRules},
    {"kormo", &kQwen2Rules},
    {"laguna", &kLagunaRules},
    {"lfm2", &kLlama3Rules},
    {"llada-moe", &kBailingRules},
    {"llama-bpe", &kLlama3Rules},
    {"llama-v3", &kLlama3Rules},
    {"llama3", &kLlama3Rules},
    {"llama4", &kO200kRules},
    {"megrez", &kQwen2Rules},
    {"mellum", &kGpt2Rules},
    {"mellum2", &kStarcoderRules},
    {"midm-2.0", &kLlama3Rules},
    {"minerva-7b", &kStarcoderRules},
    {"minicpm5", &kMinicpm5Rules},
    {"minimax-m2", &kO200kRules},
    {"modern-bert", &kGpt2Rules},
    {"mpt", &kGpt2Rules},
    {"olmo", &kGpt2Rules},
    {"phi-2", &kGpt2Rules},
    {"pixtral", &kLlama3Rules},
    {"poro-chat", &kBloomRules},
    {"qwen2", &kQwen2Rules},
    {"qwen35", &kQwen35Rules},
    {"refact", &kStarcoderRules},
    {"roberta-bpe", &kGpt2Rules},
    {"sarvam-moe", &kSarvamRules},
    {"seed-coder", &kSeedCoderRules},
    {"smaug-bpe", &kPlainLlama3Rules},
    {"smollm", &kStarcoderRules},
    {"solar-open", &kQwen2Rules},
    {"spark2_5", &kSparkRules},
    {"stablelm2", &kQwen2Rules},
    {"starcoder", &kStarcoderRules},
    {"superbpe", &kSuperbpeRules},
    {"talkie", &kO200kRules},
    {"tekken", &kTekkenRules},
    {"tiny_aya", &kTinyAyaRules},
    {"trillion", &kGpt2Rules},
    {"ufakzeka", &kUfakzekaRules},
    {"viking", &kVikingRules},
    {"youtu", &kYoutuRules},
};

}  // namespace

const PreTokenizer* find_pretokenizer(std::string_view name) {
  if (name.empty()) return &kDefaultRules;
  for (const NamedPreTokenizer& entry : kNames) {
    if (entry.name == name) return entry.rules;
  }
  return nullptr;
}

namespace {

/// A pattern with characters in place of their numbers (\x{4e00}, \u4e00) and letters (\n).
std::string spelt_out(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    size_t begin = 0, end = 0;
    if (pattern[i] == '\\' && pattern.substr(i + 1).starts_with("x{")) {
      begin = i + 3;
      end = std::min(pattern.find('}', begin), pattern.size());
    } else if (pattern[i] == '\\' && pattern.substr(i + 1).starts_with("u")) {
      begin = i + 2;
      end = std::min(begin + 4, pattern.size());
    } else if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[i + 1];
      if (const char c = next == 'r' ? '\r' : next == 'n' ? '\n' : next == 't' ? '\t' : '\0') {
        out += c;
        ++i;
        continue;
      }
      out += pattern[i++];
    }
    uint32_t code = 0;
    const auto parsed = std::from_chars(pattern.data() + begin, pattern.data() + end, code, 16);
    if (end > begin && parsed.ptr == pattern.data() + end && code <= 0x10ffff) {
      append_utf8(out, code);
      i = pattern.substr(end).starts_with('}') ? end : end - 1;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

/// Whether the matches leave nothing between them, so that dropping that makes no difference.
bool matches_everything(std::string_view pattern) { return pattern.ends_with("|\\s+(?!\\S)|\\s+"); }

/// Of names for the same rules those that come first.
constexpr std::string_view kUsual[] = {"gpt-2", "starcoder", "llama-bpe",
                                       "glm4",  "qwen2",     "gpt-4o"};

bool same_step(const SplitRule& rule, const SplitStage& stage) {
  const bool cuts = rule.behaviour == SplitBehaviour::isolated ||
                    (rule.behaviour == SplitBehaviour::matches && matches_everything(rule.pattern));
  return cuts && spelt_out(flat_classes(rule.pattern)) == spelt_out(stage.pattern);
}

}  // namespace

std::string_view find_name(const WordRules& words) {
  if (words.characters) return "";
  std::vector<NamedPreTokenizer> all;
  for (const std::string_view name : kUsual) all.push_back({name, find_pretokenizer(name)});
  all.insert(all.end(), std::begin(kNames), std::end(kNames));
  std::string_view found;
  for (const NamedPreTokenizer& entry : all) {
    if (entry.rules->raw_utf8) continue;
    if (!std::ranges::equal(words.steps, entry.rules->stages, same_step)) continue;
    if (entry.rules->ignore_merges == words.ignore_merges) return entry.name;
    if (found.empty()) found = entry.name;
  }
  return found;
}

std::string pretokenizer_names() {
  std::string names;
  for (const NamedPreTokenizer& entry : kNames) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

std::span<const NamedPreTokenizer> all_pretokenizers() { return kNames; }

std::vector<uint32_t> split_words(const PreTokenizer& rules, std::string_view bytes) {
  const CharText text(bytes);
  std::vector<uint32_t> ends;
  if (text.size() == 0) return ends;
  ends.push_back(text.size());
  std::vector<uint32_t> finer;
  for (const SplitStage& stage : rules.stages) {
    finer.clear();
    finer.reserve(ends.size() + text.size() / 4);
    uint32_t begin = 0;
    for (const uint32_t end : ends) {
      stage.split(text, begin, end, finer);
      begin = end;
    }
    ends.swap(finer);
  }
  for (uint32_t& end : ends) end = text.offset(end);
  return ends;
}

}  // namespace infer
