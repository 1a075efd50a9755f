#include <doctest.h>

#include <filesystem>

#include "engine/weights/weight_source.h"
#include "tests/formats/raw_gguf.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

std::string part_name(int number, int count) {
  char name[64];
  std::snprintf(name, sizeof(name), "m-%05d-of-%05d.gguf", number, count);
  return name;
}

RawGguf part(int index, int count, int64_t tensors) {
  RawGguf file;
  file.value("split.no", 2, Bytes().number(static_cast<uint16_t>(index)));
  file.value("split.count", 2, Bytes().number(static_cast<uint16_t>(count)));
  if (tensors >= 0) {
    file.value("split.tensors.count", 5, Bytes().number(static_cast<int32_t>(tensors)));
  }
  if (index == 0) file.text("general.architecture", "test");
  return file;
}

RawGguf with_tensor(RawGguf file, const std::string& name) {
  file.tensor(name, {8}, 0, 0);
  file.data_bytes = 32;
  return file;
}

/// Three parts: the first without tensors, as some tools write them.
void write_set(const TempDir& dir) {
  write_bytes(dir.path(part_name(1, 3)), bytes_of(part(0, 3, 2).bytes()));
  write_bytes(dir.path(part_name(2, 3)), bytes_of(with_tensor(part(1, 3, 2), "a").bytes()));
  write_bytes(dir.path(part_name(3, 3)), bytes_of(with_tensor(part(2, 3, 2), "b").bytes()));
}

bool fails(const std::string& path, StatusCode code, const std::string& why) {
  const auto source = open_model(path);
  const std::string message = source ? "opened" : source.error().message();
  INFO("found: ", message, "; expected in it: ", why);
  const bool right =
      !source && source.error().code() == code && message.find(why) != std::string::npos;
  CHECK(right);
  return right;
}

}  // namespace

TEST_CASE("a split model opens as one") {
  const TempDir dir;
  write_set(dir);
  const auto source = open_model(dir.path(part_name(1, 3)));
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  REQUIRE((*source)->weights().size() == 2);
  CHECK((*source)->find("a")->place.file == 1);
  CHECK((*source)->find("b")->place.file == 2);
  CHECK((*source)->metadata().has("general.architecture"));
  CHECK_FALSE((*source)->metadata().has("split.count"));
  std::byte read[32];
  const Weight* b = (*source)->find("b");
  REQUIRE((*source)->read(b->place, 0, read).ok());
  CHECK(read[1] == std::byte{8});
  const auto mapped = (*source)->map(b->place, 32);
  REQUIRE(mapped.has_value());
  CHECK(std::equal(mapped->begin(), mapped->end(), std::begin(read)));
}

TEST_CASE("what is wrong with a split model is named") {
  const TempDir dir;
  const std::string first = dir.path(part_name(1, 3));
  write_set(dir);
  fails(dir.path(part_name(2, 3)), StatusCode::bad_file, "open " + first + " instead");
  std::filesystem::rename(dir.path(part_name(3, 3)), dir.path("other.gguf"));
  fails(dir.path("other.gguf"), StatusCode::bad_file, "open its first part instead");
  fails(first, StatusCode::not_found, part_name(3, 3));

  write_bytes(dir.path(part_name(3, 3)), bytes_of(with_tensor(part(1, 3, 2), "b").bytes()));
  fails(first, StatusCode::bad_file, "expected part 3 of 3, found part 2 of 3");
  write_bytes(dir.path(part_name(3, 3)), bytes_of(with_tensor(part(2, 4, 2), "b").bytes()));
  fails(first, StatusCode::bad_file, "expected part 3 of 3, found part 3 of 4");
  write_bytes(dir.path(part_name(3, 3)), bytes_of(with_tensor(RawGguf(), "b").bytes()));
  fails(first, StatusCode::bad_file, "expected part 3 of 3, found part 1 of 1");
  write_bytes(dir.path(part_name(3, 3)), bytes_of(with_tensor(part(2, 3, 2), "a").bytes()));
  fails(first, StatusCode::bad_file, "tensor 'a' is in an earlier part as well");
  write_bytes(dir.path(part_name(3, 3)), bytes_of(part(2, 3, 2).bytes()));
  fails(first, StatusCode::bad_file, "expected 2 tensors in 3 files, found 1");
  write_bytes(dir.path(part_name(3, 3)), bytes_of("GGUF"));
  fails(first, StatusCode::bad_file, part_name(3, 3));

  write_bytes(dir.path("name.gguf"), bytes_of(part(0, 3, 2).bytes()));
  fails(dir.path("name.gguf"), StatusCode::bad_file, "-00001-of-00003.gguf");
}

TEST_CASE("numbers of parts are checked") {
  const TempDir dir;
  const std::string path = dir.path("x.gguf");
  write_bytes(path, bytes_of(RawGguf().u32("split.count", 70000).bytes()));
  fails(path, StatusCode::bad_file, "split.count");
  write_bytes(path, bytes_of(RawGguf().u32("split.count", 2).u32("split.no", 2).bytes()));
  fails(path, StatusCode::bad_file, "split.no");
  write_bytes(path, bytes_of(RawGguf().text("split.count", "2").bytes()));
  fails(path, StatusCode::bad_file, "split.count");
  write_bytes(path, bytes_of(part(0, 1, 0).bytes()));
  CHECK(open_model(path).has_value());
  write_bytes(path, bytes_of(part(0, 1, 5).bytes()));
  fails(path, StatusCode::bad_file, "expected 5 tensors");
}
