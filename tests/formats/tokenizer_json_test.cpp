// Vocabularies of tokenizer.json: small ones of every kind, and every known way to break one.
#include <doctest.h>

#include <cmath>
#include <cstring>

#include "engine/core/log.h"
#include "engine/text/tokenizer.h"
#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_keys.h"
#include "formats/gguf/tokenizer.h"
#include "formats/safetensors/tokenizer_json.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

class Directory {
 public:
  explicit Directory(const std::string& tokenizer) { file("tokenizer.json", tokenizer); }
  void file(const std::string& name, const std::string& text) const {
    write_bytes(dir_.path(name), bytes_of(text));
  }
  std::string path() const { return dir_.path(""); }
  Metadata config;
  Result<TokenizerSpec> read() const { return safetensors::read_tokenizer(dir_.path(""), config); }
  TokenizerSpec spec() const {
    auto found = read();
    REQUIRE_MESSAGE(found, found.error().message());
    return *std::move(found);
  }

 private:
  TempDir dir_;
};

const char* const kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
const char* const kMarks =
    R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false})";

std::string file_of(const std::string& model, const std::string& steps,
                    const std::string& more = "") {
  return R"({"added_tokens":[],"pre_tokenizer":)" + steps + R"(,"model":)" + model + more + "}";
}

std::string bpe(const std::string& vocab, const std::string& merges, const std::string& more = "") {
  return R"({"type":"BPE","vocab":{)" + vocab + R"(},"merges":[)" + merges + "]" + more + "}";
}

const std::string kThree = R"("a":0,"b":1,"ab":2)";

void refused(const std::string& file, const std::string& why,
             StatusCode code = StatusCode::bad_file) {
  const auto found = Directory(file).read();
  REQUIRE_MESSAGE(!found, file);
  INFO("found: ", found.error().message(), "; expected in it: ", why);
  CHECK(found.error().code() == code);
  CHECK(found.error().message().find(why) != std::string::npos);
  CHECK(found.error().message().find("tokenizer.json") != std::string::npos);
}

void unsupported(const std::string& file, const std::string& why) {
  refused(file, why, StatusCode::unsupported);
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("byte-level BPE") {
  Directory dir(R"({"normalizer":{"type":"NFC"},"added_tokens":[
      {"id":3,"content":"<s>","special":true,"rstrip":true},{"id":5,"content":"<x>"}],
      "pre_tokenizer":{"type":"Sequence","pretokenizers":[
        {"type":"Split","pattern":{"Regex":"x+"},"behavior":"Removed","invert":true},
        {"type":"Split","pattern":{"String":"a.b"},"behavior":"MergedWithNext"},
        {"type":"Digits","individual_digits":true},
        {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
      "post_processor":{"type":"TemplateProcessing","single":[
        {"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]},
      "model":)" +
                bpe(kThree, R"("a b")", R"(,"ignore_merges":true)") + "}");
  dir.config.set("hf.config.vocab_size", int64_t{7});
  dir.file("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"eos_token":"<x>"})");
  const TokenizerSpec spec = dir.spec();
  CHECK(spec.model == "gpt2");
  CHECK(spec.tokens == Texts{"a", "b", "ab", "<s>", "[PAD4]", "<x>", "[PAD6]"});
  CHECK(spec.types == std::vector{TokenType::normal, TokenType::normal, TokenType::normal,
                                  TokenType::control, TokenType::unused, TokenType::user_defined,
                                  TokenType::unused});
  CHECK(spec.merges == Texts{"a b"});
  CHECK(spec.strips_right == std::vector{3});
  CHECK(spec.compose);
  CHECK(spec.bos == 3);
  CHECK(spec.eos == 5);
  CHECK(spec.add_bos == 1);
  CHECK(spec.add_eos == 0);
  REQUIRE(spec.words);
  CHECK(spec.words->ignore_merges);
  CHECK_FALSE(spec.words->characters);
  REQUIRE(spec.words->steps.size() == 3);
  CHECK(spec.words->steps[0].behaviour == SplitBehaviour::matches);
  CHECK(spec.words->steps[1].pattern == "a\\.b");
  CHECK(spec.words->steps[1].behaviour == SplitBehaviour::next);
  CHECK(spec.words->steps[2].pattern == "\\p{N}");
  Metadata out("x");
  CHECK(add_tokenizer_keys(spec, out).code() == StatusCode::unsupported);
}

TEST_CASE("merges in the manner of SentencePiece become scores") {
  const std::string vocab = R"("<unk>":0,"<0x41>":1,"a":2,"b":3,"c":4,"ab":5,"bc":6,"abc":7)";
  const std::string all = R"(["b","c"],["a","b"],["a","bc"],["ab","c"])";
  const std::string more = R"(,"byte_fallback":true,"unk_token":"<unk>")";
  const TokenizerSpec spec = Directory(file_of(bpe(vocab, all, more), kMarks)).spec();
  // The time that a token takes does not depend on the file.
  const std::string longest = ",\"" + std::string(3'000'000, 'd') + "\":8";
  CHECK(Directory(file_of(bpe(vocab + longest, all, more), kMarks)).spec().model == "gpt2");
  CHECK(spec.model == "llama");
  CHECK_FALSE(spec.words);
  CHECK(spec.add_space_prefix == 1);
  CHECK(spec.prefix_unless_space);
  CHECK(spec.unknown == 0);
  CHECK(spec.types[0] == TokenType::unknown);
  CHECK(spec.types[1] == TokenType::byte);
  CHECK(spec.scores[6] > spec.scores[5]);
  CHECK(spec.scores[5] > spec.scores[7]);
  CHECK(spec.merges.empty());

  // A pair that makes a token and is not in the list, or an order that is none of tokens.
  for (const char* merges :
       {R"(["b","c"],["a","b"],["a","bc"])", R"(["b","c"],["a","bc"],["a","b"],["ab","c"])"}) {
    const TokenizerSpec other = Directory(file_of(bpe(vocab, merges, more), kMarks)).spec();
    CHECK(other.model == "gpt2");
    REQUIRE(other.words);
    CHECK(other.words->characters);
  }
}

TEST_CASE("the keys of a vocabulary are read as they were written") {
  const std::string vocab = R"("<unk>":0,"a":1,"b":2,"ab":3)";
  Directory dir(file_of(bpe(vocab, R"("a b")", R"(,"fuse_unk":true,"unk_token":"<unk>")"), kMarks));
  dir.file("special_tokens_map.json", R"({"pad_token":"<unk>"})");
  const TokenizerSpec spec = dir.spec();
  Metadata metadata("x.gguf");
  REQUIRE(add_tokenizer_keys(spec, metadata).ok());
  const auto again = gguf::read_tokenizer(metadata);
  REQUIRE_MESSAGE(again, again.error().message());
  CHECK(again->model == spec.model);
  CHECK(again->tokens == spec.tokens);
  CHECK(again->scores == spec.scores);
  CHECK(again->types == spec.types);
  CHECK(again->unknown == 0);
  CHECK(again->padding == 0);
  CHECK(again->add_space_prefix == 1);
  CHECK(again->add_bos == spec.add_bos);
}

TEST_CASE("what GGUF has no keys for is kept under keys of our own, and ids are the directory's") {
  const auto read_again = [](const TokenizerSpec& spec) {
    Metadata metadata("x.gguf");
    REQUIRE(add_tokenizer_keys(spec, metadata).ok());
    auto again = gguf::read_tokenizer(metadata);
    REQUIRE_MESSAGE(again, again.error().message());
    return *std::move(again);
  };
  const auto ids = [](const TokenizerSpec& spec, std::string_view text) {
    auto tokenizer = Tokenizer::create(spec);
    REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
    return (*tokenizer)->encode(text, {false, true}).value();
  };
  // e and a combining acute become é before the merges see them.
  TokenizerSpec nfc = Directory(R"({"normalizer":{"type":"NFC"},"added_tokens":[
      {"id":5,"content":"<x>","lstrip":true,"rstrip":true}],"pre_tokenizer":)" +
                                std::string(kByteLevel) + R"(,"model":)" +
                                bpe(R"("Ã":0,"©":1,"Ã©":2,"e":3,"Ġ":4)", R"("Ã ©")") + "}")
                          .spec();
  nfc.words.reset();
  nfc.pre = "gpt-2";
  const TokenizerSpec nfc_again = read_again(nfc);
  CHECK(ids(nfc, "e\u0301 <x> e") == std::vector<int32_t>{2, 5, 3});
  CHECK(ids(nfc_again, "e\u0301 <x> e") == std::vector<int32_t>{2, 5, 3});
  // White space as Unicode has it: next line, no-break space, line separator, ideographic space.
  CHECK(ids(nfc, "e\u3000\u0085 <x>\u00a0\u2028\te") == std::vector<int32_t>{3, 5, 3});
  CHECK(ids(nfc, "\u3000<x>\u3000<x>\u3000") == std::vector<int32_t>{5, 5});
  nfc.ignore_merges = 1;
  CHECK(read_again(nfc).ignore_merges == 1);

  // ▁ is an ordinary character where spaces are spelt otherwise.
  const TokenizerSpec hole = Directory(R"({"added_tokens":[{"id":2,"content":"<a▁b>"}],
      "pre_tokenizer":)" + std::string(kByteLevel) +
                                       R"(,"model":)" + bpe(R"("a":0,"b":1,"<a▁b>":2)", "") + "}")
                                 .spec();
  CHECK(ids(hole, "a<a▁b>b") == std::vector<int32_t>{0, 2, 1});

  const std::string vocab = R"("<unk>":0,"a":1,"b":2,"ab":3,"▁":4)";
  const TokenizerSpec marks =
      Directory(file_of(bpe(vocab, R"("a b")", R"(,"fuse_unk":true,"unk_token":"<unk>")"), kMarks))
          .spec();
  CHECK(ids(marks, " a") == std::vector<int32_t>{4, 1});
  CHECK(ids(read_again(marks), " a") == std::vector<int32_t>{4, 1});

  const TokenizerSpec bert = Directory(R"({"normalizer":{"type":"BertNormalizer"},
      "pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]",
        "max_input_chars_per_word":5,"vocab":{"[UNK]":0,"a":1,"##a":2}}})")
                                 .spec();
  CHECK(bert.max_word_chars == 5);
  const TokenizerSpec turkish =
      Directory(R"({"normalizer":{"type":"BertNormalizer","lowercase":true,"strip_accents":false},
      "pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]",
        "vocab":{"[UNK]":0,"i":1,"##\u0307":2,"##s":3}}})")
          .spec();
  CHECK(ids(turkish, "\u0130s") == std::vector<int32_t>{1, 2, 3});
  CHECK(ids(turkish, "IS") == std::vector<int32_t>{1, 3});
  const TokenizerSpec bert_again = read_again(bert);
  CHECK(ids(bert_again, "aaaaa aaaaaa") == std::vector<int32_t>{1, 2, 2, 2, 2, 0});

  Metadata bad("x.gguf");
  REQUIRE(add_tokenizer_keys(bert, bad).ok());
  bad.set("infer.tokenizer.strips_left", std::vector<int32_t>{3});
  const auto refused_ids = gguf::read_tokenizer(bad);
  REQUIRE_FALSE(refused_ids);
  CHECK(refused_ids.error().message().find("infer.tokenizer.strips_left") != std::string::npos);
}

TEST_CASE("WordPiece: long words are unknown, and a ▁ in the text is a character") {
  TokenizerSpec spec;
  spec.source = "tiny.gguf";
  spec.model = "bert";
  spec.unknown = 0;
  spec.tokens = {"[UNK]", "▁a", "a", "▁b", "▁▁", "b"};
  const auto tokenizer = Tokenizer::create(spec);
  REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
  const auto ids = [&](std::string_view text) {
    return (*tokenizer)->encode(text, {false, false}).value();
  };
  CHECK(ids(std::string(100, 'a')).size() == 100);
  CHECK(ids(std::string(101, 'a').append(" b")) == std::vector<int32_t>{0, 3});
  CHECK(ids("▁b") == std::vector<int32_t>{4, 5});
  CHECK(ids("a▁b") == std::vector<int32_t>{0});  // there is no ##▁
}

TEST_CASE("Unigram and WordPiece") {
  const TokenizerSpec t5 =
      Directory(R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAAAQ=="},
      "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},
        {"type":"Metaspace","replacement":"▁","add_prefix_space":true}]},
      "model":{"type":"Unigram","unk_id":1,"vocab":[["▁",-1.5],["<unk>",0],["a",-2]]}})")
          .spec();
  CHECK(t5.model == "t5");
  CHECK(t5.tokens == Texts{"▁", "<unk>", "a"});
  CHECK(t5.scores == std::vector<float>{-1.5, 0, -2});
  CHECK(t5.unknown == 1);
  CHECK(t5.remove_extra_whitespaces == 1);
  CHECK(t5.add_space_prefix == 1);
  CHECK(t5.precompiled_charsmap == std::vector<uint8_t>{0, 0, 0, 1});

  const TokenizerSpec bert =
      Directory(R"({"normalizer":{"type":"BertNormalizer","lowercase":false,"strip_accents":true},
      "pre_tokenizer":{"type":"BertPreTokenizer"},"added_tokens":[
        {"id":0,"content":"[CLS]","special":true},{"id":1,"content":"[SEP]","special":true}],
      "post_processor":{"type":"BertProcessing","sep":["[SEP]",1],"cls":["[CLS]",0]},
      "model":{"type":"WordPiece","unk_token":"[UNK]",
        "vocab":{"[CLS]":0,"[SEP]":1,"[UNK]":2,"word":3,"##s":4,"##":5}}})")
          .spec();
  CHECK(bert.model == "bert");
  CHECK(bert.tokens == Texts{"[CLS]", "[SEP]", "[UNK]", "▁word", "s", "▁##"});
  CHECK(bert.cls == 0);
  CHECK(bert.separator == 1);
  CHECK(bert.unknown == 2);
  CHECK(bert.lowercase == 0);
  CHECK(bert.strip_accents == 1);
}

TEST_CASE("Unigram: runs of spaces that become one, also at the ends") {
  // By the library tokenizers: "a  a" and " a" have one ▁ each before what follows.
  const std::string model =
      R"("model":{"type":"Unigram","unk_id":1,"vocab":[["▁",-1.5],["<unk>",0],["a",-2]]}})";
  const std::string joins =
      R"({"normalizer":{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "},)";
  const auto encoded = [&](const std::string& scheme, const std::string& text) {
    const TokenizerSpec spec =
        Directory(joins +
                  R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":")" +
                  scheme + "\"}," + model)
            .spec();
    CHECK(spec.join_spaces);
    CHECK(spec.remove_extra_whitespaces == 0);
    return Tokenizer::create(spec).value()->encode(text, {}).value();
  };
  using Ids = std::vector<int32_t>;
  CHECK(encoded("always", "a  a") == Ids{0, 2, 0, 2});
  CHECK(encoded("always", "   a ") == Ids{0, 2, 0});
  CHECK(encoded("never", "a   a") == Ids{2, 0, 2});
}

TEST_CASE("texts that end with another token than answers") {
  // As in Qwen3-Embedding.
  const Directory directory(
      R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
      "added_tokens":[{"id":2,"content":"<end of text>","special":true},
                      {"id":3,"content":"<end of turn>","special":true}],
      "post_processor":{"type":"TemplateProcessing",
        "single":[{"Sequence":{"id":"A","type_id":0}},
                  {"SpecialToken":{"id":"<end of text>","type_id":0}}],
        "pair":[],"special_tokens":{"<end of text>":{"id":"<end of text>","ids":[2],
                                    "tokens":["<end of text>"]}}},
      "model":{"type":"BPE","vocab":{"a":0,"b":1,"<end of text>":2,"<end of turn>":3},
               "merges":[]}})");
  directory.file("tokenizer_config.json", R"({"eos_token":"<end of turn>"})");
  const TokenizerSpec spec = directory.spec();
  CHECK(spec.eos == 2);
  CHECK(spec.eot == 3);
  CHECK(spec.add_eos == 1);
}

TEST_CASE("what a tokenizer.json has in the wrong place is named") {
  refused("", "not valid JSON");
  refused("[]", "expected an object");
  refused("{", "not valid JSON at its byte");
  refused(R"({"a":1,"a":2})", "'a' appears twice");
  refused("{\"a\":\"\xff\"}", "not valid JSON");
  refused(R"({"a":)" + std::string(1000, '['), "levels");
  refused("{}", "'model.vocab': expected a vocabulary, found nothing");
  refused(R"({"model":1})", "'model': expected an object, found 1");
  refused(R"({"model":{"vocab":1}})", "'model.vocab'");
  refused(file_of(bpe(R"("a":-1)", ""), kByteLevel), "'model.vocab.a'");
  refused(file_of(bpe(R"("a":4294967296)", ""), kByteLevel), "found 4294967296");
  refused(file_of(bpe(R"("a":18446744073709551615)", ""), kByteLevel), "'model.vocab.a'");
  refused(file_of(bpe(R"("a":0.5)", ""), kByteLevel), "found 0.5");
  refused(file_of(bpe(R"("a":0,"b":0)", ""), kByteLevel), "an id of its own, not that of 'a'");
  for (const char* merge :
       {"1", R"("ab")", R"("a b c")", R"("a ")", R"(["a"])", "{}", R"(["",""])"}) {
    refused(file_of(bpe(kThree, merge), kByteLevel), "'model.merges[0]'");
  }
  refused(file_of(bpe(kThree, R"("a b","a c")"), kByteLevel), "'model.merges[1]'");
  refused(file_of(bpe(kThree, R"("a ab")"), kByteLevel), "'model.merges[0]'");
  refused(file_of(bpe(kThree, "", R"(,"unk_token":"?")"), kMarks), "'model.unk_token'");
  refused(file_of(bpe(kThree, "", R"(,"ignore_merges":1)"), kByteLevel), "expected true or false");
  refused(file_of(R"({"type":"BPE","vocab":{"a":0},"merges":{}})", kByteLevel),
          "expected an array");
  refused(file_of(R"({"type":"Unigram","vocab":[["a"]]})", kMarks), "'model.vocab[0]'");
  refused(file_of(R"({"type":"Unigram","vocab":[["a","b"]]})", kMarks), "expected a number");
  refused(file_of(R"({"type":"Unigram","vocab":[["a",0]],"unk_id":1})", kMarks), "'model.unk_id'");
  const std::string added = R"({"model":)" + bpe(kThree, "") + R"(,"added_tokens":)";
  refused(added + "1}", "'added_tokens': expected an array");
  refused(added + R"([{"content":"x"}]})", "'added_tokens[0].id'");
  refused(added + R"([{"id":9}]})", "'added_tokens[0].content'");
  refused(added + R"([{"id":1,"content":"x"}]})", "another id than that of 'b'");
  refused(added + R"([{"id":1048576,"content":"x"}]})", "'added_tokens[0].id'");
  const std::string charsmap = R"({"model":)" + bpe(kThree, "") +
                               R"(,"normalizer":{"type":"Precompiled","precompiled_charsmap":)";
  for (const char* text : {R"("A")", R"("A===")", R"("A_==")", "1"}) {
    refused(charsmap + text + "}}", "precompiled_charsmap");
  }
}

TEST_CASE("what cannot be represented is named") {
  const std::string model = bpe(kThree, R"("a b")");
  const auto step = [&](const std::string& s) { return file_of(model, s); };
  const auto normaliser = [&](const std::string& s) {
    return file_of(model, kByteLevel, R"(,"normalizer":)" + s);
  };
  unsupported(normaliser(R"({"type":"NFKD"})"), "'normalizer': 'NFKD'");
  unsupported(normaliser(R"({"type":"Sequence","normalizers":[{"type":"Lowercase"}]})"),
              "'normalizer.normalizers[0]': 'Lowercase'");
  unsupported(normaliser(R"({"type":"Replace","pattern":{"Regex":"\n"},"content":""})"),
              "of '\\x0a'");
  unsupported(step(R"({"type":"UnicodeScripts"})"), "'pre_tokenizer': 'UnicodeScripts'");
  unsupported(step(R"({"type":"ByteLevel","add_prefix_space":true})"), "add_prefix_space");
  unsupported(step(R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Removed"})"),
              "'Removed'");
  unsupported(step("null"), "without ByteLevel");
  unsupported(file_of(R"({"type":"WordLevel","vocab":{"a":0}})", kByteLevel), "'WordLevel'");
  unsupported(file_of(bpe(kThree, "", R"(,"end_of_word_suffix":"</w>")"), kByteLevel), "'</w>'");
  unsupported(file_of(R"({"type":"WordPiece","vocab":{"a":0}})", kByteLevel), "other than BERT's");
  unsupported(file_of(model, kByteLevel, R"(,"post_processor":{"type":"Odd"})"), "'Odd'");
  refused(step(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"odd"})"),
          "prepend_scheme");
}

TEST_CASE("the files beside it are checked as well, and may be missing") {
  const TempDir empty;
  const auto none = safetensors::read_tokenizer(empty.path(""), Metadata());
  REQUIRE(none);
  CHECK(none->model == "none");
  Directory dir(file_of(bpe(kThree, R"("a b")"), kByteLevel));
  CHECK(dir.spec().bos == kNoToken);
  CHECK(dir.spec().add_bos == 0);
  dir.file("tokenizer_config.json", R"({"add_bos_token":"yes"})");
  auto found = dir.read();
  REQUIRE_FALSE(found);
  CHECK(found.error().message().find("tokenizer_config.json: 'add_bos_token'") !=
        std::string::npos);
  dir.file("tokenizer_config.json", "{");
  CHECK_FALSE(dir.read());
  dir.file("tokenizer_config.json", "{}");
  dir.config.set("hf.config.vocab_size", int64_t{1} << 40);
  CHECK_FALSE(dir.read());
}

TEST_CASE("every bit flip and truncation gives a typed error or a vocabulary that takes a text") {
  const std::string files[] = {
      R"({"added_tokens":[{"id":3,"content":"<s>","special":true,"lstrip":true}],"pre_tokenizer":
        {"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{L}+| "},
        "behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,
        "use_regex":false}]},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},
        "merges":[["a","b"]],"byte_fallback":false,"unk_token":null}})",
      R"({"normalizer":{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "},
        "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},
        {"type":"Metaspace","replacement":"▁","add_prefix_space":true}]},
        "model":{"type":"Unigram","unk_id":1,"vocab":[["▁",-1.5],["<unk>",0],["a",-2]]}})",
      R"({"normalizer":{"type":"BertNormalizer","lowercase":true,"strip_accents":null},
        "pre_tokenizer":{"type":"BertPreTokenizer"},"added_tokens":[{"id":0,"content":"[CLS]",
        "special":true}],"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":
        {"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":
        {"[CLS]":{"id":"[CLS]","ids":[0],"tokens":["[CLS]"]}}},"model":{"type":"WordPiece",
        "unk_token":"[UNK]","vocab":{"[CLS]":0,"[SEP]":1,"[UNK]":2,"word":3,"##s":4}}})"};
  const LogLevel before = log_level();
  set_log_level(LogLevel::off);
  int taken = 0;
  const auto attempt = [&](const std::string& text) {
    const Directory directory(text);
    const auto spec = directory.read();
    const auto tokenizer = spec ? Tokenizer::create(*spec) : tl::unexpected(spec.error());
    if (!tokenizer) {
      CHECK(tokenizer.error().code() != StatusCode::internal);
      CHECK(tokenizer.error().message().find(directory.path()) != std::string::npos);
      return false;
    }
    const auto ids = (*tokenizer)->encode("Words ab\xc3\xa9 <s>[CLS] \xff");
    if (ids) (*tokenizer)->decode(*ids);
    if (!ids) CHECK(ids.error().code() != StatusCode::internal);
    ++taken;
    return true;
  };
  for (const std::string& whole : files) {
    INFO(whole);
    CHECK(attempt(whole));
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      CAPTURE(bit);
      std::string file = whole;
      file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
      attempt(file);
    }
    for (size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      CHECK_FALSE(attempt(whole.substr(0, size)));
    }
  }
  CHECK(taken > 100);
  set_log_level(before);
}

namespace {

/// A field of a protocol buffer's message: its number, and a number or bytes.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes + static_cast<char>(value);
}
std::string number(uint32_t field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string text(uint32_t field, const std::string& bytes) {
  return varint((field << 3) | 2) + varint(bytes.size()) + bytes;
}
std::string token(const std::string& spelling, uint64_t type = 1, float score = 0) {
  uint32_t bits = 0;
  std::memcpy(&bits, &score, sizeof(bits));
  std::string fixed(reinterpret_cast<const char*>(&bits), sizeof(bits));
  return text(1, text(1, spelling) + varint(2 << 3 | 5) + fixed + number(3, type));
}
const std::string kBpe = text(2, number(3, 2)) + text(3, number(4, 0));

struct ModelDirectory {
  TempDir dir;
  Metadata config;
  explicit ModelDirectory(const std::string& model) { file("tokenizer.model", model); }
  void file(const std::string& name, const std::string& contents) const {
    write_bytes(dir.path(name), bytes_of(contents));
  }
  Result<TokenizerSpec> read() const { return safetensors::read_tokenizer(dir.path(""), config); }
};

}  // namespace

TEST_CASE("tokenizer.model: what other files add") {
  ModelDirectory dir(token("<unk>", 2) + token("<s>", 3) + token("</s>", 3) + token("a", 1, -1) +
                     kBpe);
  dir.file("tokenizer_config.json", R"({"tokenizer_class":"LlamaTokenizer","eos_token":"<end>",
      "added_tokens_decoder":{"0":{"content":"<unk>","special":true},
                              "4":{"content":"<end>","special":true,"rstrip":true}}})");
  dir.file("added_tokens.json", R"({"<more>":6})");
  dir.config.set("hf.config.vocab_size", MetaValue(int64_t{8}));
  const auto spec = dir.read();
  REQUIRE_MESSAGE(spec, spec.error().message());
  CHECK(spec->model == "llama");
  CHECK(spec->tokens == Texts{"<unk>", "<s>", "</s>", "a", "<end>", "[PAD5]", "<more>", "[PAD7]"});
  CHECK(spec->scores.size() == 8);
  using enum TokenType;
  CHECK(spec->types ==
        std::vector{unknown, control, control, normal, control, unused, user_defined, unused});
  CHECK(spec->unknown == 0);
  CHECK(spec->bos == 1);
  CHECK(spec->eos == 4);
  CHECK(spec->add_bos == 1);
  CHECK(spec->strips_right == std::vector<int32_t>{4});
  CHECK_FALSE(spec->prefix_at_start_only);
}

TEST_CASE("tokenizer.model: what is wrong is named") {
  const std::string good = token("<unk>", 2) + token("<s>", 3) + token("</s>", 3) + token("a");
  REQUIRE(ModelDirectory(good + kBpe).read().has_value());
  const auto refused_model = [](const std::string& model, const char* why, StatusCode code) {
    const auto found = ModelDirectory(model).read();
    REQUIRE_MESSAGE(!found, why);
    INFO("found: ", found.error().message(), "; expected in it: ", why);
    CHECK(found.error().code() == code);
    CHECK(found.error().message().find(why) != std::string::npos);
    CHECK(found.error().message().find("tokenizer.model") != std::string::npos);
  };
  const auto bad = [&](const std::string& model, const char* why) {
    refused_model(model, why, StatusCode::bad_file);
  };
  bad("", "found no tokens");
  bad(good.substr(0, good.size() - 1), "more bytes");
  bad(good + std::string(12, '\xff'), "at most 10 bytes");
  bad(good + varint(9 << 3 | 3), "found one of type 3");
  bad(good + token("b", 7), "token 4 ('b'): expected a score and a type from 1 to 6");
  bad(good + token("b", 1, std::nanf("")), "token 4 ('b')");
  bad(good + text(2, number(41, 4)), "bos_id: expected a token, 0 to 3, found 4");
  bad(good + text(2, number(42, uint64_t{1} << 63)), "eos_id");
  const auto other = [&](const std::string& model, const char* why) {
    refused_model(good + model, why, StatusCode::unsupported);
  };
  other(text(2, number(3, 3)), "of words or characters");
  other(text(2, number(24, 1)), "at the end of words");
  other(text(3, number(5, 0)), "without ▁");
  other(text(2, number(3, 2)), "that merge spaces");
  other(text(2, number(3, 2)) + text(3, text(2, "xxxx") + number(4, 0)), "that normalise");

  // Whatever a byte is changed to, there is an answer.
  const std::string model = good + kBpe;
  for (size_t i = 0; i < model.size(); ++i) {
    for (const int flip : {1, 0x10, 0x80, 0xff}) {
      std::string damaged = model;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto found = ModelDirectory(damaged).read();
      CHECK((found.has_value() || !found.error().message().empty()));
    }
  }
}

TEST_CASE("tokenizer.jsonl: tokens, scores and kinds, and what tokenizer_config.json says") {
  TempDir dir;
  const auto file = [&](const std::string& name, const std::string& contents) {
    write_bytes(dir.path(name), bytes_of(contents));
  };
  Metadata config;
  config.set("hf.config.vocab_size", MetaValue(int64_t{7}));
  const std::string rows =
      "[\"<|plamo:unk|>\", 0.0, \"UNKNOWN\", null]\n[\"<|plamo:bos|>\", 0, \"CONTROL\"]\r\n"
      "[\"<0x0A>\", 0, \"BYTE\"]\n\n[\"日本\", -7.25, \"NORMAL\", null]\n[\"<|plamo:op|>\", 0]";
  file("tokenizer.jsonl", rows);
  file("tokenizer_config.json", R"({"eos_token":"<|plamo:op|>","add_bos_token":true,
      "break_around_repeated_chars_threshold":4,"break_around_consecutive_spaces_threshold":3})");
  const auto read = [&] { return safetensors::read_tokenizer(dir.path(""), config); };
  auto spec = read();
  REQUIRE_MESSAGE(spec, spec.error().message());
  CHECK(spec->model == "plamo2");
  CHECK(spec->tokens == Texts{"<|plamo:unk|>", "<|plamo:bos|>", "<0x0A>", "日本", "<|plamo:op|>",
                              "[PAD5]", "[PAD6]"});
  using enum TokenType;
  CHECK(spec->types == std::vector{unknown, control, byte, normal, control, unused, unused});
  CHECK(spec->scores[3] == -7.25f);
  CHECK(spec->unknown == 0);
  CHECK(spec->bos == 1);
  CHECK(spec->eos == 4);
  CHECK(spec->eot == 4);
  CHECK(spec->add_bos == 1);
  CHECK(spec->cut_repeats == 4);
  CHECK(spec->cut_spaces == 3);

  // As `convert` writes it.
  Metadata keys("keys");
  REQUIRE(add_tokenizer_keys(*spec, keys).ok());
  const auto again = gguf::read_tokenizer(keys);
  REQUIRE_MESSAGE(again, again.error().message());
  CHECK(again->tokens == spec->tokens);
  CHECK(again->types == spec->types);
  CHECK(again->scores == spec->scores);
  CHECK(again->cut_repeats == 4);
  CHECK(again->cut_spaces == 3);

  const auto refused_row = [&](const std::string& row, const char* why) {
    file("tokenizer.jsonl", rows + "\n" + row);
    const auto found = read();
    REQUIRE_MESSAGE(!found, row);
    INFO("found: ", found.error().message(), "; expected in it: ", why);
    CHECK(found.error().code() == StatusCode::bad_file);
    CHECK(found.error().message().find(why) != std::string::npos);
    CHECK(found.error().message().find("line 7") != std::string::npos);
  };
  refused_row("[\"a\"]", "a token, its score");
  refused_row("{\"a\": 1}", "an array");
  refused_row("[3, 1.0]", "a string");
  refused_row("[\"a\", \"b\"]", "number");
  refused_row("[\"a\", 1e300]", "finite");
  refused_row("[\"a\", 1", "line 7");
  refused_row("1} , {", "line 7");
}
