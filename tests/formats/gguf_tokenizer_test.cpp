#include <doctest.h>

#include <cmath>
#include <limits>

#include "formats/gguf/tokenizer.h"

using namespace infer;

namespace {

Metadata three_tokens() {
  Metadata m("file");
  m.set("tokenizer.ggml.model", std::string("gpt2"));
  m.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"});
  return m;
}

TokenizerSpec good(const Metadata& metadata) {
  Result<TokenizerSpec> spec = gguf::read_tokenizer(metadata);
  REQUIRE_MESSAGE(spec.has_value(), spec.error().message());
  return *std::move(spec);
}

bool refused(const Metadata& metadata, const char* key) {
  const Result<TokenizerSpec> spec = gguf::read_tokenizer(metadata);
  return !spec && spec.error().code() == StatusCode::bad_file &&
         spec.error().message().find("file: ") == 0 &&
         spec.error().message().find(key) != std::string::npos;
}

}  // namespace

TEST_CASE("a vocabulary is read with all that belongs to it") {
  Metadata m = three_tokens();
  m.set("tokenizer.ggml.pre", std::string("llama-bpe"));
  m.set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  m.set("tokenizer.ggml.scores", std::vector<float>{0, -1, -2});
  m.set("tokenizer.ggml.token_type", std::vector<int32_t>{3, 6, 0});
  m.set("tokenizer.ggml.bos_token_id", uint32_t{2});
  m.set("tokenizer.ggml.eos_token_id", int64_t{1});
  m.set("tokenizer.ggml.padding_token_id", int32_t{-1});
  m.set("tokenizer.ggml.unknown_token_id", uint32_t{0xffffffff});
  m.set("tokenizer.ggml.seperator_token_id", uint8_t{0});
  m.set("tokenizer.ggml.prefix_token_id", uint32_t{1});
  m.set("tokenizer.ggml.add_bos_token", false);
  m.set("tokenizer.ggml.add_space_prefix", true);
  m.set("tokenizer.ggml.precompiled_charsmap", std::vector<int8_t>{1, -1});
  m.set("tokenizer.chat_template", std::string("{{ x }}"));
  m.set("tokenizer.chat_template.rag", std::string("r"));
  m.set("tokenizer.chat_template.tool_use", std::string("t"));
  m.set("tokenizer.chat_templates", std::vector<std::string>{"rag", "tool_use"});
  const TokenizerSpec spec = good(m);
  CHECK(spec.source == "file");
  CHECK(spec.model == "gpt2");
  CHECK(spec.pre == "llama-bpe");
  CHECK(spec.tokens == std::vector<std::string>{"a", "b", "ab"});
  CHECK(spec.scores == std::vector<float>{0, -1, -2});
  CHECK(spec.types ==
        std::vector<TokenType>{TokenType::control, TokenType::byte, TokenType::normal});
  CHECK(spec.merges == std::vector<std::string>{"a b"});
  CHECK(spec.precompiled_charsmap == std::vector<uint8_t>{1, 255});
  CHECK(spec.bos == 2);
  CHECK(spec.eos == 1);
  CHECK(spec.padding == kNoToken);
  CHECK(spec.unknown == kNoToken);
  CHECK(spec.separator == 0);
  CHECK(spec.eot == kNoToken);
  CHECK(spec.fim_pre == 1);
  CHECK(spec.add_bos == 0);
  CHECK(spec.add_eos == -1);
  CHECK(spec.add_space_prefix == 1);
  CHECK(spec.chat_template == "{{ x }}");
  REQUIRE(spec.named_chat_templates.size() == 2);
  CHECK(spec.named_chat_templates[1] == std::pair<std::string, std::string>("tool_use", "t"));
}

TEST_CASE("a file without a vocabulary gives an empty one") {
  CHECK(good(Metadata("file")).tokens.empty());
  Metadata m("file");
  m.set("tokenizer.ggml.model", std::string("none"));
  m.set("tokenizer.ggml.eos_token_id", uint32_t{5});
  CHECK(good(m).eos == kNoToken);
  m.set("tokenizer.ggml.model", std::string("llama"));
  CHECK(refused(m, "tokenizer.ggml.tokens"));
  m.set("tokenizer.ggml.tokens", std::vector<std::string>{});
  CHECK(refused(m, "tokenizer.ggml.tokens"));
}

TEST_CASE("ids outside the vocabulary and lengths that differ are refused") {
  const auto with = [](const char* key, MetaValue value) {
    Metadata m = three_tokens();
    m.set(key, std::move(value));
    return refused(m, key);
  };
  CHECK(with("tokenizer.ggml.bos_token_id", uint32_t{3}));
  CHECK(with("tokenizer.ggml.eos_token_id", int32_t{-2}));
  CHECK(with("tokenizer.ggml.eot_token_id", uint64_t{1} << 32));
  CHECK(with("tokenizer.ggml.mask_token_id", std::string("1")));
  CHECK(with("tokenizer.ggml.middle_token_id", uint32_t{9}));
  CHECK(with("tokenizer.ggml.scores", std::vector<float>{0, 1}));
  CHECK(with("tokenizer.ggml.scores", std::vector<float>{}));
  CHECK(with("tokenizer.ggml.scores", std::vector<float>{0, NAN, 1}));
  CHECK(with("tokenizer.ggml.token_type", std::vector<int32_t>{1, 1, 1, 1}));
  CHECK(with("tokenizer.ggml.token_type", std::vector<int32_t>{1, 7, 1}));
  CHECK(with("tokenizer.ggml.token_type", std::vector<int32_t>{1, -1, 1}));
  CHECK(with("tokenizer.ggml.tokens", std::vector<int32_t>{1}));
  CHECK(with("tokenizer.ggml.merges", std::string("a b")));
  CHECK(with("tokenizer.ggml.add_bos_token", std::string("yes")));
  CHECK(with("tokenizer.ggml.precompiled_charsmap", std::vector<int32_t>{256}));
  CHECK(with("tokenizer.chat_template.x", uint8_t{1}));
}
