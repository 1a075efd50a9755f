// The shapes against what is known of the models: rounded numbers of parameters, and the sizes
// of published files in q4_k_m. A wrong width or a missing tensor shows in either.
#include <doctest.h>

#include <map>
#include <set>
#include <string>

#include "engine/jobs/synth_model.h"

namespace infer {
namespace {

struct Published {
  double parameters;   ///< millions
  double gigabytes{};  ///< of q4_k_m, 10^9 bytes; 0: not compared
};

const std::map<std::string, Published>& published() {
  static const std::map<std::string, Published> table = {
      {"llama-24m", {24.4}},
      {"smollm2-135m", {134.5}},
      {"tinyllama-1.1b", {1100}},
      {"llama-3.2-1b", {1236, 0.81}},
      {"llama-3.2-3b", {3213, 2.02}},
      {"llama-3.1-8b", {8030, 4.92}},
      {"llama-3.1-70b", {70550, 42.52}},
      {"mistral-7b", {7248, 4.37}},
      {"mixtral-8x7b", {46700, 28.44}},
      {"qwen2.5-0.5b", {494}},
      {"qwen2.5-7b", {7616, 4.68}},
      {"qwen3-0.6b", {596}},
      {"qwen3-8b", {8190, 5.03}},
      {"qwen3-30b-a3b", {30530, 18.56}},
      {"qwen1.5-moe-a2.7b", {14316}},
      {"qwen2.5-vl-7b", {7616}},
      {"qwen3-vl-8b", {8190}},
      {"qwen3-vl-30b-a3b", {30530}},
      {"gemma-7b", {8538}},
      {"olmoe-1b-7b", {6919}},
      {"afm-4.5b", {4619}},
      {"gemma-2-2b", {2614, 1.71}},
      {"gemma-3-1b", {1000, 0.806}},
      {"gemma-3-4b", {3880, 2.49}},
      {"gemma-4-e4b", {7463}},
      {"phi-3-mini", {3821, 2.39}},
      {"phi-4-mini", {3836, 2.49}},
      {"smollm3-3b", {3075}},
      {"olmo2-1b", {1485}},
      {"olmo2-7b", {7299}},
      {"granite-3.3-2b", {2534}},
      {"granite-3.0-1b-a400m", {1335}},
      {"glm-4-9b", {9400}},
      {"seed-oss-36b", {36150}},
      {"gpt-oss-20b", {20910}},
      {"deepseek-v2-lite", {15710, 10.36}},
      {"deepseek-v3.2", {671000}},
      {"mistral-small-4", {118970}},
      {"internlm2.5-7b", {7738}},
      {"minicpm3-4b", {4074}},
      {"olmo-7b", {6888}},
      {"gpt2", {124.3}},
      {"starcoderbase-1b", {1137}},
      {"dbrx", {131597}},
      {"baichuan2-13b", {13897}},
      {"bloom-7b1", {7069}},
      {"mpt-7b", {6649}},
      {"jais-13b", {13453}},  // 13021 without the output, which files have
      {"refact-1.6b", {1586}},
      {"codeshell-7b", {7974}},
      {"qwen-7b", {7721}},
      {"arctic-480b", {478600}},
      {"grok-2", {269515}},
      {"dots.llm1", {142774}},
      {"glm-5", {744000}},
      {"smallthinker-21b-a3b", {21507}},
      {"orion-14b", {14500}},
      {"xverse-7b", {7300}},
      {"mamba2-2.7b", {2703}},
      {"falcon-mamba-7b", {7273}},
      {"jamba-reasoning-3b", {3029}},
      {"plamo-2-1b", {1291}},
      {"kimi-linear-48b-a3b", {49120}},
      {"glm-5.3-flash", {313327}},  // 320B with a layer that predicts further tokens
      {"ling-3.0-flash", {124400}},
      {"minimax-text-01", {456000}},
      {"deepseek-v4-flash", {284300}},
      {"bitnet-2b-4t", {2413}},
      {"minicpm-2b", {2725}},
      {"ling-mini-2.0", {16256}},
      {"exaone-3.5-7.8b", {7818}},
      {"deepseek-moe-16b", {16376}},
      {"glm-4-9b-chat", {9400}},
      {"phi-2", {2780}},
      {"minitron-4b", {4190}},
      {"pythia-1.4b", {1414.6}},
      {"falcon-7b", {6922}},
      {"stablelm-2-1.6b", {1644}},
      {"starcoder2-3b", {3030}},
      {"phi-3.5-moe", {41870}},
      {"mimo-7b", {7623}},
      {"qwen3.5-4b", {4210}},
      {"qwen3.6-35b-a3b", {34660}},
      {"lfm2-1.2b", {1170.3}},
      {"nemotron-3-nano", {31580}},
      {"ernie-4.5-0.3b", {360.7}},
      {"ernie-4.5-21b-a3b", {21825}},
      {"exaone-4.0-1.2b", {1279}},
      {"hunyuan-1.8b", {1791}},
      {"hunyuan-a13b", {80390}},
      {"minimax-m2", {228700}},
      {"minimax-m3", {426174}},  // published as 428B, with what sees
      {"ministral-3-8b", {8490}},
      {"glm-4.5-air", {106850}},
      {"command-r7b", {8028}},
      {"command-r-35b", {34980}},
      {"lfm2-8b-a1b", {8340}},
      {"granite-4.0-h-tiny", {6939}},
      // Published as 26B, 236B and, with what sees, 30B; these follow from the configurations.
      {"trinity-mini", {26124}},
      {"k-exaone-236b", {236571}},
      {"hy3", {295034}},
      {"mellum2-12b", {12150}},
      {"granite-swash-2b", {2144}},
      {"jais-2-8b", {8089}},
      {"maincoder-1b", {1026}},
      {"openpangu-7b", {8031}},  // 7B without its tables
      {"ling-lite", {16802}},
      {"plm-1.8b", {1825}},
      {"muse-glimmer-30b", {27853}},
  };
  return table;
}

TEST_CASE("shapes have the published numbers of parameters and sizes") {
  for (const std::string& name : synth_shapes()) {
    if (name == "custom") continue;
    CAPTURE(name);
    const auto found = published().find(name);
    REQUIRE(found != published().end());
    SynthOptions options;
    options.shape = name;
    const auto shape = synth_shape(options);
    REQUIRE(shape);
    const auto types = parse_synth_type("q4_k_m");
    REQUIRE(types);
    const auto tensors = synth_tensors(*shape, *types);
    REQUIRE(tensors);
    double parameters = 0;
    double bytes = 0;
    std::set<std::string> names;
    for (const SynthTensor& tensor : *tensors) {
      CHECK(names.insert(tensor.name).second);
      // Published numbers leave out the layer that predicts further tokens.
      const std::string further = "blk." + std::to_string(shape->layers) + ".";
      if (shape->next_token && tensor.name.starts_with(further)) continue;
      double count = 1;
      for (const int64_t dim : tensor.desc.shape) count *= static_cast<double>(dim);
      parameters += count;
      bytes += static_cast<double>(tensor.desc.extent_bytes());
    }
    CHECK(parameters / 1e6 == doctest::Approx(found->second.parameters).epsilon(2e-3));
    if (found->second.gigabytes == 0) continue;
    // A real file holds its vocabulary too, up to a hundredth of a small one.
    CHECK(bytes / 1e9 == doctest::Approx(found->second.gigabytes).epsilon(0.015));
  }
}

TEST_CASE("layers that share keys stay after at least a period of layers that store theirs") {
  SynthOptions options;
  options.shape = "gemma-4-e4b";
  options.layers = 11;  // four of them share
  REQUIRE(synth_shape(options));
  CHECK(synth_shape(options)->window.shared == 4);
  options.layers = 8;
  CHECK(synth_shape(options).error().code() == StatusCode::invalid_argument);
}

TEST_CASE("every type that is listed can be made, and says its number where llama.cpp has one") {
  for (const std::string& name : synth_types()) {
    CAPTURE(name);
    CHECK(parse_synth_type(name));
  }
  CHECK(parse_synth_type("q4_k_m")->file_type() == 15);
  CHECK(parse_synth_type("q5_k_m")->file_type() == 17);
  CHECK(parse_synth_type("f16")->file_type() == 1);
  CHECK(parse_synth_type("q8_1").error().code() == StatusCode::invalid_argument);
  CHECK(parse_synth_type("iq1_s").error().code() == StatusCode::unsupported);
}

}  // namespace
}  // namespace infer
