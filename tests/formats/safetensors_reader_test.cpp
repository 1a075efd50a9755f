#include <doctest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/core/half.h"
#include "engine/weights/weight_source.h"
#include "formats/safetensors/source.h"
#include "tests/formats/raw_safetensors.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::vector<std::byte> read_all(const WeightSource& source, const Weight& weight) {
  std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
  REQUIRE(source.read(weight.place, 0, data).ok());
  return data;
}

template <typename T>
T number(const WeightSource& source, const char* key) {
  const MetaValue* value = source.metadata().find(key);
  REQUIRE_MESSAGE(value != nullptr, key);
  REQUIRE_MESSAGE(std::holds_alternative<T>(*value), key);
  return std::get<T>(*value);
}

/// The value of an 8-bit float by its definition: sign, exponent, mantissa.
double value_of(int bits, int exponent_bits, int bias, bool infinities) {
  const int mantissa_bits = 7 - exponent_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int last = (1 << exponent_bits) - 1;
  double value = 0;
  if (infinities && exponent == last) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (!infinities && (bits & 127) == 127) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return bits < 128 ? value : -value;
}

}  // namespace

TEST_CASE("tensors come by their place, with their shape reversed") {
  const TempDir dir;
  const std::string path = dir.path("m");
  const std::string header = R"({"late":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
                             R"("__metadata__":{"format":"pt"},)"
                             R"("early":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("bytes":{"dtype":"U8","shape":[1,2,3],"data_offsets":[32,38]},)"
                             R"("one":{"dtype":"I64","shape":[],"data_offsets":[38,46]}}   )";
  const std::string file = safetensors_bytes(header, 46);
  write_bytes(path, bytes_of(file));
  const auto source = open_model(path);
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  const auto weights = (*source)->weights();
  REQUIRE(weights.size() == 4);
  CHECK(weights[0].name == "early");
  CHECK(to_string(weights[0].desc) == "F32 [3, 2]");
  CHECK(to_string(weights[1].desc) == "BF16 [4]");
  CHECK(to_string(weights[2].desc) == "I8 [3, 2]");
  CHECK(to_string(weights[3].desc) == "I64 [1]");
  CHECK(number<std::string>(**source, "hf.metadata.format") == "pt");
  const std::string data = file.substr(8 + header.size());
  size_t at = 0;
  for (const Weight& weight : weights) {
    const std::vector<std::byte> bytes = read_all(**source, weight);
    CHECK(std::memcmp(bytes.data(), data.data() + at, bytes.size()) == 0);
    for (size_t begin = 0; begin <= bytes.size(); ++begin) {
      std::vector<std::byte> part(bytes.size() - begin);
      REQUIRE((*source)->read(weight.place, begin, part).ok());
      CHECK(std::equal(part.begin(), part.end(), bytes.begin() + static_cast<long>(begin)));
    }
    std::vector<std::byte> beyond(bytes.size());
    CHECK_FALSE((*source)->read(weight.place, 1, beyond).ok());
    at += bytes.size();
  }
}

TEST_CASE("mapping gives what reading gives, or says that it cannot") {
  const TempDir dir;
  const std::string path = dir.path("m");
  std::string header = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                       R"("c":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[16,17]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[17,21]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  write_bytes(path, bytes_of(safetensors_bytes(header, 21)));
  const auto source = open_model(path);
  REQUIRE(source.has_value());
  const auto weights = (*source)->weights();
  const auto mapped = (*source)->map(weights[0].place, 16);
  REQUIRE(mapped.has_value());
  const std::vector<std::byte> data = read_all(**source, weights[0]);
  CHECK(std::equal(mapped->begin(), mapped->end(), data.begin(), data.end()));
  CHECK((*source)->map(weights[0].place, 17).error().code() == StatusCode::invalid_argument);
  for (size_t i : {1, 2}) {
    const auto refused = (*source)->map(weights[i].place, 2);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == StatusCode::unsupported);
    CHECK(refused.error().message().find(fmt::format("'{}'", weights[i].name)) !=
          std::string::npos);
  }
}

TEST_CASE("8-bit floats are widened without loss, from any byte on") {
  const TempDir dir;
  for (const bool e4m3 : {true, false}) {
    CAPTURE(e4m3);
    std::string file =
        safetensors_bytes(std::string(R"({"t":{"dtype":")") + (e4m3 ? "F8_E4M3" : "F8_E5M2") +
                              R"(","shape":[2,128],"data_offsets":[0,256]}})",
                          0);
    for (int i = 0; i < 256; ++i) file += static_cast<char>(i);
    write_bytes(dir.path("m"), bytes_of(file));
    const auto source = open_model(dir.path("m"));
    REQUIRE(source.has_value());
    const Weight& weight = (*source)->weights()[0];
    CHECK(to_string(weight.desc) == "F16 [128, 2]");
    const std::vector<std::byte> data = read_all(**source, weight);
    for (int i = 0; i < 256; ++i) {
      uint16_t half = 0;
      std::memcpy(&half, data.data() + 2 * i, 2);
      const double found = f16_to_f32(half);
      const double expected = e4m3 ? value_of(i, 4, 7, false) : value_of(i, 5, 15, true);
      CAPTURE(i);
      CHECK((found == expected || (std::isnan(found) && std::isnan(expected))));
      CHECK(std::signbit(found) == (i >= 128));
    }
    for (size_t begin = 0; begin < 40; ++begin) {
      for (size_t size = 0; size < 20; ++size) {
        std::vector<std::byte> part(size);
        REQUIRE((*source)->read(weight.place, begin, part).ok());
        CHECK(std::equal(part.begin(), part.end(), data.begin() + static_cast<long>(begin)));
      }
    }
  }
}

TEST_CASE("a directory gives its configuration as keys") {
  const TempDir dir;
  const auto file = [&](const char* name, const std::string& text) {
    write_bytes(dir.path(name), bytes_of(text));
  };
  file("config.json", R"({"hidden_size": 64, "eps": 1e-5, "tied": true, "none": null, "empty": [],
    "architectures": ["A"], "ids": [1, 2], "mixed": [1, 2.5], "odd": [1, "a", {"b": [true, false]}],
    "rope": {"factor": 4.0, "inner": {"deep": -1}}, "large": 18446744073709551615,
    "nested": [[1, 2], [3]], "late": [null, 5], "limit": [0.5, Infinity], "least": -Infinity,
    "no": NaN, "said": "Infinity, \"NaN\"", "after": 6})");
  file("generation_config.json", R"({"temperature": 0.6})");
  file("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "D"},
    {"name": "tool_use", "template": "T"}], "bos_token": {"content": "<s>"}})");
  file("model.safetensors", safetensors_bytes("{}", 0));
  const auto source = open_model(dir.path(""));
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  const WeightSource& s = **source;
  CHECK(number<int64_t>(s, "hf.config.hidden_size") == 64);
  CHECK(number<double>(s, "hf.config.eps") == 1e-5);
  CHECK(number<bool>(s, "hf.config.tied"));
  CHECK(number<std::vector<std::string>>(s, "hf.config.architectures") ==
        std::vector<std::string>{"A"});
  CHECK(number<std::vector<int64_t>>(s, "hf.config.ids") == std::vector<int64_t>{1, 2});
  CHECK(number<std::vector<double>>(s, "hf.config.mixed") == std::vector<double>{1, 2.5});
  CHECK(number<int64_t>(s, "hf.config.odd.0") == 1);
  CHECK(number<std::string>(s, "hf.config.odd.1") == "a");
  CHECK(number<std::vector<bool>>(s, "hf.config.odd.2.b") == std::vector<bool>{true, false});
  CHECK(number<int64_t>(s, "hf.config.rope.factor") == 4);
  CHECK(number<int64_t>(s, "hf.config.rope.inner.deep") == -1);
  CHECK(number<uint64_t>(s, "hf.config.large") == UINT64_MAX);
  CHECK(number<std::vector<int64_t>>(s, "hf.config.nested.1") == std::vector<int64_t>{3});
  CHECK(number<int64_t>(s, "hf.config.late.1") == 5);
  // Numbers that Python writes and JSON does not have.
  CHECK(number<double>(s, "hf.config.limit.0") == 0.5);
  for (const char* absent :
       {"hf.config.limit", "hf.config.limit.1", "hf.config.least", "hf.config.no"}) {
    CHECK_FALSE(s.metadata().has(absent));
  }
  CHECK(number<std::string>(s, "hf.config.said") == "Infinity, \"NaN\"");
  CHECK(number<int64_t>(s, "hf.config.after") == 6);
  CHECK_FALSE(s.metadata().has("hf.config.none"));
  CHECK_FALSE(s.metadata().has("hf.config.empty"));
  CHECK(number<double>(s, "hf.generation_config.temperature") == 0.6);
  CHECK(number<std::string>(s, "hf.tokenizer_config.chat_template") == "D");
  CHECK(number<std::string>(s, "hf.chat_templates.tool_use") == "T");
  // The template of a processor of images counts where the tokenizer has none.
  file("chat_template.json", R"({"chat_template": "P"})");
  const auto both = open_model(dir.path(""));
  CHECK(number<std::string>(**both, "hf.tokenizer_config.chat_template") == "D");
  file("tokenizer_config.json", "{}");
  const auto processors = open_model(dir.path(""));
  CHECK(number<std::string>(**processors, "hf.tokenizer_config.chat_template") == "P");
  // The file alone finds what lies beside it; a template in a file of its own comes first.
  file("chat_template.jinja", "J");
  const auto single = open_model(dir.path("model.safetensors"));
  REQUIRE(single.has_value());
  CHECK(number<std::string>(**single, "hf.tokenizer_config.chat_template") == "J");
  CHECK_FALSE((*single)->metadata().has("hf.chat_templates.tool_use"));
  // It leaves the named ones alone, which may also have files of their own.
  file("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "D"},
    {"name": "rag", "template": "R"}, {"name": "tool_use", "template": "T"}], "x": Infinity})");
  std::filesystem::create_directories(dir.path("additional_chat_templates"));
  file("additional_chat_templates/tool_use.jinja", "U");
  file("additional_chat_templates/note.txt", "N");
  const auto named = open_model(dir.path(""));
  REQUIRE(named.has_value());
  CHECK(number<std::string>(**named, "hf.tokenizer_config.chat_template") == "J");
  CHECK(number<std::string>(**named, "hf.chat_templates.rag") == "R");
  CHECK(number<std::string>(**named, "hf.chat_templates.tool_use") == "U");
  for (int i = 0; i < 64; ++i) {
    file(("additional_chat_templates/" + std::to_string(i) + ".jinja").c_str(), "M");
  }
  const auto many = open_model(dir.path(""));
  REQUIRE(!many.has_value());
  CHECK(many.error().message().find("at most 64 templates, found 65") != std::string::npos);
}

TEST_CASE("shards are one model") {
  const TempDir dir;
  const auto file = [&](const char* name, const std::string& text) {
    write_bytes(dir.path(name), bytes_of(text));
  };
  file("config.json", "{}");
  file("a.safetensors",
       safetensors_bytes(R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3));
  file("b.safetensors",
       safetensors_bytes(R"({"y":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", 5));
  file("model.safetensors.index.json",
       R"({"weight_map": {"y": "b.safetensors", "x": "a.safetensors"}})");
  const auto source = open_model(dir.path(""));
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  REQUIRE((*source)->weights().size() == 2);
  for (const Weight& weight : (*source)->weights()) {
    const std::vector<std::byte> data = read_all(**source, weight);
    CHECK(data.size() == (weight.name == "x" ? 3 : 5));
    for (size_t i = 0; i < data.size(); ++i) CHECK(static_cast<size_t>(data[i]) == 7 * i + 1);
  }
}

TEST_CASE("what is written reads the same") {
  const TempDir dir;
  const std::string path = dir.path("w.safetensors");
  Metadata metadata(path);
  metadata.set("name", std::string("a \"name\"\n"));
  metadata.set("count", uint32_t{7});
  metadata.set("list", std::vector<int32_t>{1, -2});
  auto sink = create_model_file("safetensors", path, metadata);
  REQUIRE_MESSAGE(sink.has_value(), sink.error().message());
  const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                         DType::i64, DType::i32, DType::i16, DType::i8};
  std::vector<std::byte> all;
  for (const DType type : types) {
    const TensorDesc desc = tensor(type, 3, 5, 2);
    REQUIRE((*sink)->declare(std::string(dtype_info(type).name), desc).ok());
    for (int64_t i = 0; i < desc.extent_bytes(); ++i) {
      all.push_back(static_cast<std::byte>(i * 31 + static_cast<int64_t>(type)));
    }
  }
  REQUIRE((*sink)->begin().ok());
  for (size_t at = 0; at < all.size(); at += 7) {
    REQUIRE((*sink)->write(std::span(all).subspan(at, std::min<size_t>(7, all.size() - at))).ok());
  }
  REQUIRE((*sink)->finish().ok());
  const auto source = open_model(path);
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  CHECK(number<std::string>(**source, "hf.metadata.name") == "a \"name\"\n");
  CHECK(number<std::string>(**source, "hf.metadata.count") == "7");
  CHECK(number<std::string>(**source, "hf.metadata.list") == "[1,-2]");
  REQUIRE((*source)->weights().size() == std::size(types));
  size_t at = 0;
  for (size_t i = 0; i < std::size(types); ++i) {
    const Weight& weight = (*source)->weights()[i];
    CHECK(weight.name == dtype_info(types[i]).name);
    CHECK(weight.desc.type == types[i]);
    CHECK(shape_string(weight.desc) == "[3, 5, 2]");
    const std::vector<std::byte> data = read_all(**source, weight);
    CHECK(std::equal(data.begin(), data.end(), all.begin() + static_cast<long>(at)));
    at += data.size();
  }
}

TEST_CASE("the writer refuses what does not match") {
  const TempDir dir;
  const std::string path = dir.path("w.safetensors");
  const auto sink = [&] { return create_model_file("safetensors", path, Metadata(path)).value(); };
  const std::vector<std::byte> four(4);
  auto s = sink();
  CHECK(s->declare("q", tensor(DType::q4_0, 32)).code() == StatusCode::unsupported);
  CHECK(s->begin().code() == StatusCode::unsupported);
  s = sink();
  CHECK_FALSE(s->declare("__metadata__", tensor(DType::f32, 1)).ok());
  s = sink();
  CHECK(s->declare("t", tensor(DType::f32, 1)).ok());
  CHECK_FALSE(s->declare("t", tensor(DType::f32, 1)).ok());
  s = sink();
  CHECK_FALSE(s->write(four).ok());
  s = sink();
  REQUIRE(s->declare("t", tensor(DType::f32, 1)).ok());
  REQUIRE(s->begin().ok());
  REQUIRE(s->write(std::span(four).first(3)).ok());
  CHECK_FALSE(s->finish().ok());
  s = sink();
  REQUIRE(s->declare("t", tensor(DType::f32, 1)).ok());
  REQUIRE(s->begin().ok());
  REQUIRE(s->write(four).ok());
  CHECK_FALSE(s->write(std::span(four).first(1)).ok());
  CHECK(open_model(path).error().code() == StatusCode::not_found);  // none of them was finished
  s = sink();
  REQUIRE(s->begin().ok());
  REQUIRE(s->finish().ok());
  CHECK(open_model(path).has_value());
}
