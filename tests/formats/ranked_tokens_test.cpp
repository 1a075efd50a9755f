// Vocabularies of tiktoken: ids by rank, and the tokens that the library would make of a text.
#include <doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_keys.h"
#include "formats/gguf/tokenizer.h"
#include "formats/safetensors/tokenizer_json.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string base64(const std::string& bytes) {
  const char* const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? digits[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

/// All bytes, then tokens of two that are there, in a mixed order.
std::vector<std::string> random_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<std::string> parts{"a", "b", "c", " "};
  while (tokens.size() < count) {
    const std::string token = parts[random() % parts.size()] + parts[random() % parts.size()];
    if (token.size() > 9 || token.find(' ', 1) != token.npos) continue;
    if (std::ranges::find(tokens, token) != tokens.end()) continue;
    tokens.push_back(token);
    parts.push_back(token);
  }
  return tokens;
}

std::string file_of(const std::vector<std::string>& tokens) {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    text += base64(tokens[i]) + " " + std::to_string(i) + "\n";
  }
  return text;
}

/// What the library does with one word: as long as two neighbours are a token together, it joins
/// the two of the lowest rank, the first ones if there are several.
std::vector<int32_t> by_ranks(const std::map<std::string, int32_t>& ranks,
                              const std::string& word) {
  if (const auto whole = ranks.find(word); whole != ranks.end()) return {whole->second};
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (;;) {
    size_t best = parts.size();
    int32_t lowest = INT32_MAX;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find(parts[i] + parts[i + 1]);
      if (found == ranks.end() || found->second >= lowest) continue;
      lowest = found->second;
      best = i;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& part : parts) ids.push_back(ranks.at(part));
  return ids;
}

struct Directory {
  TempDir dir;
  Metadata config{"config.json"};
  explicit Directory(int64_t vocab_size) {
    config.set("hf.config.vocab_size", MetaValue(vocab_size));
  }
  void file(const std::string& name, const std::string& text) const {
    write_bytes(dir.path(name), bytes_of(text));
  }
  Result<TokenizerSpec> read() const { return safetensors::read_tokenizer(dir.path(""), config); }
};

TEST_CASE("tiktoken: words become the tokens that the library makes of them") {
  for (const uint32_t seed : {1, 2, 3}) {
    const std::vector<std::string> tokens = random_tokens(700, seed);
    std::map<std::string, int32_t> ranks;
    for (size_t i = 0; i < tokens.size(); ++i) ranks[tokens[i]] = static_cast<int32_t>(i);
    Directory directory(1000);
    directory.file("tiktoken.model", file_of(tokens));
    directory.file("tokenizer_config.json", R"({"tokenizer_class":"TikTokenTokenizer"})");
    const auto spec = directory.read();
    REQUIRE_MESSAGE(spec, spec.error().message());
    // As `convert` writes it, too.
    Metadata keys("keys");
    REQUIRE(add_tokenizer_keys(*spec, keys).ok());
    const auto again = gguf::read_tokenizer(keys);
    REQUIRE_MESSAGE(again, again.error().message());
    for (const TokenizerSpec& one : {*spec, *again}) {
      const auto tokenizer = Tokenizer::create(one);
      REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
      std::mt19937 random(seed);
      for (int i = 0; i < 2000; ++i) {
        std::string word = i % 2 == 0 ? " " : "";
        for (size_t n = 1 + random() % 20; n > 0; --n)
          word += static_cast<char>('a' + random() % 3);
        const auto ids = (*tokenizer)->encode(word);
        REQUIRE_MESSAGE(ids, ids.error().message());
        REQUIRE_MESSAGE(*ids == by_ranks(ranks, word), word);
      }
    }
  }
}

TEST_CASE("tiktoken: special tokens are those of the tokenizer's class and of its configuration") {
  const std::vector<std::string> tokens = random_tokens(300, 1);
  Directory kimi(560);
  kimi.file("tiktoken.model", file_of(tokens));
  kimi.file("tokenizer_config.json", R"({"tokenizer_class":"TikTokenTokenizer","eos_token":"[EOS]",
      "bos_token":"[BOS]","added_tokens_decoder":{"300":{"content":"[BOS]","special":true},
      "301":{"content":"[EOS]","special":true},"306":{"content":"<think>","special":false}}})");
  auto spec = kimi.read();
  REQUIRE_MESSAGE(spec, spec.error().message());
  CHECK(spec->model == "gpt2");
  CHECK(spec->pre == "kimi-k2");
  CHECK(spec->tokens.size() == 560);
  CHECK(spec->bos == 300);
  CHECK(spec->eos == 301);
  CHECK(spec->tokens[302] == "<|reserved_token_302|>");
  CHECK(spec->types[302] == TokenType::control);
  CHECK(spec->types[306] == TokenType::user_defined);
  CHECK(spec->tokens[555] == "<|reserved_token_555|>");
  CHECK(spec->tokens[556] == "[PAD556]");
  CHECK(spec->types[556] == TokenType::unused);

  Directory qwen(0);
  qwen.file("qwen.tiktoken", file_of(tokens));
  qwen.file("tokenizer_config.json", R"({"tokenizer_class":"QWenTokenizer"})");
  spec = qwen.read();
  REQUIRE_MESSAGE(spec, spec.error().message());
  CHECK(spec->pre == "qwen2");
  CHECK(spec->compose);
  CHECK(spec->tokens.size() == 508);
  CHECK(spec->eos == 300);
  CHECK(spec->tokens[302] == "<|im_end|>");
  CHECK(spec->tokens[507] == "<|extra_204|>");
  const auto tokenizer = Tokenizer::create(*spec);
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
  const auto ids = (*tokenizer)->encode("<|im_start|>a", {.parse_special = true});
  REQUIRE(ids);
  CHECK(*ids == std::vector<int32_t>{301, 'a'});
}

TEST_CASE("tiktoken: broken files say which line is wrong") {
  Directory directory(0);
  directory.file("tokenizer_config.json", R"({"tokenizer_class":"TikTokenTokenizer"})");
  const auto refused = [&](const std::string& text, const std::string& why) {
    directory.file("tiktoken.model", text);
    const auto spec = directory.read();
    REQUIRE_MESSAGE(!spec, text);
    CHECK(spec.error().code() == StatusCode::bad_file);
    CHECK_MESSAGE(spec.error().message().find(why) != std::string::npos, spec.error().message());
  };
  refused("", "found none");
  refused("YQ== 0\nYg==", "line 2: expected bytes in base64, a space and a rank");
  refused("YQ== 0\nYg== x", "line 2");
  refused("YQ== 0\nYg== -1", "line 2");
  refused("YQ== 0\r\nYg== 99999999999", "line 2");
  refused("Y!== 0", "line 1: expected 1 to");
  refused(" 0", "line 1: expected 1 to");
  refused("YQ== 0\nYg== 0", "a rank that no line before it has");
  refused("YQ== 0\nYg== 2", "expected a token of rank 1");
  refused("YQ== 0\nYQ== 1", "rank 1 has the bytes of another");
  directory.file("tiktoken.model", "YQ== 0");
  directory.file("tokenizer_config.json", R"({"tokenizer_class":"OtherTokenizer"})");
  const auto spec = directory.read();
  REQUIRE(!spec);
  CHECK(spec.error().message().find("'TikTokenTokenizer' or 'QWenTokenizer'") != std::string::npos);
}

}  // namespace
