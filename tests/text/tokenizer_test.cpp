// Each kind on vocabularies small enough to know the answer by hand; special tokens; bad files.
#include "engine/text/tokenizer.h"

#include <doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/text/unicode.h"
#include "tests/text/tiny_vocab.h"

using namespace infer;
using namespace infer::test;
using Ids = std::vector<int32_t>;

namespace {

Ids encode(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options = {false}) {
  return tokenizer.encode(text, options).value();
}

std::string random_bytes(std::mt19937& random) {
  std::string text;
  const size_t length = random() % 60;
  while (text.size() < length) {
    switch (random() % 4) {
      case 0: text += static_cast<char>(random() % 256); break;
      case 1: text += ' '; break;
      case 2: text += static_cast<char>('a' + random() % 4); break;
      default: append_utf8(text, random() % 2 == 0 ? 0x2581 : 0x4e00 + random() % 100);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("SentencePiece BPE merges the best score first, then the leftmost") {
  TokenizerSpec spec = sentencepiece_spec();
  const int32_t space = add_token(spec, "▁", TokenType::normal, -10);
  const int32_t a = add_token(spec, "a", TokenType::normal, -11);
  const int32_t b = add_token(spec, "b", TokenType::normal, -12);
  const int32_t ab = add_token(spec, "ab", TokenType::normal, -2);
  const int32_t ba = add_token(spec, "ba", TokenType::normal, -1);
  const int32_t aa = add_token(spec, "aa", TokenType::normal, -3);
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "aba") == Ids{space, a, ba});
  CHECK(encode(*tokenizer, "aaa") == Ids{space, aa, a});
  CHECK(encode(*tokenizer, "abab") == Ids{space, a, ba, b});
  CHECK(encode(*tokenizer, "ab") == Ids{space, ab});
  // No token: bytes.
  CHECK(encode(*tokenizer, "é") == Ids{space, 3 + 0xc3, 3 + 0xa9});
  CHECK(encode(*tokenizer, "").empty());
  CHECK(tokenizer->decode(encode(*tokenizer, " a  b ")) == " a  b ");
}

TEST_CASE("SentencePiece without byte tokens: a run of unknown characters is one token") {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.unknown = add_token(spec, "<unk>", TokenType::unknown);
  const int32_t a = add_token(spec, "a");
  const int32_t space = add_token(spec, "▁");
  spec.add_space_prefix = 0;
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "aéèa é") == Ids{a, 0, a, space, 0});
}

TEST_CASE("byte-level BPE merges by rank") {
  const TokenizerSpec spec = byte_bpe_spec({{"b", "c"}, {"a", "b"}, {"a", "bc"}, {" ", "a"}});
  const auto tokenizer = make_tokenizer(spec);
  const int32_t bc = 256, ab = 257, abc = 258, space_a = 259;
  CHECK(encode(*tokenizer, "abc") == Ids{abc});
  CHECK(encode(*tokenizer, "ab") == Ids{ab});
  CHECK(encode(*tokenizer, "bbc") == Ids{'b', bc});
  CHECK(encode(*tokenizer, "c a") == Ids{'c', space_a});
  CHECK(tokenizer->piece(space_a) == " a");
  CHECK(tokenizer->token_to_id("Ġa") == space_a);
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_bytes(random);
    CHECK(tokenizer->decode(encode(*tokenizer, text)) == text);
  }
}

TEST_CASE("byte-level BPE: a merge may go through a string that is no token") {
  TokenizerSpec spec = byte_bpe_spec({{"a", "b"}, {"ab", "c"}});
  spec.tokens[256] = "unreachable";
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "abc") == Ids{257});
  CHECK(encode(*tokenizer, "abx") == Ids{'a', 'b', 'x'});
}

TEST_CASE("byte-level BPE: words that are tokens are taken whole where the vocabulary says so") {
  // No merge leads to "abc".
  for (const auto& [pre, whole] : {std::pair("llama-bpe", true), std::pair("gpt-2", false)}) {
    TokenizerSpec spec = byte_bpe_spec({{"b", "c"}}, pre);
    const int32_t abc = add_token(spec, "abc");
    spec.scores.clear();
    const auto tokenizer = make_tokenizer(spec);
    CHECK(encode(*tokenizer, "abc") == (whole ? Ids{abc} : Ids{'a', 256}));
  }
}

TEST_CASE("Gemma 4: merges of characters, ▁ for spaces, bytes in brackets") {
  TokenizerSpec spec = sentencepiece_spec();
  spec.model = "gemma4";
  const int32_t mark = add_token(spec, "▁");
  const int32_t e = add_token(spec, "é");
  const int32_t mark_e = add_token(spec, "▁é");
  const int32_t lines = add_token(spec, "\n\n");
  spec.merges = {"▁ é"};
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "é é ") == Ids{e, mark_e, mark});
  CHECK(encode(*tokenizer, "\n\n") == Ids{lines});
  CHECK(encode(*tokenizer, "ü") == Ids{3 + 0xc3, 3 + 0xbc});
  CHECK(tokenizer->decode(encode(*tokenizer, " é ü\xff\n\n")) == " é ü\xff\n\n");
  CHECK(tokenizer->adds_bos());
}

TEST_CASE("WordPiece takes the longest tokens from the left, or the word is unknown") {
  TokenizerSpec spec;
  spec.model = "bert";
  spec.unknown = add_token(spec, "[UNK]", TokenType::unknown);
  spec.cls = add_token(spec, "[CLS]", TokenType::control);
  spec.separator = add_token(spec, "[SEP]", TokenType::control);
  const int32_t un = add_token(spec, "▁un");
  const int32_t una = add_token(spec, "▁una");
  const int32_t able = add_token(spec, "able");
  const int32_t comma = add_token(spec, "▁,");
  spec.scores.clear();
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "un UNA") == Ids{un, una});
  // Greedy: "una" leaves "ble", which has no token.
  CHECK(encode(*tokenizer, "unable") == Ids{0});
  CHECK(encode(*tokenizer, "unaable,un") == Ids{una, able, comma, un});
  CHECK(encode(*tokenizer, "un", {true}) == Ids{1, un, 2});
  CHECK(tokenizer->decode(Ids{1, una, able, comma, 2}) == "unaable ,");

  spec.lowercase = 0;
  CHECK(encode(*make_tokenizer(spec), "un UN") == Ids{un, 0});
}

TEST_CASE("Unigram finds the best sum of scores") {
  TokenizerSpec spec = unigram_spec();
  const int32_t space = add_token(spec, "▁", TokenType::normal, -3);
  const int32_t a = add_token(spec, "a", TokenType::normal, -2);
  const int32_t b = add_token(spec, "b", TokenType::normal, -2);
  const int32_t ab = add_token(spec, "ab", TokenType::normal, -3);
  const int32_t bab = add_token(spec, "bab", TokenType::normal, -3.5f);
  const int32_t space_a = add_token(spec, "▁a", TokenType::normal, -4.5f);
  const auto tokenizer = make_tokenizer(spec);
  // ▁a b: −6.5; ▁ ab: −6; ▁ a b: −7.
  CHECK(encode(*tokenizer, "ab") == Ids{space, ab});
  // ▁a bab: −8; ▁ ab ab: −9.
  CHECK(encode(*tokenizer, "abab") == Ids{space_a, bab});
  CHECK(encode(*tokenizer, "a") == Ids{space_a});
  // Spaces collapse, those around the text go.
  CHECK(encode(*tokenizer, "  b   b ") == Ids{space, b, space, b});
  CHECK(encode(*tokenizer, "   ").empty());
  // Unknown characters in a row are one token, and eos follows by default.
  CHECK(encode(*tokenizer, "aééa", {true}) == Ids{space_a, 2, a, 1});

  for (int byte = 0; byte < 256; ++byte) add_token(spec, byte_token(byte), TokenType::byte);
  const int32_t first_byte = space_a + 1;
  CHECK(encode(*make_tokenizer(spec), "é") == Ids{space, first_byte + 0xc3, first_byte + 0xa9});

  spec.remove_extra_whitespaces = 0;
  spec.add_space_prefix = 0;
  CHECK(encode(*make_tokenizer(spec), " a  ") == Ids{space_a, space, space});
}

TEST_CASE("Unigram: the precompiled map replaces the longest prefix, and a bad one is refused") {
  // Units by hand: 'x' → "ab", "xy" → "b". Root offset 1024 by scale bit 9 clear: (1 << 10).
  TokenizerSpec spec = unigram_spec();
  const int32_t space = add_token(spec, "▁", TokenType::normal, -1);
  const int32_t a = add_token(spec, "a", TokenType::normal, -1);
  const int32_t b = add_token(spec, "b", TokenType::normal, -1);
  std::vector<uint32_t> units(1024, 0);
  const auto unit = [](uint32_t offset, uint32_t label, bool value) {
    return offset << 10 | (value ? 1u << 8 : 0u) | label;
  };
  units[0] = unit(256, 0, false);
  const uint32_t x = 256 ^ 'x';
  units[x] = unit(512, 'x', true);
  const uint32_t below_x = x ^ 512;
  units[below_x] = 1u << 31 | 0;  // "ab"
  const uint32_t y = below_x ^ 'y';
  units[y] = unit(64, 'y', true);
  units[y ^ 64] = 1u << 31 | 3;  // "b"
  const auto blob = [&](size_t declared_bytes, std::string_view replacements) {
    std::vector<uint8_t> out;
    const auto put = [&](uint32_t v) {
      for (int i = 0; i < 4; ++i) out.push_back(static_cast<uint8_t>(v >> 8 * i));
    };
    put(static_cast<uint32_t>(declared_bytes));
    for (const uint32_t u : units) put(u);
    out.insert(out.end(), replacements.begin(), replacements.end());
    return out;
  };
  const std::string_view replacements("ab\0b\0", 5);
  spec.precompiled_charsmap = blob(units.size() * 4, replacements);
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "xbxy") == Ids{space, a, b, b, b});
  CHECK(encode(*tokenizer, "bx") == Ids{space, b, a, b});

  // Of what a reader takes for one character the beginning counts, if it has at most 5 bytes.
  spec.maps_graphemes = true;
  const auto by_graphemes = make_tokenizer(spec);
  CHECK(encode(*by_graphemes, "xy").size() > 3);  // two, of which y has no token
  CHECK(encode(*by_graphemes, "x\u0301b") == Ids{space, a, b, b});
  CHECK(encode(*by_graphemes, "x\u0301\u0301b") == Ids{space, a, b, b});
  CHECK(encode(*by_graphemes, "x\u20d0\u0301b").size() > 4);
  spec.maps_graphemes = false;
  CHECK(encode(*make_tokenizer(spec), "x\u0301b").size() > 4);

  const auto refused = [&](std::vector<uint8_t> map) {
    spec.precompiled_charsmap = std::move(map);
    const auto result = Tokenizer::create(spec);
    return !result && result.error().code() == StatusCode::bad_file &&
           result.error().message().find("precompiled_charsmap") != std::string::npos;
  };
  CHECK(refused({1, 0}));
  CHECK(refused(blob(units.size() * 4 + 64, replacements)));
  CHECK(refused(blob(units.size() * 4 - 1, replacements)));
  CHECK(refused(blob(units.size() * 4, "no end")));

  // Units that lead anywhere do no harm.
  std::mt19937 random(3);
  for (int i = 0; i < 50; ++i) {
    for (uint32_t& u : units) u = static_cast<uint32_t>(random());
    units[0] = unit(random() % 1024, 0, false);
    spec.precompiled_charsmap = blob(units.size() * 4, replacements);
    const auto wild = make_tokenizer(spec);
    for (int j = 0; j < 50; ++j) encode(*wild, random_bytes(random));
  }
}

TEST_CASE("special tokens in the text: the longest at the leftmost place") {
  TokenizerSpec spec = byte_bpe_spec({{"a", "b"}});
  const int32_t end = add_token(spec, "<|e|>", TokenType::control);
  const int32_t longer = add_token(spec, "<|e|>!", TokenType::control);
  const int32_t user = add_token(spec, "  ", TokenType::user_defined);
  spec.scores.clear();
  const auto tokenizer = make_tokenizer(spec);
  const EncodeOptions parse{false, true};
  CHECK(encode(*tokenizer, "a<|e|>b<|e|>!", parse) == Ids{'a', end, 'b', longer});
  CHECK(encode(*tokenizer, "<|e|<|e|>", parse) == Ids{'<', '|', 'e', '|', end});
  CHECK(encode(*tokenizer, "<|e|>") == Ids{'<', '|', 'e', '|', '>'});
  // User-defined ones count always.
  CHECK(encode(*tokenizer, "a  b").at(1) == user);
  const Ids ids = encode(*tokenizer, "ab<|e|>  ab", parse);
  CHECK(tokenizer->decode(ids) == "ab  ab");
  CHECK(tokenizer->decode(ids, {true}) == "ab<|e|>  ab");
  CHECK(tokenizer->is_control(end));
  CHECK_FALSE(tokenizer->is_control(user));
}

TEST_CASE("end-of-generation tokens by role and by spelling") {
  TokenizerSpec spec = byte_bpe_spec({{"a", "b"}});
  spec.eos = add_token(spec, "<|stop|>", TokenType::control);
  const int32_t im_end = add_token(spec, "<|im_end|>", TokenType::user_defined);
  const int32_t end = add_token(spec, "<|end|>", TokenType::control);
  const int32_t word = add_token(spec, "</s>", TokenType::normal);
  spec.scores.clear();
  auto tokenizer = make_tokenizer(spec);
  CHECK(tokenizer->is_eog(spec.eos));
  CHECK(tokenizer->is_eog(im_end));
  CHECK(tokenizer->is_eog(end));
  CHECK_FALSE(tokenizer->is_eog(word));
  CHECK_FALSE(tokenizer->is_eog('a'));
  CHECK(tokenizer->special().eot == im_end);
  CHECK(tokenizer->is_control(im_end));
  CHECK(tokenizer->decode(Ids{'a', im_end}) == "a");

  // Harmony: <|end|> ends a message, not the answer.
  add_token(spec, "<|return|>", TokenType::control);
  add_token(spec, "<|call|>", TokenType::control);
  spec.scores.clear();
  tokenizer = make_tokenizer(spec);
  CHECK_FALSE(tokenizer->is_eog(end));
  CHECK(tokenizer->is_eog(tokenizer->token_to_id("<|return|>")));
  CHECK(tokenizer->is_eog(tokenizer->token_to_id("<|call|>")));
}

TEST_CASE("what is added around a text follows the file, then the kind") {
  TokenizerSpec spec = byte_bpe_spec({{"a", "b"}});
  spec.bos = add_token(spec, "<b>", TokenType::control);
  spec.eos = add_token(spec, "<e>", TokenType::control);
  spec.scores.clear();
  CHECK(encode(*make_tokenizer(spec), "a", {true}) == Ids{'a'});
  spec.add_bos = spec.add_eos = 1;
  CHECK(encode(*make_tokenizer(spec), "a", {true}) == Ids{spec.bos, 'a', spec.eos});
  spec.bos = kNoToken;
  CHECK(encode(*make_tokenizer(spec), "a", {true}) == Ids{'a', spec.eos});
  spec.add_bos = spec.add_eos = -1;
  spec.bos = 256 + 1;
  spec.pre = "llama-bpe";
  CHECK(encode(*make_tokenizer(spec), "a", {true}) == Ids{spec.bos, 'a'});
}

TEST_CASE("Phi-3's tokens swallow the white space after them") {
  TokenizerSpec spec = sentencepiece_spec();
  const int32_t user = add_token(spec, "<|user|>", TokenType::control);
  const int32_t end = add_token(spec, "<|end|>", TokenType::control);
  const int32_t assistant = add_token(spec, "<|assistant|>", TokenType::control);
  add_token(spec, "<|placeholder1|>", TokenType::control);
  const int32_t mark = add_token(spec, "▁", TokenType::normal, -1);
  const int32_t a = add_token(spec, "a", TokenType::normal, -1);
  const auto tokenizer = make_tokenizer(spec);
  CHECK(encode(*tokenizer, "<|user|>\na<|end|>\n<|assistant|>\n", {false, true}) ==
        Ids{user, mark, a, end, assistant});
  CHECK(encode(*tokenizer, "<s>\n", {false, true}) == Ids{1, mark, 3 + '\n'});
}

TEST_CASE("a vocabulary that contradicts itself is refused by name") {
  const auto refusal = [](TokenizerSpec spec, StatusCode code, std::string_view word) {
    const auto result = Tokenizer::create(std::move(spec));
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == code);
    CHECK_MESSAGE(result.error().message().find(word) != std::string::npos,
                  result.error().message());
    CHECK(result.error().message().find("tiny.gguf") != std::string::npos);
  };
  const TokenizerSpec good = byte_bpe_spec({{"a", "b"}});
  REQUIRE(Tokenizer::create(good));
  TokenizerSpec spec = good;
  spec.model = "rot13";
  refusal(spec, StatusCode::unsupported, "gpt2");
  spec = good;
  spec.pre = "rot13";
  refusal(spec, StatusCode::unsupported, "llama-bpe");
  spec = good;
  spec.tokens.clear();
  spec.types.clear();
  refusal(spec, StatusCode::bad_file, "tokens");
  spec = good;
  spec.types.pop_back();
  refusal(spec, StatusCode::bad_file, "token_type");
  spec = good;
  spec.scores = {1};
  refusal(spec, StatusCode::bad_file, "scores");
  spec = good;
  spec.merges.clear();
  refusal(spec, StatusCode::bad_file, "merges");
  for (const char* merge : {"ab", "", " ", "a ", " b"}) {
    spec = good;
    spec.merges.push_back(merge);
    refusal(spec, StatusCode::bad_file, "merges[1]");
  }
  for (const int32_t id : {-2, 257, INT32_MAX}) {
    spec = good;
    spec.bos = id;
    refusal(spec, StatusCode::bad_file, "bos_token_id");
  }
  spec = sentencepiece_spec();
  spec.scores.clear();
  refusal(spec, StatusCode::bad_file, "scores");
  spec = sentencepiece_spec();
  spec.scores[7] = std::nanf("");
  refusal(spec, StatusCode::bad_file, "scores[7]");
  spec = unigram_spec();
  spec.scores[1] = std::numeric_limits<float>::infinity();
  refusal(spec, StatusCode::bad_file, "scores[1]");
}

TEST_CASE("without a vocabulary there are ids but no texts") {
  TokenizerSpec spec;
  spec.source = "tiny.gguf";
  spec.model = "none";
  const auto tokenizer = make_tokenizer(spec);
  const auto ids = tokenizer->encode("a");
  REQUIRE_FALSE(ids);
  CHECK(ids.error().code() == StatusCode::unsupported);
  CHECK(tokenizer->decode(Ids{1, 2}).empty());
  CHECK(tokenizer->vocab_size() == 0);
  CHECK_FALSE(tokenizer->is_eog(0));
}

TEST_CASE("ids that do not exist leave nothing") {
  const auto tokenizer = make_tokenizer(byte_bpe_spec({{"a", "b"}}));
  CHECK(tokenizer->decode(Ids{-1, 'a', 100000, INT32_MIN}) == "a");
  CHECK(tokenizer->piece(-5).empty());
  CHECK_FALSE(tokenizer->is_control(-1));
}
