// Quantising and importance matrices as the library offers them.
#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "engine/jobs/importance.h"
#include "engine/jobs/type_mix.h"
#include "engine/quant/quant.h"
#include "infer/jobs.hpp"
#include "tests/support.h"

using namespace infer;

namespace {

size_t files_in(const test::TempDir& folder) {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(folder.path("")), {}));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string made_model(const test::TempDir& folder) {
  SynthOptions synth_options;
  synth_options.shape = "custom";
  synth_options.type = "f32";
  synth_options.layers = 1;
  synth_options.embedding = synth_options.feed_forward = 256;
  synth_options.heads = synth_options.kv_heads = 4;
  synth_options.tokens = 300;
  const std::string path = folder.path("source.gguf");
  REQUIRE(synth(path, synth_options).ok());
  return path;
}

ImportanceMatrix made_matrix() {
  ImportanceMatrix matrix;
  matrix.datasets = {"a text"};
  matrix.chunks = 3;
  matrix.chunk_tokens = 16;
  matrix.entries["blk.0.attn_q.weight"] = {256, 1, std::vector<float>(256, 2.0f), {4}};
  matrix.entries["blk.0.ffn_up_exps.weight"] = {4, 2, {1, 2, 3, 4, 5, 6, 7, 8}, {2, 0}};
  return matrix;
}

}  // namespace

TEST_CASE("every type that is named can be written") {
  for (const std::string& name : type_mix_names()) {
    CAPTURE(name);
    const Result<TypeMix> mix = parse_type_mix(name);
    REQUIRE(mix);
    CHECK((mix->file_type() >= 0) == (mix->base() != DType::nf4));  // which is our own
    // Whatever the model, no part of it gets a type that is only read.
    for (const int64_t experts : {0, 4, 8}) {
      for (const bool importance : {false, true}) {
        const MixModel model{"llama", 80, experts, experts == 4 ? 1 : 8, importance};
        for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv", "ffn_up",
                                 "ffn_gate", "ffn_down", "ffn_down_exps", "other"}) {
          for (int64_t layer = 0; layer < model.layers; ++layer) {
            const DType type = mix->of_block(model, part, layer);
            for (const int64_t row : {256, 32, 7}) {
              CHECK((quant_traits(fitting_type(type, row)).quantise != nullptr));
            }
          }
        }
      }
    }
  }
  CHECK(parse_type_mix("q4_k")->file_type() == 15);
  CHECK(parse_type_mix("IQ1_S").error().code() == StatusCode::unsupported);
  CHECK(parse_type_mix("Q8_1").error().code() == StatusCode::invalid_argument);
  CHECK(parse_type_mix("").error().code() == StatusCode::invalid_argument);
}

TEST_CASE("an importance matrix comes back as it was written") {
  const test::TempDir folder;
  const std::string path = folder.path("imatrix.gguf");
  REQUIRE(save_importance(path, made_matrix()).ok());
  const Result<ImportanceMatrix> read = load_importance(path);
  REQUIRE(read);
  CHECK(read->datasets == std::vector<std::string>{"a text"});
  CHECK(read->chunks == 3);
  CHECK(read->chunk_tokens == 16);
  REQUIRE(read->entries.size() == 2);
  const ImportanceEntry& experts = read->entries.at("blk.0.ffn_up_exps.weight");
  CHECK(experts.columns == 4);
  CHECK(experts.experts == 2);
  // Nothing is known of the second, so that all its columns count alike.
  CHECK(experts.means() == std::vector<float>{0.5f, 1, 1.5f, 2, 1, 1, 1, 1});
}

TEST_CASE("means are finite whatever was counted") {
  const ImportanceEntry entry{2, 1, {3e38f, 1}, {1e-30f}};
  CHECK(entry.means() == std::vector<float>{std::numeric_limits<float>::max(), 1 / 1e-30f});
}

TEST_CASE("importance of another model is refused") {
  const test::TempDir folder;
  const std::string source = made_model(folder);
  ImportanceMatrix matrix;
  matrix.entries["encoder.0.weight"] = {256, 1, std::vector<float>(256, 2.0f), {4}};
  QuantizeOptions options;
  options.type = "Q4_K_M";
  options.importance = folder.path("imatrix.gguf");
  REQUIRE(save_importance(options.importance, matrix).ok());
  const Result<QuantizeReport> report = quantize(source, folder.path("out.gguf"), options);
  REQUIRE(!report);
  CHECK(report.error().code() == StatusCode::bad_file);
  // Where nothing is quantised there is nothing to weigh.
  options.type = "F16";
  CHECK(quantize(source, folder.path("out.gguf"), options));
}

TEST_CASE("values that are no importance are refused by name") {
  const test::TempDir folder;
  const std::string path = folder.path("imatrix.gguf");
  for (const float bad :
       {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool count : {false, true}) {
      ImportanceMatrix matrix = made_matrix();
      ImportanceEntry& entry = matrix.entries["blk.0.attn_q.weight"];
      (count ? entry.counts[0] : entry.sums[7]) = bad;
      REQUIRE(save_importance(path, matrix).ok());
      const Result<ImportanceMatrix> read = load_importance(path);
      REQUIRE(!read);
      CHECK(read.error().code() == StatusCode::bad_file);
      CHECK(read.error().message().find("blk.0.attn_q.weight") != std::string::npos);
    }
  }
}

TEST_CASE("whatever a file of importance holds, it is read or refused") {
  const test::TempDir folder;
  const std::string path = folder.path("imatrix.gguf");
  REQUIRE(save_importance(path, made_matrix()).ok());
  const std::string gguf = read_file(path);
  std::string old;
  const auto number = [&](int32_t value) {
    old.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  number(1);
  number(3);
  old += "abc";
  number(2);  // steps
  number(4);
  for (int i = 0; i < 4; ++i) number(0x3f800000);
  const std::string broken = folder.path("broken");
  for (const std::string& whole : {gguf, old}) {
    write_file(broken, whole);
    CHECK(load_importance(broken));
    const size_t header = std::min<size_t>(whole.size(), 700);
    for (size_t at = 0; at < header; ++at) {
      write_file(broken, whole.substr(0, at));
      CHECK(!load_importance(broken));
      for (const char bit : {'\x01', '\x80'}) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ bit);
        write_file(broken, flipped);
        const Result<ImportanceMatrix> read = load_importance(broken);
        if (!read) CHECK(!read.error().message().empty());
      }
    }
  }
}

TEST_CASE("quantising gives the same bytes with any number of threads, and its report") {
  const test::TempDir folder;
  const std::string source = made_model(folder);
  QuantizeOptions options;
  options.type = "iq3_xs";
  std::string first;
  for (const int32_t threads : {1, 2, 5}) {
    options.threads = threads;
    const std::string out = folder.path("out.gguf");
    const Result<QuantizeReport> report = quantize(source, out, options);
    REQUIRE(report);
    CHECK(report->bits_per_weight < 6);
    int64_t elements = 0;
    const Result<ModelDescription> made = describe_model(out);
    REQUIRE(made);
    for (const TensorDescription& tensor : made->tensors) {
      int64_t count = 1;
      for (const int64_t dim : tensor.shape) count *= dim;
      elements += count;
    }
    CHECK(report->parameters == elements);
    const std::string bytes = read_file(out);
    if (first.empty()) first = bytes;
    CHECK(bytes == first);
  }
}

TEST_CASE("a cancelled quantisation leaves nothing") {
  const test::TempDir folder;
  const std::string source = made_model(folder);
  for (const double when : {0.0, 0.5, 0.999}) {
    QuantizeOptions options;
    options.type = "Q4_K_M";
    options.progress = [&](double done) { return done < when; };
    const Result<QuantizeReport> report = quantize(source, folder.path("out.gguf"), options);
    REQUIRE(!report);
    CHECK(report.error().code() == StatusCode::cancelled);
    CHECK(files_in(folder) == 1);
  }
}

TEST_CASE("patterns of names decide by the first that matches") {
  const test::TempDir folder;
  const std::string source = made_model(folder);
  const auto type_of = [&](const std::string& name,
                           std::vector<std::pair<std::string, std::string>> patterns) {
    QuantizeOptions options;
    options.type = "Q8_0";
    options.tensor_types = std::move(patterns);
    const Result<QuantizeReport> report = quantize(source, folder.path("out.gguf"), options);
    REQUIRE(report);
    return std::ranges::find(report->tensors, name, &QuantizeReport::Tensor::name)->to;
  };
  const std::string name = "blk.0.ffn_up.weight";
  CHECK(type_of(name, {{"ffn_up", "Q4_0"}, {"ffn", "Q5_0"}}) == "Q4_0");
  CHECK(type_of(name, {{"ffn*weight", "Q4_0"}}) == "Q4_0");
  CHECK(type_of(name, {{"b?k.?.ffn", "Q4_0"}}) == "Q4_0");
  CHECK(type_of(name, {{"*", "Q4_0"}}) == "Q4_0");
  CHECK(type_of(name, {{"ffn_down", "Q4_0"}}) == "Q8_0");
  CHECK(type_of("blk.0.ffn_norm.weight", {{"*", "Q4_0"}}) == "F32");
  for (const char* const none : {"weight?", "fn?up.b", "ffn_norm"}) {  // or none that may change
    QuantizeOptions options;
    options.type = "Q8_0";
    options.tensor_types = {{"*", "Q4_0"}, {none, "Q4_0"}};
    const Result<QuantizeReport> report = quantize(source, folder.path("none.gguf"), options);
    REQUIRE(!report);
    CHECK(report.error().code() == StatusCode::invalid_argument);
    CHECK(report.error().message().find(none) != std::string::npos);
  }
}
