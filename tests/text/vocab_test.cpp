// Real vocabularies: ids as the models' own tokenizers give them, and the way back.
#include <doctest.h>

#include <sstream>

#include "engine/text/stream_decoder.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/weight_source.h"
#include "tests/support.h"

using namespace infer;

namespace {

struct Sample {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Sample> read_samples(const std::string& vocabulary) {
  const std::string texts = test::read_text(vocabulary + ".inp");
  std::istringstream ids(test::read_text(vocabulary + ".out"));
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<Sample> samples;
  std::string line;
  for (size_t pos = 0; std::getline(ids, line);) {
    Sample sample;
    const size_t end = texts.find(kSeparator, pos);
    sample.text = texts.substr(pos, end == std::string::npos ? end : end - pos);
    std::istringstream numbers(line);
    for (int32_t id = 0; numbers >> id;) sample.ids.push_back(id);
    samples.push_back(std::move(sample));
    if (end == std::string::npos) break;
    pos = end + kSeparator.size();
  }
  return samples;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  auto source = open_model(path);
  REQUIRE_MESSAGE(source, source.error().message());
  auto tokenizer = Tokenizer::create((*source)->tokenizer());
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
  return *std::move(tokenizer);
}

std::string stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder decoder(tokenizer, {.at_start = true});
  std::string text;
  for (const int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void check_vocabulary(const std::string& path, bool lossless) {
  CAPTURE(path);
  const auto tokenizer = open_tokenizer(path);
  const std::vector<Sample> samples = read_samples(path);
  CHECK(samples.size() > 40);
  for (const Sample& sample : samples) {
    CAPTURE(sample.text);
    CHECK(tokenizer->encode(sample.text, {.add_special = false}).value() == sample.ids);
    if (!lossless) continue;
    CHECK(tokenizer->decode(sample.ids) == sample.text);
    CHECK(stream(*tokenizer, sample.ids) == sample.text);
    // Special tokens around it change nothing for the reader.
    CHECK(tokenizer->decode(tokenizer->encode(sample.text).value()) == sample.text);
  }
}

}  // namespace

TEST_CASE("real vocabularies give the recorded ids, and the text again") {
  check_vocabulary(test::data_path("vocab/bert-bge.gguf"), false);
  for (const char* name :
       {"deepseek-coder", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "starcoder"}) {
    check_vocabulary(test::data_path(std::string("vocab/") + name + ".gguf"), true);
  }
}

/// Models of SentencePiece's own trainer and the ids that its library gives.
TEST_CASE("tokenizer.model: BPE and Unigram give SentencePiece's ids") {
  for (const char* name : {"bpe", "unigram", "unigram-bytes"}) {
    const std::string path = test::data_path("vocab/sentencepiece-" + std::string(name));
    CAPTURE(path);
    auto vocabulary = open_vocabulary(path);
    REQUIRE_MESSAGE(vocabulary, vocabulary.error().message());
    const auto tokenizer = Tokenizer::create(*std::move(vocabulary)).value();
    const std::vector<Sample> samples = read_samples(path);
    CHECK(samples.size() > 40);
    for (const Sample& sample : samples) {
      CAPTURE(sample.text);
      CHECK(tokenizer->encode(sample.text, {.add_special = false}).value() == sample.ids);
    }
  }
}

TEST_CASE("Llama 2: special tokens, bytes and what is no UTF-8") {
  const auto tokenizer = open_tokenizer(test::data_path("vocab/llama-spm.gguf"));
  using Ids = std::vector<int32_t>;
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(tokenizer->adds_bos());
  CHECK_FALSE(tokenizer->adds_eos());
  CHECK(tokenizer->is_eog(2));
  CHECK_FALSE(tokenizer->is_eog(1));
  CHECK(tokenizer->encode("").value() == Ids{1});
  CHECK(tokenizer->encode("Hello").value() == Ids{1, 15043});
  // Spelt out, a control token is one only on request.
  CHECK(tokenizer->encode("</s>", {false, true}).value() == Ids{2});
  const Ids plain = tokenizer->encode("</s>", {false, false}).value();
  CHECK(plain.size() > 1);
  CHECK(tokenizer->decode(plain) == "</s>");
  // The spelling of a byte token is text, too.
  CHECK(tokenizer->decode(tokenizer->encode("<0x0A>").value()) == "<0x0A>");
  CHECK(tokenizer->decode(tokenizer->encode("a</s> b", {true, true}).value(), {true}) ==
        "<s>a</s> b");
  for (const std::string& text : {std::string("\xff\xfe \xc3("), std::string("a\0b", 3),
                                  std::string("\xed\xa0\x80\xf4\x90\x80\x80")}) {
    CHECK(tokenizer->decode(tokenizer->encode(text).value()) == text);
  }
}

TEST_CASE("BERT: Hangul is taken apart into its letters") {
  const auto tokenizer = open_tokenizer(test::data_path("vocab/bert-bge.gguf"));
  const auto ids = [&](const char* text) {
    return tokenizer->encode(text, {.add_special = false}).value();
  };
  using Ids = std::vector<int32_t>;
  // The ids are those of the library `tokenizers`: stripping accents puts a text into Unicode's
  // form D first, in which a syllable is two or three letters. llama.cpp keeps only the first one.
  CHECK(ids("한국어") == Ids{1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008});
  CHECK(ids("안녕하세요 세계") == Ids{1463, 30006, 30021, 29992, 30010, 30025, 30005, 30006, 29997,
                                      30009, 29999, 30013, 100});
  CHECK(ids("서울 2024") == Ids{1461, 30008, 29999, 30014, 30022, 16798, 2549});
}

TEST_CASE("BERT: cleaning, accents, ideographs and unknown words") {
  const auto tokenizer = open_tokenizer(test::data_path("vocab/bert-bge.gguf"));
  const auto ids = [&](const char* text) {
    return tokenizer->encode(text, {.add_special = false}).value();
  };
  CHECK(ids("Hello, WORLD") == ids("  hello ,\tworld\n"));
  CHECK(ids("Café ÀÉ") == ids("cafe ae"));
  CHECK(ids("so\u00adft") == ids("soft"));
  CHECK(ids("中a") == ids("中 a"));
  CHECK(ids("\u2603\u2603") == std::vector<int32_t>{100});
  CHECK(tokenizer->encode("a").value() == std::vector<int32_t>{101, 1037, 102});
  CHECK(tokenizer->decode(ids("hello world")) == "hello world");
}
