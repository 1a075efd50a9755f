// The ids of a tokenizer.json are those of the library `tokenizers`, or the file is refused. What
// is expected here is what version 0.23.3 of the library gives.
#include <doctest.h>

#include <algorithm>

#include "engine/text/tokenizer.h"
#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_keys.h"
#include "formats/gguf/tokenizer.h"
#include "formats/safetensors/tokenizer_json.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

using Ids = std::vector<int32_t>;

Result<TokenizerSpec> read(const std::string& tokenizer) {
  const TempDir dir;
  write_bytes(dir.path("tokenizer.json"), bytes_of(tokenizer));
  return safetensors::read_tokenizer(dir.path(""), Metadata());
}

std::string file_of(const std::string& normaliser, const std::string& steps,
                    const std::string& added, const std::string& model) {
  return R"({"normalizer":)" + normaliser + R"(,"pre_tokenizer":)" + steps +
         R"(,"added_tokens":[)" + added + R"(],"model":)" + model + "}";
}

/// A vocabulary of a directory, and what `infer convert` keeps of it.
class Both {
 public:
  explicit Both(const std::string& file) {
    auto spec = read(file);
    REQUIRE_MESSAGE(spec, spec.error().message());
    if (spec->words && !spec->words->characters) {
      spec->words.reset();
      spec->pre = "gpt-2";
    }
    first_ = made(*spec);
    if (spec->words) return;
    Metadata metadata("x.gguf");
    REQUIRE(add_tokenizer_keys(*spec, metadata).ok());
    auto again = gguf::read_tokenizer(metadata);
    REQUIRE_MESSAGE(again, again.error().message());
    second_ = made(*again);
  }

  Ids ids(std::string_view text) const {
    const Ids found = first_->encode(text, {false, true}).value();
    if (second_) CHECK(second_->encode(text, {false, true}).value() == found);
    return found;
  }
  std::string text(const Ids& ids) const { return first_->decode(ids, {true}); }

 private:
  static std::unique_ptr<Tokenizer> made(const TokenizerSpec& spec) {
    auto tokenizer = Tokenizer::create(spec);
    REQUIRE_MESSAGE(tokenizer, tokenizer.error().message());
    return *std::move(tokenizer);
  }
  std::unique_ptr<Tokenizer> first_, second_;
};

void unsupported(const std::string& file, const std::string& why) {
  const auto found = read(file);
  REQUIRE_MESSAGE(!found, file);
  INFO("found: ", found.error().message(), "; expected in it: ", why);
  CHECK(found.error().code() == StatusCode::unsupported);
  CHECK(found.error().message().find(why) != std::string::npos);
}

const std::string kBytes =
    R"({"type":"BPE","vocab":{"Ã":0,"©":1,"e":2,"a":3,"Ġ":4,"x":5,"Ċ":6,"É":7,"b":8,"xx":9},
       "merges":["x x"]})";
const std::string kByteLevel = R"({"type":"ByteLevel","add_prefix_space":false})";
const std::string kMarks =
    R"({"type":"BPE","unk_token":"<unk>","fuse_unk":true,"vocab":{"<unk>":0,"▁":1,"a":2,"b":3,
       "x":4,"<":5,"t":6,"o":7,"l":8,">":9,"\n":10},"merges":[]})";
const std::string kPrepend = R"({"type":"Prepend","prepend":"▁"})";
const std::string kReplace = R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})";
const std::string kTool = R"({"id":11,"content":"<tool>","normalized":true})";

std::string sequence(const char* list, const std::string& steps) {
  return R"({"type":"Sequence",")" + std::string(list) + R"(":[)" + steps + "]}";
}

std::string metaspace(const std::string& scheme, bool split = false) {
  return R"({"type":"Metaspace","replacement":"▁","prepend_scheme":")" + scheme + R"(","split":)" +
         (split ? "true}" : "false}");
}

const std::string kUnigram =
    R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-3],["a",-3],["b",-3],["▁▁",-1],
       ["a▁b",-1],["▁a",-4],["\n",-3]]})";

}  // namespace

TEST_CASE("normalised tokens are looked for in the normalised text") {
  const Both llama(
      file_of(sequence("normalizers", kPrepend + "," + kReplace), "null", kTool, kMarks));
  CHECK(llama.ids("a<tool>b") == Ids{1, 2, 5, 6, 7, 7, 8, 9, 3});
  CHECK(llama.ids("a <tool>b") == Ids{1, 2, 11, 3});
  CHECK(llama.ids("<tool> b") == Ids{11, 1, 3});
  CHECK(llama.ids("a\n<tool>") == Ids{1, 2, 10, 5, 6, 7, 7, 8, 9});
  CHECK(llama.text({11, 1, 3}) == "<tool> b");

  const Both always(file_of("null", metaspace("always"), kTool, kMarks));
  CHECK(always.ids("a<tool>b") == Ids{1, 2, 11, 1, 3});
  CHECK(always.ids("a <tool> b") == Ids{1, 2, 1, 11, 1, 3});
  const Both first(file_of("null", metaspace("first"), kTool, kMarks));
  CHECK(first.ids("a<tool>b") == Ids{1, 2, 11, 3});
  CHECK(first.ids("<tool>b") == Ids{11, 3});

  const Both composed(file_of(R"({"type":"NFC"})", kByteLevel,
                              R"({"id":10,"content":"é","normalized":true},
                                 {"id":11,"content":"Éa","normalized":true})",
                              kBytes));
  CHECK(composed.ids("e\u0301a") == Ids{10, 3});
  CHECK(composed.ids("é") == Ids{10});

  const Both lower(file_of(R"({"type":"BertNormalizer"})", R"({"type":"BertPreTokenizer"})",
                           R"({"id":4,"content":"b","single_word":true},
                              {"id":5,"content":"AÉ","normalized":true},{"id":6,"content":"T"})",
                           R"({"type":"WordPiece","unk_token":"[UNK]",
                               "vocab":{"[UNK]":0,"a":1,"##a":2,"##b":3,"b":4}})"));
  CHECK(lower.ids("ab b") == Ids{1, 3, 4});
  CHECK(lower.ids("aé") == Ids{5});
  CHECK(lower.ids("T t") == Ids{6, 0});
  CHECK(lower.ids("AE\u0301a") == Ids{5, 1});
}

TEST_CASE("tokens that are found in the text as it is come before normalised ones") {
  const Both two(file_of("null", kByteLevel,
                         R"({"id":10,"content":" x"},{"id":11,"content":"  ","normalized":true})",
                         kBytes));
  CHECK(two.ids("a  x") == Ids{3, 4, 10});
  CHECK(two.ids("a  a") == Ids{3, 11, 3});
}

TEST_CASE("an added token with ▁ is found as it is spelt, and made by merges of spaces") {
  const Both gemma(
      file_of(kReplace, "null", R"({"id":11,"content":"▁▁"},{"id":12,"content":"<▁>"})",
              kMarks.substr(0, kMarks.find("},\"merges\"")) + R"(,"▁▁":11},"merges":["▁ ▁"]})"));
  CHECK(gemma.ids("a  b") == Ids{2, 11, 3});
  CHECK(gemma.ids("a▁▁b") == Ids{2, 11, 3});
  CHECK(gemma.ids("a▁▁▁ b") == Ids{2, 11, 11, 3});
  CHECK(gemma.ids("<▁>< >") == Ids{12, 5, 1, 9});
}

TEST_CASE("an added token is no token of merges") {
  // In the alphabet of bytes é is the byte E9, the first one of U+9000.
  const Both byte(file_of("null", kByteLevel, R"({"id":3,"content":"é","single_word":true})",
                          R"({"type":"BPE","vocab":{"a":0,"Ģ":1,"aa":2},"merges":["a a"]})"));
  CHECK(byte.ids("\u9000") == Ids{1, 1});
}

TEST_CASE("tokens that are single words") {
  const Both words(
      file_of("null", kByteLevel, R"({"id":10,"content":"ab","single_word":true})", kBytes));
  CHECK(words.ids("ab ab") == Ids{10, 4, 10});
  CHECK(words.ids("-ab ") == Ids{10, 4});
  CHECK(words.ids("abab ab") == Ids{3, 8, 3, 8, 4, 10});
  for (const char* text : {"xab", "ab\u0301", "ab_", "ab\u200d", "ab\u0663", "ab\u2160"}) {
    CHECK(std::ranges::count(words.ids(text), 10) == 0);
  }
}

TEST_CASE("white space that a token takes has tokens of its own") {
  const Both white(file_of("null", kByteLevel,
                           R"({"id":10,"content":"<s>","rstrip":true},{"id":11,"content":"\n"},
                              {"id":12,"content":"<m>","lstrip":true,"rstrip":true},
                              {"id":13,"content":"\t","lstrip":true,"rstrip":true})",
                           kBytes));
  CHECK(white.ids("<s> \n x") == Ids{10, 11, 4, 5});
  CHECK(white.ids("a <m> <m> a") == Ids{3, 12, 12, 3});
  CHECK(white.ids("\t\t") == Ids{13});
}

TEST_CASE("Unigram: words of Metaspace and WhitespaceSplit, and white space at the ends") {
  const auto unigram = [](const std::string& normaliser, const std::string& steps) {
    return Both(file_of(normaliser, steps, "", kUnigram));
  };
  const Both cut = unigram("null", metaspace("always", true));
  CHECK(cut.ids("a  b") == Ids{6, 1, 1, 3});
  CHECK(cut.ids("a b") == Ids{6, 1, 3});
  CHECK(cut.ids("▁▁") == Ids{1, 1});
  const Both whole = unigram("null", metaspace("always"));
  CHECK(whole.ids("a  b") == Ids{6, 4, 3});
  CHECK(whole.ids("a b") == Ids{1, 5});

  const std::string words =
      sequence("pretokenizers", R"({"type":"WhitespaceSplit"},)" + metaspace("always", true));
  const Both white = unigram("null", words);
  CHECK(white.ids("a\n b") == Ids{6, 1, 3});
  CHECK(white.ids("  a  ") == Ids{6});
  CHECK(white.ids("\n").empty());
  const std::string joins = R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"})";
  const Both marks = unigram(joins, words);
  CHECK(marks.ids("a  ") == Ids{6, 1});
  CHECK(marks.ids("a ") == Ids{6});
  CHECK(marks.ids("  a") == Ids{6});

  const Both right = unigram(R"({"type":"Strip","strip_left":false,"strip_right":true})",
                             metaspace("always", true));
  CHECK(right.ids("a \n") == Ids{6});
  CHECK(right.ids("  a  ") == Ids{1, 6});
  const Both left = unigram(R"({"type":"Strip","strip_left":true,"strip_right":false})",
                            metaspace("always", true));
  CHECK(left.ids("\n a \n") == Ids{6, 1, 7});
}

TEST_CASE("Unigram: scores are compared as the file has them") {
  // As float32 the two ways have the same sum.
  const Both exact(file_of("null", metaspace("never"), "",
                           R"({"type":"Unigram","unk_id":0,
                               "vocab":[["<unk>",0],["▁",-3],["x",-0.9999999999],["xx",-2]]})"));
  CHECK(exact.ids("xx") == Ids{2, 2});
}

TEST_CASE("steps that would not be done are refused") {
  const auto normaliser = [](const std::string& step) {
    return file_of(step, kByteLevel, "", kBytes);
  };
  const std::string strip = R"({"type":"Strip","strip_left":true,"strip_right":true})";
  unsupported(normaliser(strip), "'model': 'BPE' is not supported: after these steps");
  unsupported(normaliser(kPrepend), "'model': 'BPE' is not supported: after these steps");
  unsupported(file_of(strip, metaspace("always"), "", kMarks), "after these steps");
  unsupported(file_of(kPrepend, metaspace("always"), "", kMarks), "'Metaspace'");

  const auto before_metaspace = [](const std::string& step, const std::string& scheme) {
    return file_of("null", sequence("pretokenizers", step + "," + metaspace(scheme)), "", kMarks);
  };
  const std::string split =
      R"({"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious"})";
  const std::string digits = R"({"type":"Digits"})";
  for (const char* scheme : {"always", "first", "never"}) {
    unsupported(before_metaspace(split, scheme), "'pre_tokenizer.pretokenizers[1]': 'Metaspace'");
  }
  unsupported(before_metaspace(digits, "always"), "'Metaspace'");
  unsupported(before_metaspace(R"({"type":"Punctuation"})", "first"), "'Metaspace'");
  CHECK(read(before_metaspace(digits, "never")));

  const auto unigram = [](const std::string& normalisers, const std::string& steps) {
    return file_of(sequence("normalizers", normalisers), steps, "", kUnigram);
  };
  const std::string joins = R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"})";
  const std::string map = R"({"type":"Precompiled","precompiled_charsmap":"AAAAAQ=="})";
  unsupported(unigram(joins + "," + strip, metaspace("always")), "'normalizer.normalizers[1]'");
  unsupported(unigram(joins + "," + map, metaspace("always")), "'normalizer.normalizers[1]'");
  unsupported(unigram(strip, metaspace("first")), "'Metaspace'");
  CHECK(read(unigram(strip + "," + map + "," + joins, metaspace("always"))));
  unsupported(
      file_of(sequence("normalizers", R"({"type":"NFC"},{"type":"BertNormalizer"})"),
              R"({"type":"BertPreTokenizer"})", "", R"({"type":"WordPiece","vocab":{"[UNK]":0}})"),
      "other than BERT's");
}
