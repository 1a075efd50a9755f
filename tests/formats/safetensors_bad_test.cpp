// A regression for every known way to break a reader of safetensors and of what lies beside them.
#include <doctest.h>

#include <filesystem>

#include "engine/weights/weight_source.h"
#include "formats/safetensors/source.h"
#include "tests/formats/allocations.h"
#include "tests/formats/raw_safetensors.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr size_t kEnoughToRefuse = size_t{1} << 19;

/// The failure of opening a file with these bytes: at once, and without memory in proportion to
/// what the file claims.
Status refusal(const std::string& bytes) {
  const TempDir dir;
  const std::string path = dir.path("bad.safetensors");
  write_bytes(path, bytes_of(bytes));
  const double start = thread_seconds();
  largest_request = 0;
  const auto source = safetensors::open_source(path);
  CHECK(largest_request < kEnoughToRefuse);
  CHECK(thread_seconds() - start < 1);
  return source ? Status() : source.error();
}

bool says(const Status& status, const char* why, StatusCode code = StatusCode::bad_file) {
  INFO("found: ", status.message(), "; expected in it: ", why);
  const bool right = status.code() == code && status.message().find(why) != std::string::npos;
  CHECK(right);
  return right;
}

void refused(const std::string& header, size_t data, const char* why,
             StatusCode code = StatusCode::bad_file) {
  const Status status = refusal(safetensors_bytes(header, data));
  says(status, why, code);
  says(status, "bad.safetensors", code);
}

const char* const kTwo = R"({"__metadata__":{"format":"pt"},)"
                         R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                         R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

/// A directory with these files.
class Checkpoint {
 public:
  void file(const std::string& name, const std::string& bytes) {
    write_bytes(dir_.path(name), bytes_of(bytes));
  }
  void remove(const std::string& name) { std::filesystem::remove(dir_.path(name)); }
  /// The directory, or one of its files.
  Status opened(const std::string& name = "") const {
    const auto source = open_model(dir_.path(name));
    return source ? Status() : source.error();
  }

 private:
  TempDir dir_;
};

std::string index_of(const std::string& entries) {
  return R"({"metadata":{"total_size":1},"weight_map":{)" + entries + "}}";
}

}  // namespace

TEST_CASE("lengths beyond the file or the format are refused") {
  says(refusal(""), "8 bytes");
  says(refusal("1234567"), "8 bytes");
  std::string file = safetensors_bytes("{}", 0);
  CHECK(refusal(file).ok());
  file[0] = 3;
  says(refusal(file), "expected a header of 3 bytes, found 2");
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX}) {
    std::memcpy(file.data(), &length, sizeof(length));
    says(refusal(file), "at most 100000000 bytes");
  }
}

TEST_CASE("headers that are not what the format says are refused by name") {
  refused("", 0, "not valid JSON");
  refused("{", 0, "not valid JSON at its byte");
  refused("{}}", 0, "not valid JSON");
  refused("[]", 0, "expected the header to be an object, found an array");
  refused("1", 0, "expected the header to be an object");
  refused("null", 0, "expected the header to be an object");
  refused(R"({"t":1})", 0, "'t': expected an object, found a number");
  refused(R"({"t":[]})", 0, "'t': expected an object, found an array");
  refused(R"({"t":{}})", 0, "dtype is missing");
  refused(R"({"t":{"dtype":"F32","shape":[1]}})", 0, "data_offsets is missing");
  refused(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4, "shape is missing");
  refused(R"({"t":{"dtype":1}})", 0, "dtype");
  refused(R"({"t":{"dtype":{}}})", 0, "found an object");
  refused(R"({"t":{"shape":[[1]]}})", 0, "found an array");
  refused(R"({"t":{"shape":["1"]}})", 0, "found a string");
  refused(R"({"t":{"other":[1]}})", 0, "other");
  refused(R"({"__metadata__":{"a":1}})", 0, "__metadata__: a: expected strings");
  refused(R"({"__metadata__":{"a":["b"]}})", 0, "__metadata__");
  refused("{\"\xff\":{}}", 0, "not valid JSON");
  refused(std::string(100'000, '['), 0, "expected the header to be an object");
  refused(R"({"t":{"shape":[)" + std::string(100'000, '['), 0, "found an array");
  const Status status = refusal(safetensors_bytes(R"({"\u001b[2J":{}})", 0));
  CHECK(status.message().find('\x1b') == std::string::npos);
}

TEST_CASE("names appear once") {
  const std::string entry = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  refused("{" + entry + "," + entry + "}", 1, "tensor 't': appears twice");
  refused(R"({"t":{"dtype":"U8","dtype":"U8"}})", 1, "'dtype' appears twice");
  refused(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "'k' appears twice");
  refused(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "no name");
}

TEST_CASE("a header's time and memory grow with its length alone") {
  const TempDir dir;
  const std::string path = dir.path("many.safetensors");
  const auto seconds_for = [&](int keys, int tensors) {
    std::string header = R"({"__metadata__":{)";
    for (int i = 0; i < keys; ++i) header += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
    header += "}";
    for (int i = 0; i < tensors; ++i) {
      header +=
          fmt::format(R"(,"t{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i, i, i + 1);
    }
    write_bytes(path, bytes_of(safetensors_bytes(header + "}", tensors)));
    const double start = thread_seconds();
    const auto source = safetensors::open_source(path);
    REQUIRE_MESSAGE(source, source.error().message());
    return thread_seconds() - start;
  };
  // What is kept of the metadata's keys is not gone through again for each tensor.
  const double alone = seconds_for(600'000, 1) + seconds_for(1, 40'000);
  CHECK(seconds_for(600'000, 40'000) < 5 * alone);

  std::string keys = R"({"__metadata__":{)";
  for (int i = 0; i <= 1 << 20; ++i) keys += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  write_bytes(path, bytes_of(safetensors_bytes(keys + "}}", 0)));
  CHECK(
      says(safetensors::open_source(path).error(), "__metadata__: expected at most 1048576 keys"));
  std::string tensors = "{";
  for (int i = 0; i <= 1 << 20; ++i) {
    tensors += fmt::format(R"({}"{}":{{}})", i == 0 ? "" : ",", i);
  }
  write_bytes(path, bytes_of(safetensors_bytes(tensors + "}", 0)));
  CHECK(says(safetensors::open_source(path).error(), "expected at most 1048576 tensors"));
}

TEST_CASE("types, shapes and places are checked") {
  refused(tensor("F31", "[1]", "[0,4]"), 4, "dtype 'F31' is not known", StatusCode::unsupported);
  refused(tensor("F32", "[1,1,1,4294967296,4294967296]", "[0,4]"), 4, "fewer than 2^63 elements");
  refused(tensor("F32", "[0]", "[0,0]"), 0, "found 0");
  refused(tensor("F32", "[-1]", "[0,4]"), 4, "found -1");
  refused(tensor("F32", "[1.0]", "[0,4]"), 4, "whole numbers");
  refused(tensor("F32", "[1e3]", "[0,4]"), 4, "whole numbers");
  refused(tensor("F32", "[18446744073709551615]", "[0,4]"), 4, "found 18446744073709551615");
  refused(tensor("F32", "[18446744073709551616]", "[0,4]"), 4, "t");
  refused(tensor("F32", "[4294967296,4294967296,4294967296]", "[0,4]"), 4, "2^62");
  refused(tensor("F32", "[2]", "[0,4]"), 8, "expected 8 bytes");
  refused(tensor("F32", "[1]", "[4,0]"), 8, "found 4 to 0");
  refused(tensor("F32", "[1]", "[1,5]"), 4, "found 1 to 5");
  refused(tensor("F32", "[1]", "[0,4]"), 3, "within the 3 bytes");
  refused(tensor("F32", "[1]", "[18446744073709551612,18446744073709551615]"), 4, "within the 4");
  refused(tensor("F32", "[1]", "[0]"), 4, "found 1 numbers");
  refused(tensor("F32", "[1]", "[0,4,8]"), 8, "found 3 numbers");
  refused(tensor(
              "F32", "[1" + std::string(40'000, ' ') + "]",
              "[" +
                  [] {
                    std::string many = "0";
                    for (int i = 0; i < 1000; ++i) many += ",0";
                    return many;
                  }() +
                  "]"),
          4, "at most 16 numbers");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8, "'b': shares bytes with tensor 'a'");
  refused(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
          R"("b":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[3,5]}})",
          5, "'b': shares bytes with tensor 'a'");
  CHECK(refusal(safetensors_bytes(tensor("F32", "[]", "[0,4]"), 4)).ok());
}

TEST_CASE("every truncation is refused") {
  const std::string whole = safetensors_bytes(kTwo, 32);
  REQUIRE(refusal(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(refusal(whole.substr(0, size)).ok());
  }
}

TEST_CASE("every bit flip of a header gives a typed error or a source that reads") {
  const std::string whole = safetensors_bytes(kTwo, 32);
  const TempDir dir;
  const std::string path = dir.path("flipped.safetensors");
  int opened = 0;
  for (size_t bit = 0; bit < 8 * (whole.size() - 32); ++bit) {
    CAPTURE(bit);
    std::string file = whole;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
    write_bytes(path, bytes_of(file));
    const auto source = safetensors::open_source(path);
    if (!source) {
      CHECK(source.error().code() != StatusCode::internal);
      CHECK(source.error().message().find(path) != std::string::npos);
      continue;
    }
    ++opened;
    for (const Weight& weight : (*source)->weights()) {
      std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
      CHECK((*source)->read(weight.place, 0, data).ok());
    }
  }
  CHECK(opened > 0);
}

TEST_CASE("what an index may name") {
  const std::string shard = safetensors_bytes(tensor("U8", "[1]", "[0,1]"), 1);
  const std::string long_name = R"("t":")" + std::string(5000, 'a') + "\"";
  const std::pair<std::string, const char*> cases[] = {
      {long_name, "'weight_map': expected names of files in its folder"},
      {R"("t":"../s.safetensors")", "names of files in its folder"},
      {R"("t":"/etc/passwd")", "names of files in its folder"},
      {R"("t":"a/b")", "names of files in its folder"},
      {R"("t":"..")", "names of files in its folder"},
      {R"("t":".")", "names of files in its folder"},
      {R"("t":"")", "names of files in its folder"},
      {R"("t":"a\u0000b")", "names of files in its folder"},
      {R"("t":1)", "expected the name of a file"},
      {R"("t":["s.safetensors"])", "expected the name of a file"},
      {"", "found none"},
      {R"("t":"s.safetensors","t":"s.safetensors")", "appears twice"},
      {R"("t":"r.safetensors","v":"s.safetensors")", "in another file as well"},
  };
  for (const auto& [entries, why] : cases) {
    CAPTURE(entries);
    Checkpoint checkpoint;
    checkpoint.file("config.json", "{}");
    checkpoint.file("s.safetensors", shard);
    checkpoint.file("r.safetensors", shard);
    checkpoint.file("model.safetensors.index.json", index_of(entries));
    says(checkpoint.opened(), why);
  }
  // A tensor of the index that no file has may be one that no model needs.
  Checkpoint more;
  more.file("config.json", "{}");
  more.file("s.safetensors", shard);
  more.file("model.safetensors.index.json", index_of(R"("t":"s.safetensors","u":"s.safetensors")"));
  CHECK(more.opened().ok());
  // An index that lies beside the one file is of another model.
  Checkpoint single;
  single.file("config.json", "{}");
  single.file("model.safetensors", shard);
  single.file("model.safetensors.index.json", index_of(R"("t":"absent.safetensors")"));
  CHECK(single.opened().ok());

  Checkpoint missing;
  missing.file("config.json", "{}");
  missing.file("model.safetensors.index.json", index_of(R"("t":"absent.safetensors")"));
  says(missing.opened(), "absent.safetensors", StatusCode::not_found);
  says(missing.opened(), "model.safetensors.index.json", StatusCode::not_found);

  Checkpoint moved;
  moved.file("config.json", "{}");
  moved.file("s.safetensors", shard);
  moved.file("r.safetensors", safetensors_bytes("{}", 0));
  moved.file("model.safetensors.index.json",
             index_of(R"("t":"r.safetensors","x":"s.safetensors")"));
  says(moved.opened(), "expected in r.safetensors, found in s.safetensors");
}

TEST_CASE("what modules.json may name") {
  const auto refusal_of = [](const std::string& folder) {
    Checkpoint checkpoint;
    checkpoint.file("config.json", "{}");
    checkpoint.file("model.safetensors", safetensors_bytes("{}", 0));
    checkpoint.file(
        "modules.json",
        R"([{"type":"a.Transformer","path":""},{"type":"a.Pooling","path":")" + folder + "\"}]");
    return checkpoint.opened();
  };
  for (const std::string& folder :
       {std::string(5000, 'a'), std::string(256, 'a'), std::string("../x"), std::string("/etc"),
        std::string("."), std::string(".."), std::string(), std::string("a\\u0000b"),
        std::string("a\\\\b")}) {
    CAPTURE(folder);
    says(refusal_of(folder), "modules.json: '[1].path': expected the name of a folder beside it");
  }
  says(refusal_of(std::string(255, 'a')), "cannot open", StatusCode::not_found);
  says(refusal_of("1_Pooling"), "1_Pooling/config.json: cannot open", StatusCode::not_found);
}

TEST_CASE("what lies beside the weights is read within bounds") {
  const std::string weights = safetensors_bytes("{}", 0);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  std::string arrays = R"({"a":)" + std::string(100'000, '[');
  std::string many = R"({"a":[)";
  for (int i = 0; i < 400'001; ++i) many += "1,";
  many += "1]}";
  const std::pair<std::string, const char*> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "expected an object"},
      {"7", "expected an object"},
      {"null", "expected an object"},
      {deep, "at most 16 levels"},
      {arrays, "at most 16 levels"},
      {many, "400000 values"},
      {R"({"a":1,"a":2})", "'hf.config.a' appears twice"},
      {R"({"a":{"b":1},"a.b":2})", "'hf.config.a.b' appears twice"},
      {R"({")" + std::string(600, 'k') + R"(":1})", "at most 512 bytes of keys"},
      {R"({"a":Infinit})", "not valid JSON"},
      {R"({"a":"x\", Infinity})", "not valid JSON"},
      {R"({"a":1e999})", "not valid JSON"},
  };
  for (const auto& [text, why] : cases) {
    CAPTURE(text.substr(0, 80));
    Checkpoint checkpoint;
    checkpoint.file("model.safetensors", weights);
    checkpoint.file("config.json", text);
    says(checkpoint.opened(), why);
    says(checkpoint.opened(), "config.json");
  }
  Checkpoint generation;
  generation.file("model.safetensors", weights);
  generation.file("config.json", "{}");
  generation.file("generation_config.json", "{");
  says(generation.opened(), "generation_config.json");
}

TEST_CASE("what a download has left out is named") {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
  Checkpoint unfetched;
  unfetched.file("config.json", "{}");
  unfetched.file("model.safetensors", pointer);
  says(unfetched.opened(), "Git LFS has not fetched this file");
  for (const char* name : {"model.safetensors", "model.gguf"}) {
    unfetched.file(name, pointer);
    says(unfetched.opened(name), "Git LFS has not fetched this file");
  }
  Checkpoint parts;
  parts.file("config.json", "{}");
  parts.file("model.safetensors.index.json",
             R"({"weight_map": {"a": "m-00001-of-00002.safetensors"}})");
  parts.file("m-00001-of-00002.safetensors", safetensors_bytes("{}", 0));
  says(parts.opened("m-00001-of-00002.safetensors"), "give the directory");
}

TEST_CASE("a directory needs a configuration and weights") {
  Checkpoint empty;
  says(empty.opened(), "not a model file");
  empty.file("config.json", "{}");
  says(empty.opened(), "found 0 files", StatusCode::not_found);
  empty.file("pytorch_model.bin", "");
  says(empty.opened(), "save the model as safetensors", StatusCode::unsupported);
  empty.remove("pytorch_model.bin");
  empty.file("a.safetensors", safetensors_bytes("{}", 0));
  CHECK(empty.opened().ok());
  empty.file("b.safetensors", safetensors_bytes("{}", 0));
  says(empty.opened(), "found 2 files");
}
