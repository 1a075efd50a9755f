#include <doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "engine/weights/weight_source.h"
#include "formats/gguf/writer.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::unique_ptr<WeightSink> create(const std::string& path, const Metadata& metadata = Metadata()) {
  Result<std::unique_ptr<WeightSink>> sink = create_gguf(path, metadata);
  REQUIRE_MESSAGE(sink.has_value(), sink.error().message());
  return *std::move(sink);
}

size_t files_in(const TempDir& dir) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path(""))) {
    ++count;
  }
  return count;
}

Metadata every_type() {
  Metadata m;
  m.set("general.alignment", uint32_t{128});
  m.set("a.u8", uint8_t{255});
  m.set("a.i8", int8_t{-128});
  m.set("a.u16", uint16_t{65535});
  m.set("a.i16", int16_t{-32768});
  m.set("a.u32", uint32_t{4294967295u});
  m.set("a.i32", INT32_MIN);
  m.set("a.u64", UINT64_MAX);
  m.set("a.i64", INT64_MIN);
  m.set("a.f32", 0.1f);
  m.set("a.f64", 0.1);
  m.set("a.true", true);
  m.set("a.false", false);
  m.set("a.text", std::string("zero \0 inside", 13));
  m.set("a.no text", std::string());
  m.set("b.u8", std::vector<uint8_t>{1, 255});
  m.set("b.i8", std::vector<int8_t>{-1});
  m.set("b.u16", std::vector<uint16_t>{1, 2, 3});
  m.set("b.i16", std::vector<int16_t>{-1, 2});
  m.set("b.u32", std::vector<uint32_t>{7});
  m.set("b.i32", std::vector<int32_t>{-7, 8});
  m.set("b.u64", std::vector<uint64_t>{UINT64_MAX});
  m.set("b.i64", std::vector<int64_t>{INT64_MIN, INT64_MAX});
  m.set("b.f32", std::vector<float>{1.5f, -0.0f});
  m.set("b.f64", std::vector<double>{1e300});
  m.set("b.bool", std::vector<bool>{true, false, true});
  m.set("b.text", std::vector<std::string>{"a", "", std::string(70000, 'x')});
  m.set("b.none", std::vector<std::string>{});
  m.set("b.long", std::vector<int32_t>(300000, 5));
  return m;
}

}  // namespace

TEST_CASE("what is written is read back, whatever the pieces it was given in") {
  const TempDir dir;
  const std::string path = dir.path("m.gguf");
  const Metadata metadata = every_type();
  const std::pair<const char*, TensorDesc> tensors[] = {
      {"one", tensor(DType::q4_0, 64, 3)},
      {"two", tensor(DType::f32, 1)},
      {"three", tensor(DType::q6_k, 256, 5, 2, 2)},
      {"four", tensor(DType::i8, 1, 1, 3)},
      {"five", tensor(DType::f32, 1024, 512)}};
  std::string data;
  std::mt19937 random(7);
  for (const auto& [name, desc] : tensors) {
    for (int64_t i = 0; i < desc.extent_bytes(); ++i) data += static_cast<char>(random());
  }
  for (const size_t piece : {size_t{1} << 12, data.size(), size_t{999}, (size_t{1} << 20) + 1}) {
    CAPTURE(piece);
    auto sink = create(path, metadata);
    for (const auto& [name, desc] : tensors) REQUIRE(sink->declare(name, desc).ok());
    REQUIRE(sink->begin().ok());
    for (size_t at = 0; at < data.size(); at += piece) {
      REQUIRE(sink->write(bytes_of(data).subspan(at, std::min(piece, data.size() - at))).ok());
    }
    REQUIRE(sink->finish().ok());
    sink.reset();
    CHECK(files_in(dir) == 1);

    const auto source = open_model(path);
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    CHECK((*source)->metadata().values() == metadata.values());
    REQUIRE((*source)->weights().size() == std::size(tensors));
    size_t at = 0;
    for (size_t i = 0; i < std::size(tensors); ++i) {
      const Weight& weight = (*source)->weights()[i];
      CHECK(weight.name == tensors[i].first);
      CHECK(weight.desc.type == tensors[i].second.type);
      CHECK(weight.desc.shape == tensors[i].second.shape);
      CHECK(weight.desc.stride == tensors[i].second.stride);
      CHECK(weight.place.offset % 128 == 0);
      std::string read(static_cast<size_t>(weight.desc.extent_bytes()), '\0');
      REQUIRE((*source)->read(weight.place, 0, std::as_writable_bytes(std::span(read))).ok());
      CHECK(data.compare(at, read.size(), read) == 0);
      at += read.size();
    }
  }
}

TEST_CASE("a model copied through the writer keeps its bytes") {
  const TempDir dir;
  const auto source = open_model(data_path("golden/llama-q4_0.gguf"));
  REQUIRE(source.has_value());
  auto sink = create(dir.path("copy.gguf"), (*source)->metadata());
  for (const Weight& weight : (*source)->weights()) {
    REQUIRE(sink->declare(weight.name, weight.desc).ok());
  }
  REQUIRE(sink->begin().ok());
  for (const Weight& weight : (*source)->weights()) {
    std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
    REQUIRE((*source)->read(weight.place, 0, data).ok());
    REQUIRE(sink->write(data).ok());
  }
  REQUIRE(sink->finish().ok());
  const auto copy = open_model(dir.path("copy.gguf"));
  REQUIRE_MESSAGE(copy.has_value(), copy.error().message());
  CHECK((*copy)->metadata().values() == (*source)->metadata().values());
  const size_t size = read_text(data_path("golden/llama-q4_0.gguf")).size();
  CHECK(read_text(dir.path("copy.gguf")).size() == size);
}

TEST_CASE("a format is chosen by name to write in") {
  const TempDir dir;
  const auto other = create_model_file("parchment", dir.path("m"), Metadata());
  REQUIRE_FALSE(other);
  CHECK(other.error().code() == StatusCode::invalid_argument);
  CHECK(other.error().message().find("expected one of GGUF") != std::string::npos);
  const auto sink = create_model_file("GGUF", dir.path("m"), Metadata());
  REQUIRE(sink.has_value());
  REQUIRE((*sink)->begin().ok());
  REQUIRE((*sink)->finish().ok());
  CHECK(open_model(dir.path("m")).has_value());
}

TEST_CASE("the file appears only when it is finished") {
  const TempDir dir;
  const std::string path = dir.path("m.gguf");
  write_bytes(path, bytes_of("old"));
  {
    auto sink = create(path);
    auto other = create(path);  // two writers do not meet
    REQUIRE(sink->declare("t", tensor(DType::f32, 2)).ok());
    REQUIRE(sink->begin().ok());
    REQUIRE(sink->write(bytes_of("1234")).ok());
    CHECK(read_text(path) == "old");
    const Status early = sink->finish();
    CHECK(early.code() == StatusCode::invalid_argument);
    CHECK(early.message().find("expected 8 bytes, was given 4") != std::string::npos);
    CHECK(sink->write(bytes_of("5678")).code() == StatusCode::invalid_argument);
  }
  CHECK(read_text(path) == "old");
  CHECK(files_in(dir) == 1);
}

TEST_CASE("calls that do not fit the declarations are refused") {
  const TempDir dir;
  const std::string path = dir.path("m.gguf");
  const TensorDesc desc = tensor(DType::f32, 1);
  const auto refused = [](const Status& s) { return s.code() == StatusCode::invalid_argument; };
  CHECK(refused(create(path)->declare("", desc)));
  CHECK(refused(create(path)->declare(std::string(64, 'n'), desc)));
  CHECK(refused(create(path)->declare("t", tensor(DType::f32, 0))));
  TensorDesc strided = tensor(DType::f32, 4, 2);
  strided.stride[1] = 64;
  CHECK(refused(create(path)->declare("t", strided)));
  CHECK(refused(create(path)->write(bytes_of("1"))));
  CHECK(refused(create(path)->finish()));
  auto sink = create(path);
  REQUIRE(sink->declare("t", desc).ok());
  CHECK(refused(sink->declare("t", desc)));
  sink = create(path);
  REQUIRE(sink->declare("t", desc).ok());
  REQUIRE(sink->begin().ok());
  CHECK(refused(sink->write(bytes_of("12345"))));
  sink = create(path);
  REQUIRE(sink->begin().ok());
  CHECK(refused(sink->declare("t", desc)));
  sink = create(path);
  REQUIRE(sink->begin().ok());
  REQUIRE(sink->finish().ok());
  CHECK(refused(sink->finish()));
  sink = nullptr;
  CHECK(open_model(path).has_value());
}

TEST_CASE("what the format cannot hold, or the system will not, is an error") {
  const TempDir dir;
  Metadata metadata;
  metadata.set("general.alignment", uint32_t{48});
  CHECK(create_gguf(dir.path("m.gguf"), metadata).error().code() == StatusCode::bad_file);
  Metadata unnamed;
  unnamed.set("", uint32_t{1});
  CHECK(create_gguf(dir.path("m.gguf"), unnamed).error().code() == StatusCode::bad_file);
  const auto nowhere = create_gguf(dir.path("none/m.gguf"), Metadata());
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code() == StatusCode::io);
  CHECK(nowhere.error().message().find("No such file") != std::string::npos);
  CHECK(files_in(dir) == 0);
}

TEST_CASE("a write that the system refuses is an error and leaves nothing behind") {
  const TempDir dir;
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1 << 20, before.rlim_max };
  Status status;
  {
    auto sink = create(dir.path("m.gguf"));
    REQUIRE(sink->declare("t", tensor(DType::f32, 1 << 20)).ok());
    REQUIRE(sink->begin().ok());
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    status = sink->write(std::vector<std::byte>(size_t{4} << 20));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(sink->finish().code() == StatusCode::io);
  }
  std::signal(SIGXFSZ, old_handler);
  CHECK(status.code() == StatusCode::io);
  CHECK(files_in(dir) == 0);
}
