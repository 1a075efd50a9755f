// A regression for every known way to break a reader of GGUF.
#include <doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "engine/weights/weight_source.h"
#include "tests/formats/allocations.h"
#include "tests/formats/raw_gguf.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr size_t kEnoughToRefuse = size_t{1} << 19;

/// The failure of opening a file with these bytes. Every one has to come at once and without memory
/// in proportion to what the file claims.
Status refusal(const std::string& bytes) {
  const TempDir dir;
  write_bytes(dir.path("bad.gguf"), bytes_of(bytes));
  const double start = thread_seconds();
  largest_request = 0;
  const auto source = open_model(dir.path("bad.gguf"));
  CHECK(largest_request < kEnoughToRefuse);
  CHECK(thread_seconds() - start < 1);
  return source ? Status() : source.error();
}

bool refused(const std::string& bytes, const char* why, StatusCode code = StatusCode::bad_file) {
  const Status status = refusal(bytes);
  INFO("found: ", status.message(), "; expected in it: ", why);
  const bool right = status.code() == code && status.message().find(why) != std::string::npos &&
                     status.message().find("bad.gguf") != std::string::npos;
  CHECK(right);
  return right;
}

RawGguf one_tensor(std::vector<uint64_t> shape, uint32_t type = 0, uint64_t offset = 0) {
  RawGguf file;
  file.tensor("t", std::move(shape), type, offset);
  file.data_bytes = 64;
  return file;
}

}  // namespace

TEST_CASE("what is not GGUF, or another version, is refused by name") {
  RawGguf file;
  file.version = 1;
  refused(file.bytes(), "version 1", StatusCode::unsupported);
  file.version = 0x03000000;
  refused(file.bytes(), "big-endian", StatusCode::unsupported);
  file.version = 4;
  refused(file.bytes(), "found 4", StatusCode::unsupported);
  file.version = 0;
  refused(file.bytes(), "found 0");
  file.version = 3;
  CHECK(refusal(file.bytes()).ok());
  file.magic = "GGML";
  refused(file.bytes(), "expected one of GGUF");
  refused("", "expected one of GGUF");
}

TEST_CASE("paths that are no files are refused and nothing hangs") {
  const TempDir dir;
  CHECK(open_model(dir.path("none")).error().code() == StatusCode::not_found);
  CHECK(open_model(dir.path("")).error().code() == StatusCode::bad_file);
  REQUIRE(mkfifo(dir.path("pipe").c_str(), 0600) == 0);
  CHECK(open_model(dir.path("pipe")).error().code() == StatusCode::bad_file);
}

TEST_CASE("claims beyond the file are refused before memory is taken for them") {
  for (const int64_t count : {int64_t{1} << 60, INT64_MAX, int64_t{1} << 32, int64_t{1000}}) {
    RawGguf keys;
    keys.key_count = count;
    refused(keys.bytes(), "metadata keys");
    RawGguf tensors;
    tensors.tensor_count = count;
    refused(tensors.bytes(), "tensors");
    for (const uint32_t element : {0u, 3u, 6u, 7u, 8u, 10u}) {
      RawGguf array;
      array.value("a", 9, Bytes().u32(element).u64(static_cast<uint64_t>(count)));
      refused(array.bytes(), "key 'a'");
    }
    RawGguf text;
    text.value("s", 8, Bytes().u64(static_cast<uint64_t>(count)));
    refused(text.bytes(), "key 's'");
  }
  for (const uint64_t length : {uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7}) {
    RawGguf text;
    text.value("s", 8, Bytes().u64(length));
    refused(text.bytes(), "key 's'");
    RawGguf array;
    array.value("a", 9, Bytes().u32(8).u64(1).u64(length));
    refused(array.bytes(), "key 'a'");
    RawGguf key;
    key.keys.push_back(Bytes().u64(length).data + std::string(64, 'k'));
    refused(key.bytes(), "metadata key 1");
    RawGguf name;
    name.tensor_count = 1;
    refused(name.header() + Bytes().u64(length).data + std::string(64, 'n'), "tensor 1");
  }
}

TEST_CASE("a header of absurd size is refused, though the file may hold it") {
  const TempDir dir;
  const std::string path = dir.path("bad.gguf");
  const auto refused_in_a_hole = [&](const RawGguf& file, uint64_t size, const char* why) {
    CAPTURE(why);
    write_bytes(path, bytes_of(file.bytes()));
    std::filesystem::resize_file(path, size);
    largest_request = 0;
    const auto source = open_model(path);
    CHECK(largest_request < kEnoughToRefuse);
    REQUIRE_FALSE(source);
    CHECK_MESSAGE(source.error().message().find(why) != std::string::npos,
                  source.error().message());
  };
  constexpr uint64_t kHole = uint64_t{1} << 40;
  const auto array = [](uint32_t type, uint64_t count) {
    return RawGguf().value("a", 9, Bytes().u32(type).u64(count));
  };
  refused_in_a_hole(RawGguf().value("a", 8, Bytes().u64(uint64_t{1} << 34)), kHole,
                    "a header may take");
  refused_in_a_hole(array(8, uint64_t{1} << 34), kHole, "an array of at most 16777216 elements");
  // Within the header's bytes: what costs is the memory for each empty string and each number.
  constexpr uint64_t kWithin = uint64_t{1} << 28;
  refused_in_a_hole(array(8, 5'000'000), kWithin, "at most 4194304 strings in all arrays");
  for (const uint32_t one_byte : {0, 1, 7}) {
    refused_in_a_hole(array(one_byte, 20'000'000), kWithin, "an array of at most 16777216");
  }
  RawGguf many;
  many.key_count = 10'000'000;
  refused_in_a_hole(many, kWithin, "10000000 metadata keys: expected at most 1048576");
  many.key_count = 0;
  many.tensor_count = 10'000'000;
  refused_in_a_hole(many, kWithin, "10000000 tensors: expected at most 1048576");
}

TEST_CASE("the limit on strings counts all arrays") {
  // Four arrays, each half of what all may hold. Empty strings are eight zero bytes.
  constexpr uint64_t kHalf = uint64_t{1} << 21;
  RawGguf file;
  for (const char* key : {"a", "b", "c", "d"}) {
    Bytes strings = Bytes().u32(8).u64(kHalf);
    strings.data.append(kHalf * sizeof(uint64_t), '\0');
    file.value(key, 9, strings);
  }
  const TempDir dir;
  const std::string path = dir.path("bad.gguf");
  write_bytes(path, bytes_of(file.bytes()));
  const auto source = open_model(path);
  REQUIRE_FALSE(source);
  CHECK_MESSAGE(source.error().message().find("key 'c': expected at most 4194304 strings") !=
                    std::string::npos,
                source.error().message());
}

TEST_CASE("keys and values are checked") {
  refused(RawGguf().u32("k", 1).u32("k", 1).bytes(), "'k': appears twice");
  refused(RawGguf().u32("", 1).bytes(), "expected a key of 1 to");
  refused(RawGguf().value("k", 13, Bytes().u64(0)).bytes(), "found 13");
  refused(RawGguf().value("k", 0xffffffff, Bytes().u64(0)).bytes(), "found 4294967295");
  refused(RawGguf().value("k", 9, Bytes().u32(13).u64(0)).bytes(), "found 13");
  refused(RawGguf().value("k", 7, Bytes().number<uint8_t>(2)).bytes(), "expected a bool");
  refused(RawGguf().value("k", 9, Bytes().u32(7).u64(1).number<uint8_t>(255)).bytes(),
          "expected a bool");
  Bytes nested;
  for (int depth = 0; depth < 100000; ++depth) nested.u32(9).u64(1);
  refused(RawGguf().value("k", 9, nested).bytes(), "arrays of arrays", StatusCode::unsupported);
  const Status status = refusal(RawGguf().value("\x1b[2J", 13, Bytes().u64(0)).bytes());
  CHECK(status.message().find('\x1b') == std::string::npos);
  CHECK(status.message().find("\\x1b[2J") != std::string::npos);
}

TEST_CASE("the alignment is a power of two within bounds") {
  for (const uint32_t alignment : {0u, 3u, 33u, 48u, 1u << 21, 1u << 31, 0xffffffffu}) {
    CAPTURE(alignment);
    refused(RawGguf().u32("general.alignment", alignment).bytes(), "power of two");
  }
  refused(RawGguf().text("general.alignment", "32").bytes(), "general.alignment");
  refused(RawGguf().value("general.alignment", 11, Bytes().number<int64_t>(-32)).bytes(),
          "general.alignment");
  for (const uint32_t alignment : {1u, 8u, 4096u, 1u << 20}) {
    CHECK(refusal(RawGguf().u32("general.alignment", alignment).bytes()).ok());
  }
}

TEST_CASE("tensors are checked") {
  CHECK(refusal(one_tensor({16}).bytes()).ok());
  CHECK(refusal(one_tensor({}).bytes()).ok());
  refused(one_tensor({1, 1, 1, 1, 1}).bytes(), "at most 4 dimensions, found 5");
  RawGguf deep = one_tensor({1});
  std::string bytes = deep.bytes();
  const size_t rank = deep.header().size() - 8 - 4 - 8 - 4;
  bytes.replace(rank, 4, "\xff\xff\xff\xff");
  refused(bytes, "found 4294967295");

  refused(one_tensor({0}).bytes(), "dimension 0");
  refused(one_tensor({16, 0}).bytes(), "dimension 1");
  refused(one_tensor({0, UINT64_MAX}).bytes(), "dimension 0");
  refused(one_tensor({uint64_t{1} << 63}).bytes(), "found 9223372036854775808");
  refused(one_tensor({UINT64_MAX}).bytes(), "found 18446744073709551615");
  refused(one_tensor({uint64_t{1} << 62, 4}).bytes(), "2^62");
  refused(one_tensor({uint64_t{1} << 31, uint64_t{1} << 31, 4}).bytes(), "2^62");
  refused(one_tensor({1, uint64_t{1} << 32, uint64_t{1} << 32, 1}).bytes(), "2^62");
  refused(one_tensor({uint64_t{1} << 40}).bytes(), "expected 4398046511104 bytes");
  refused(one_tensor({17}).bytes(), "expected 68 bytes");
  std::string one_byte_less = one_tensor({16}).bytes();
  one_byte_less.pop_back();
  refused(one_byte_less, "expected 64 bytes");
  refused(one_tensor({31}, 2).bytes(), "whole number of Q4_0 blocks");

  refused(one_tensor({4}, 0, 16).bytes(), "not a multiple of the alignment");
  refused(one_tensor({4}, 0, 64).bytes(), "the file has");
  refused(one_tensor({4}, 0, UINT64_MAX - 31).bytes(), "the file has");
  refused(one_tensor({4}, 0, uint64_t{1} << 63).bytes(), "the file has");

  RawGguf two = one_tensor({4});
  refused(RawGguf(two).tensor("t", {4}, 0, 32).bytes(), "'t': appears twice");
  refused(RawGguf(two).tensor("u", {4}, 0, 0).bytes(), "shares bytes with tensor 't'");
  CHECK(refusal(RawGguf(two).tensor("u", {4}, 0, 32).bytes()).ok());
  refused(RawGguf(two).tensor("", {4}, 0, 32).bytes(), "name of 1 to 63");
  refused(RawGguf(two).tensor(std::string(64, 'n'), {4}, 0, 32).bytes(), "found 64");
  CHECK(refusal(RawGguf(two).tensor(std::string(63, 'n'), {4}, 0, 32).bytes()).ok());
}

TEST_CASE("types that were removed or never existed are named") {
  const std::pair<uint32_t, const char*> removed[] = {
      {4, "Q4_2"},      {5, "Q4_3"},        {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},
      {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}};
  for (const auto& [id, name] : removed) {
    refused(one_tensor({1}, id).bytes(), name, StatusCode::unsupported);
  }
  for (const uint32_t id : {43u, 63u, 64u, 999u, 1001u, 1023u, 1024u, 0x7fffffffu, 0xffffffffu}) {
    const std::string why = "type " + std::to_string(id);
    refused(one_tensor({1}, id).bytes(), why.c_str(), StatusCode::unsupported);
  }
}

TEST_CASE("NF4 is read only where the file says which") {
  RawGguf file = one_tensor({64}, 1000);
  file.data_bytes = 36;
  refused(file.bytes(), "is not known without the key 'infer.nf4.version'",
          StatusCode::unsupported);
  CHECK(refusal(RawGguf(file).u32("infer.nf4.version", 1).bytes()).ok());
  refused(RawGguf(file).u32("infer.nf4.version", 2).bytes(), "expected 1, found 2",
          StatusCode::unsupported);
  refused(RawGguf(file).text("infer.nf4.version", "1").bytes(), "infer.nf4.version");
}
