#include <doctest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "engine/weights/weight_source.h"
#include "formats/gguf/writer.h"
#include "tests/formats/raw_gguf.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::unique_ptr<WeightSource> open_good(const std::string& path) {
  Result<std::unique_ptr<WeightSource>> source = open_model(path);
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  return *std::move(source);
}

/// Whether what an opened model says lies within its file.
bool consistent(const WeightSource& source, uint64_t file_bytes) {
  for (const Weight& weight : source.weights()) {
    if (weight.desc.elements() <= 0 || !weight.desc.contiguous()) return false;
    const auto bytes = static_cast<uint64_t>(weight.desc.extent_bytes());
    if (weight.place.offset > file_bytes || bytes > file_bytes - weight.place.offset) return false;
  }
  const TokenizerSpec& spec = source.tokenizer();
  const auto tokens = static_cast<int64_t>(spec.tokens.size());
  for (const int32_t id : {spec.bos, spec.eos, spec.eot, spec.unknown, spec.padding}) {
    if (id < kNoToken || id >= tokens) return false;
  }
  return (spec.scores.empty() || spec.scores.size() == spec.tokens.size()) &&
         (spec.types.empty() || spec.types.size() == spec.tokens.size());
}

bool typed(const Status& status) {
  return (status.code() == StatusCode::bad_file || status.code() == StatusCode::unsupported ||
          status.code() == StatusCode::not_found) &&
         !status.message().empty();
}

RawGguf every_value_type() {
  RawGguf file;
  file.text("general.architecture", "test").u32("general.alignment", 64);
  file.alignment = 64;
  file.value("v.u8", 0, Bytes().number<uint8_t>(200));
  file.value("v.i8", 1, Bytes().number<int8_t>(-3));
  file.value("v.u16", 2, Bytes().number<uint16_t>(60000));
  file.value("v.i16", 3, Bytes().number<int16_t>(-300));
  file.value("v.i32", 5, Bytes().number<int32_t>(-70000));
  file.value("v.f32", 6, Bytes().number<float>(0.5f));
  file.value("v.bool", 7, Bytes().number<uint8_t>(1));
  file.value("v.u64", 10, Bytes().u64(uint64_t{1} << 40));
  file.value("v.i64", 11, Bytes().number<int64_t>(-(int64_t{1} << 40)));
  file.value("v.f64", 12, Bytes().number<double>(0.1));
  file.value("v.numbers", 9, Bytes().u32(3).u64(2).number<int16_t>(-1).number<int16_t>(7));
  file.value("v.flags", 9,
             Bytes().u32(7).u64(3).number<uint8_t>(1).number<uint8_t>(0).number<uint8_t>(1));
  file.value("v.texts", 9, Bytes().u32(8).u64(2).text("one").text(""));
  file.value("v.empty", 9, Bytes().u32(6).u64(0));
  file.tensor("a.weight", {32, 2}, 2, 0).tensor("b.weight", {3}, 0, 64);
  file.data_bytes = 64 + 12;
  return file;
}

RawGguf vocabulary() {
  RawGguf file;
  file.version = 2;
  file.text("tokenizer.ggml.model", "llama");
  file.value("tokenizer.ggml.tokens", 9,
             Bytes().u32(8).u64(3).text("<unk>").text("<s>").text("\xe2\x96\x81"
                                                                  "a"));
  file.value("tokenizer.ggml.scores", 9,
             Bytes().u32(6).u64(3).number(0.0f).number(0.0f).number(-1.0f));
  file.value("tokenizer.ggml.token_type", 9, Bytes().u32(5).u64(3).u32(2).u32(3).u32(1));
  file.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.unknown_token_id", 0);
  return file;
}

RawGguf sidecars() {
  RawGguf file;
  file.tensor("x.weight", {64, 2}, 40, 0).tensor("x.scale", {1}, 0, 96);
  file.tensor("x.input_scale", {}, 0, 128).tensor("y.weight", {4}, 0, 160);
  file.tensor("y.scale", {1}, 0, 192);
  file.data_bytes = 196;
  return file;
}

RawGguf many_types() {
  RawGguf file;
  file.text("general.name", "types");
  uint64_t offset = 0;
  file.u32("infer.nf4.version", 1);
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.type == DType::fp4) continue;  // has no number in GGUF
    file.tensor(std::string(info.ident), {static_cast<uint64_t>(info.block_elements), 2},
                static_cast<uint32_t>(info.type), offset);
    offset += (static_cast<uint64_t>(info.block_bytes) * 2 + 31) / 32 * 32;
  }
  file.data_bytes = offset;
  return file;
}

}  // namespace

TEST_CASE("a model from elsewhere is read as it was written") {
  const auto source = open_good(data_path("golden/llama-q4_k.gguf"));
  CHECK(source->metadata().get_string("general.architecture").value() == "llama");
  CHECK(source->weights().size() > 10);
  const Weight* embedding = source->find("token_embd.weight");
  REQUIRE(embedding != nullptr);
  CHECK(embedding->desc.shape[1] ==
        static_cast<int64_t>(*source->metadata().get_int("llama.vocab_size", 1, 1 << 20).value()));
  const std::string file = read_text(data_path("golden/llama-q4_k.gguf"));
  CHECK(consistent(*source, file.size()));
  for (const Weight& weight : source->weights()) {
    std::string bytes(static_cast<size_t>(weight.desc.extent_bytes()), '\0');
    REQUIRE(source->read(weight.place, 0, std::as_writable_bytes(std::span(bytes))).ok());
    CHECK(file.compare(weight.place.offset, bytes.size(), bytes) == 0);
  }
}

TEST_CASE("models and vocabularies open") {
  for (const char* name :
       {"golden/gemma3-f32.gguf", "golden/llama-bf16.gguf", "golden/llama-iq4_xs.gguf",
        "golden/qwen3moe-f32.gguf", "golden/llama-tied-f32.gguf"}) {
    CAPTURE(name);
    CHECK(open_good(data_path(name))->weights().size() > 0);
  }
  for (const char* name :
       {"bert-bge", "deepseek-coder", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "starcoder"}) {
    CAPTURE(name);
    const auto source = open_good(data_path(std::string("vocab/") + name + ".gguf"));
    CHECK(source->weights().empty());
    CHECK(source->tokenizer().tokens.size() > 30000);
    CHECK((source->tokenizer().bos != kNoToken || source->tokenizer().cls != kNoToken));
  }
}

TEST_CASE("every value type is read") {
  const TempDir dir;
  write_bytes(dir.path("m.gguf"), bytes_of(every_value_type().bytes()));
  const auto source = open_good(dir.path("m.gguf"));
  const Metadata& m = source->metadata();
  CHECK(*m.find("v.u8") == MetaValue(uint8_t{200}));
  CHECK(*m.find("v.i8") == MetaValue(int8_t{-3}));
  CHECK(*m.find("v.u16") == MetaValue(uint16_t{60000}));
  CHECK(*m.find("v.i16") == MetaValue(int16_t{-300}));
  CHECK(*m.find("v.i32") == MetaValue(int32_t{-70000}));
  CHECK(*m.find("v.f32") == MetaValue(0.5f));
  CHECK(*m.find("v.bool") == MetaValue(true));
  CHECK(*m.find("v.u64") == MetaValue(uint64_t{1} << 40));
  CHECK(*m.find("v.i64") == MetaValue(-(int64_t{1} << 40)));
  CHECK(*m.find("v.f64") == MetaValue(0.1));
  CHECK(*m.find("v.numbers") == MetaValue(std::vector<int16_t>{-1, 7}));
  CHECK(*m.find("v.flags") == MetaValue(std::vector<bool>{true, false, true}));
  CHECK(*m.find("v.texts") == MetaValue(std::vector<std::string>{"one", ""}));
  CHECK(*m.find("v.empty") == MetaValue(std::vector<float>{}));
  CHECK(to_string(source->weights()[0].desc) == "Q4_0 [32, 2]");
  CHECK(source->weights()[0].place.offset % 64 == 0);
  CHECK(source->weights()[1].name == "b.weight");
}

TEST_CASE("every tensor type is read") {
  const TempDir dir;
  write_bytes(dir.path("m.gguf"), bytes_of(many_types().bytes()));
  const auto source = open_good(dir.path("m.gguf"));
  std::vector<DType> found;
  for (const Weight& weight : source->weights()) found.push_back(weight.desc.type);
  std::vector<DType> expected;
  for (const DTypeInfo& info : all_dtypes()) {
    if (info.type != DType::fp4) expected.push_back(info.type);
  }
  CHECK(found == expected);
  CHECK_FALSE(source->metadata().has("infer.nf4.version"));
}

TEST_CASE("the scales of NVFP4 weights are weights by their own names") {
  const TempDir dir;
  write_bytes(dir.path("m.gguf"), bytes_of(sidecars().bytes()));
  const auto source = open_good(dir.path("m.gguf"));
  CHECK(source->find("x.weight")->desc.type == DType::nvfp4);
  CHECK(source->find("x.scale")->desc.elements() == 1);
  CHECK(source->find("x.input_scale")->desc.elements() == 1);
}

TEST_CASE("data are read and mapped from several threads") {
  const auto source = open_good(data_path("golden/llama-q4_0.gguf"));
  const std::string file = read_text(data_path("golden/llama-q4_0.gguf"));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const Weight& weight : source->weights()) {
        const auto bytes = static_cast<uint64_t>(weight.desc.extent_bytes());
        const auto mapped = source->map(weight.place, bytes);
        std::vector<std::byte> read(bytes - 1);
        const bool same =
            mapped && std::memcmp(mapped->data(), file.data() + weight.place.offset, bytes) == 0 &&
            reinterpret_cast<uintptr_t>(mapped->data()) % 32 == 0 &&
            source->read(weight.place, 1, read).ok() &&
            std::memcmp(read.data(), mapped->data() + 1, read.size()) == 0;
        if (!same) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("places outside the file are refused") {
  const auto source = open_good(data_path("golden/llama-q4_0.gguf"));
  const uint64_t size = read_text(data_path("golden/llama-q4_0.gguf")).size();
  std::byte byte{};
  CHECK(source->read({0, size - 1}, 0, std::span(&byte, 1)).ok());
  CHECK(source->read({0, size - 1}, 1, std::span(&byte, 1)).code() == StatusCode::bad_file);
  CHECK(source->read({0, 8}, UINT64_MAX, std::span(&byte, 1)).code() ==
        StatusCode::invalid_argument);
  CHECK(source->read({1, 0}, 0, std::span(&byte, 1)).code() == StatusCode::invalid_argument);
  CHECK_FALSE(source->map({0, size}, 1));
  CHECK_FALSE(source->map({0, 1}, UINT64_MAX));
  CHECK_FALSE(source->map({7, 0}, 1));
  CHECK(source->map({0, size}, 0).value().empty());
}

TEST_CASE("a file that is cut short while in use gives an error") {
  const TempDir dir;
  const std::string path = dir.path("m.gguf");
  write_bytes(path, bytes_of(read_text(data_path("golden/llama-q4_0.gguf"))));
  const auto source = open_good(path);
  const Weight& last = source->weights().back();
  std::vector<std::byte> data(static_cast<size_t>(last.desc.extent_bytes()));
  REQUIRE(source->read(last.place, 0, data).ok());
  REQUIRE(truncate(path.c_str(), static_cast<off_t>(last.place.offset + 1)) == 0);
  const Status status = source->read(last.place, 0, data);
  CHECK(status.code() == StatusCode::bad_file);
  CHECK(status.message().find("cut short") != std::string::npos);
  CHECK(status.message().find(path) != std::string::npos);
}

TEST_CASE("every file cut short in its header is refused") {
  const TempDir dir;
  const std::string path = dir.path("cut.gguf");
  std::vector<std::pair<std::string, size_t>> fixtures;  // bytes, bytes of the header
  for (const RawGguf& file : {every_value_type(), vocabulary(), sidecars(), many_types()}) {
    fixtures.emplace_back(file.bytes(), file.header().size());
  }
  for (const char* name : {"llama-q4_k.gguf", "llama-q4_0.gguf"}) {
    const auto source = open_good(data_path(std::string("golden/") + name));
    uint64_t data_start = UINT64_MAX;
    for (const Weight& w : source->weights()) data_start = std::min(data_start, w.place.offset);
    fixtures.emplace_back(read_text(data_path(std::string("golden/") + name)), data_start);
  }
  for (const auto& [bytes, header] : fixtures) {
    write_bytes(path, bytes_of(bytes));
    REQUIRE_MESSAGE(open_model(path).has_value(), open_model(path).error().message());
    for (size_t length = header; length-- > 0;) {
      REQUIRE(truncate(path.c_str(), static_cast<off_t>(length)) == 0);
      const auto source = open_model(path);
      const bool refused = !source && source.error().code() == StatusCode::bad_file &&
                           source.error().message().find(path) == 0;
      if (!refused) FAIL("of ", bytes.size(), " bytes the first ", length);
    }
  }
}

TEST_CASE("a flipped bit gives a typed error or a model within its file") {
  const TempDir dir;
  const std::string path = dir.path("flip.gguf");
  int errors = 0;
  int models = 0;
  for (const RawGguf& file : {every_value_type(), vocabulary(), sidecars()}) {
    std::string bytes = file.bytes();
    const size_t header = file.header().size();
    for (size_t bit = 0; bit < header * 8; ++bit) {
      const char mask = static_cast<char>(1 << (bit % 8));
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
      write_bytes(path, bytes_of(bytes));
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
      const auto source = open_model(path);
      const bool good = source ? consistent(**source, bytes.size()) : typed(source.error());
      if (!good) FAIL("bit ", bit, ": ", source ? "a model" : source.error().message());
      ++(source ? models : errors);
    }
  }
  CHECK(errors > 1000);
  CHECK(models > 1000);  // names and values are free
}
