// Damaged model files: every load ends in a typed error or in a model that runs.
#include <doctest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "engine/model/arch.h"
#include "engine/model/open_weights.h"
#include "engine/weights/weight_source.h"
#include "infer/infer.hpp"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Bytes before the first tensor's data.
size_t header_bytes(const std::string& path) {
  const auto source = open_model(path);
  REQUIRE(source.has_value());
  uint64_t start = UINT64_MAX;
  for (const Weight& weight : (*source)->weights()) start = std::min(start, weight.place.offset);
  return static_cast<size_t>(start);
}

/// One to four edits of the kinds that break readers: a flipped bit, a byte of an extreme value, a
/// small integer, a copied stretch.
void mutate(std::string& file, size_t header, std::mt19937& random) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (size_t edits = 1 + below(4); edits > 0; --edits) {
    // Mostly the header; now and then the data, so that scales become infinite or no numbers.
    const size_t at = below(8) == 0 ? below(file.size() - 16) : below(header - 16);
    switch (below(4)) {
      case 0: file[at] = static_cast<char>(file[at] ^ (1 << below(8))); break;
      case 1: file[at] = static_cast<char>(std::array{0x00, 0x7f, 0x80, 0xff}[below(4)]); break;
      case 2: file[at] = static_cast<char>(below(16)); break;
      default: file.replace(at, 8, file.substr(below(header - 16), 8)); break;
    }
  }
}

/// Loads and computes a few tokens; false if that was refused.
bool try_model(const std::string& path) {
  LoadOptions load;
  load.threads = 1;
  load.batch_rows = 8;
  load.memory_limit = int64_t{256} << 20;
  const Result<std::unique_ptr<Engine>> engine = Engine::load(path, load);
  if (!engine) {
    CHECK(engine.error().code() != StatusCode::internal);
    CHECK(!engine.error().message().empty());
    return false;
  }
  const Result<std::unique_ptr<Session>> session = (*engine)->open_session();
  REQUIRE(session.has_value());
  GenerateOptions options;
  options.max_tokens = 2;
  options.sampling.seed = 1;
  const std::vector<int32_t> prompt{1, 2, 3};
  const auto result =
      (*session)->generate(prompt, options, [](int32_t, std::string_view) { return true; });
  if (!result) CHECK(result.error().code() != StatusCode::internal);
  return result.has_value();
}

}  // namespace

TEST_CASE("mutated models give typed errors or run") {
  const char* wanted = std::getenv("INFER_MUTATIONS");
  const int count = wanted == nullptr ? 300 : std::atoi(wanted);
  const TempDir dir;
  const std::string path = dir.path("mutant.gguf");
  int ran = 0;
  int refused = 0;
  std::vector<std::string> originals{data_path("golden/llama-q4_0.gguf"),
                                     data_path("golden/llama-q4_k.gguf")};
  for (const char* name :
       {"golden/granitemoe-f32.gguf", "golden/gpt-oss-mxfp4.gguf", "golden/qwen35moe-f32.gguf",
        "golden/nemotron_h_moe-f32.gguf", "golden/qwen4exp-f32.gguf"}) {
    originals.push_back(data_path(name));
  }
  for (size_t m = 0; m < originals.size(); ++m) {
    const std::string original = read_text(originals[m]);
    const size_t header = header_bytes(originals[m]);
    for (int i = 0; i < count / static_cast<int>(originals.size()); ++i) {
      INFO(originals[m], " mutant ", i);
      std::mt19937 random(static_cast<uint32_t>(i + 100000 * static_cast<int>(m)));
      std::string file = original;
      mutate(file, header, random);
      write_bytes(path, bytes_of(file));
      (try_model(path) ? ran : refused) += 1;
    }
  }
  CHECK(ran > 0);
  CHECK(refused > 0);
}

namespace {

/// A directory with a model in NF4, a vocabulary and defaults of sampling.
struct Directory {
  static constexpr const char* kFiles[] = {"config.json", "model.safetensors", "tokenizer.json",
                                           "generation_config.json"};
  TempDir dir;

  Directory() {
    const std::string from = data_path("golden/hf-nf4-double/");
    for (const char* name : {kFiles[0], kFiles[1]}) write(name, read_text(from + name));
    std::string tokens;
    for (int i = 0; i < 320; ++i) {
      const std::string letters{static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26)};
      tokens += (i == 0 ? "\"" : ",\"") + letters + "\":" + std::to_string(i);
    }
    write(kFiles[2], R"({"added_tokens":[{"id":3,"content":"da","special":true}],"pre_tokenizer":)"
                     R"({"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE",)"
                     R"("vocab":{)" +
                         tokens + R"(},"merges":[]}})");
    write(kFiles[3], R"({"eos_token_id":[2,7],"temperature":0.7,"top_k":20,"top_p":0.9})");
  }
  void write(const std::string& name, const std::string& bytes) const {
    write_bytes(dir.path(name), bytes_of(bytes));
  }
};

/// The header, with what describes quantised weights after it, or all of a text.
size_t described(const std::string& name, const std::string& file) {
  if (!name.ends_with(".safetensors")) return file.size();
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  return static_cast<size_t>(header) + 8;
}

}  // namespace

TEST_CASE("mutated directories give typed errors or run") {
  const char* wanted = std::getenv("INFER_MUTATIONS");
  const int count = wanted == nullptr ? 200 : std::atoi(wanted);
  const Directory directory;
  REQUIRE(try_model(directory.dir.path("")));
  int ran = 0;
  int refused = 0;
  for (const char* name : Directory::kFiles) {
    const std::string original = read_text(directory.dir.path(name));
    for (int i = 0; i < count / 4; ++i) {
      INFO(name, " mutant ", i);
      std::mt19937 random(static_cast<uint32_t>(i) + 7);
      std::string file = original;
      mutate(file, described(name, original), random);
      directory.write(name, file);
      (try_model(directory.dir.path("")) ? ran : refused) += 1;
    }
    directory.write(name, original);
  }
  CHECK(ran > 0);
  CHECK(refused > 0);
}

TEST_CASE("bit flips and truncations of a configuration give a typed error or a model") {
  const Directory directory;
  int opened = 0;
  const auto open = [&] {
    const auto source = open_weights(directory.dir.path(""));
    const auto model = source ? read_model(**source) : tl::unexpected(source.error());
    if (model) ++opened;
    if (!model) {
      CHECK(model.error().code() != StatusCode::internal);
      CHECK(model.error().message().find(directory.dir.path("")) != std::string::npos);
    }
  };
  for (const char* name : {"config.json", "generation_config.json"}) {
    const std::string original = read_text(directory.dir.path(name));
    // All of the first byte, two or three of each other one.
    for (size_t bit = 0; bit < 8 * original.size(); bit += bit < 8 ? 1 : 3) {
      INFO(name, " bit ", bit);
      std::string file = original;
      file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
      directory.write(name, file);
      open();
    }
    for (size_t size = 0; size < original.size(); ++size) {
      INFO(name, " of size ", size);
      directory.write(name, original.substr(0, size));
      open();
    }
    // Every number becomes a value of another type.
    const std::string_view digits = "0123456789.-e";
    for (size_t at = 0; (at = original.find_first_of("0123456789", at)) != std::string::npos;) {
      const size_t end = original.find_first_not_of(digits, at);
      for (const char* other : {"true", "[true]", "[[1]]"}) {
        INFO(name, " number at ", at, " is ", other);
        directory.write(name, original.substr(0, at) + other + original.substr(end));
        open();
      }
      at = end;
    }
    directory.write(name, original);
  }
  CHECK(opened > 0);
}
