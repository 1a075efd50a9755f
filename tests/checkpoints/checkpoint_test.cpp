// Hugging Face directories: what is refused and how it is named, and that one made of a golden
// model computes what that does.
#include <doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "engine/model/open_weights.h"
#include "engine/quant/quant.h"
#include "infer/jobs.hpp"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

struct Given {
  std::string name;
  std::vector<int64_t> shape;  ///< shape[0] runs fastest
  DType type = DType::f32;
  float value = -1;  ///< of all elements; −1: all kinds of values
};

/// A decoder of two layers, two heads, two key-value heads.
std::vector<Given> small_llama(int64_t width = 8) {
  const int64_t wide = width / 2 * 3;
  std::vector<Given> all{{"model.embed_tokens.weight", {width, 10}},
                         {"model.norm.weight", {width}},
                         {"lm_head.weight", {width, 10}}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string l = layer;
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      all.push_back({l + norm + ".weight", {width}});
    }
    for (const char* part : {"q", "k", "v", "o"}) {
      all.push_back({l + "self_attn." + part + "_proj.weight", {width, width}});
    }
    all.push_back({l + "mlp.gate_proj.weight", {width, wide}});
    all.push_back({l + "mlp.up_proj.weight", {width, wide}});
    all.push_back({l + "mlp.down_proj.weight", {wide, width}});
  }
  return all;
}

std::string small_config(const std::string& more = "", int64_t width = 8) {
  return R"({"architectures": ["LlamaForCausalLM"], "hidden_size": )" + std::to_string(width) +
         R"(, "intermediate_size": )" + std::to_string(width / 2 * 3) + R"(,
    "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64)" +
         (more.empty() ? "" : ", " + more) + "}";
}

void write_checkpoint(const TempDir& dir, const std::string& config,
                      const std::vector<Given>& tensors) {
  write_bytes(dir.path("config.json"), bytes_of(config));
  const std::string path = dir.path("model.safetensors");
  const auto sink = create_model_file("safetensors", path, Metadata(path)).value();
  std::vector<std::byte> data;
  for (const Given& t : tensors) {
    const TensorDesc desc = make_tensor(t.type, t.shape).value();
    REQUIRE(sink->declare(t.name, desc).ok());
    for (int64_t i = 0; i < desc.extent_bytes() / 4; ++i) {
      const float value = t.value >= 0 ? t.value : static_cast<float>(data.size() % 997) / 997.0f;
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      data.insert(data.end(), bytes, bytes + 4);
    }
  }
  REQUIRE(sink->begin().ok());
  REQUIRE(sink->write(data).ok());
  REQUIRE(sink->finish().ok());
}

Status opened(const std::string& config, const std::vector<Given>& tensors = small_llama()) {
  const TempDir dir;
  write_checkpoint(dir, config, tensors);
  const auto source = open_weights(dir.path(""));
  return source ? Status() : source.error();
}

void refused(const Status& status, const std::string& why,
             StatusCode code = StatusCode::unsupported) {
  INFO("found: ", status.message(), "; expected in it: ", why);
  CHECK(status.code() == code);
  CHECK(status.message().find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("what a checkpoint becomes") {
  const TempDir dir;
  write_checkpoint(dir,
                   small_config(R"("eos_token_id": [2, 5], "bos_token_id": 1, "pad_token_id": -1)"),
                   small_llama());
  write_bytes(dir.path("generation_config.json"),
              bytes_of(R"({"eos_token_id": 5, "temperature": 0.6, "top_k": 20})"));
  write_bytes(dir.path("tokenizer_config.json"),
              bytes_of(R"({"chat_template": [{"name": "default", "template": "{{ messages }}"},
                                            {"name": "rag", "template": "{{ documents }}"}]})"));
  const auto source = open_weights(dir.path(""));
  REQUIRE_MESSAGE(source.has_value(), source.error().message());
  const Metadata& m = (*source)->metadata();
  CHECK(*m.get_string("general.architecture").value() == "llama");
  CHECK(*m.get_int("llama.block_count", 0, 9).value() == 2);
  CHECK(*m.get_int("llama.attention.head_count_kv", 0, 9).value() == 2);
  CHECK(*m.get_int("llama.vocab_size", 0, 99).value() == 10);
  CHECK(*m.get_int("tokenizer.ggml.bos_token_id", 0, 99).value() == 1);
  CHECK(*m.get_int("tokenizer.ggml.eos_token_id", 0, 99).value() == 5);
  CHECK(*m.get_int("tokenizer.ggml.eot_token_id", 0, 99).value() == 2);
  CHECK_FALSE(m.has("tokenizer.ggml.padding_token_id"));
  CHECK(*m.get_string("tokenizer.chat_template").value() == "{{ messages }}");
  CHECK((*source)->tokenizer().chat_template == "{{ messages }}");
  CHECK(*m.get_string("tokenizer.chat_template.rag").value() == "{{ documents }}");
  CHECK(*m.get_float("general.sampling.temp").value() == doctest::Approx(0.6));
  CHECK(*m.get_int("general.sampling.top_k", 0, 99).value() == 20);
  for (const auto& [key, value] : m.values()) CHECK_FALSE(key.starts_with("hf."));
  CHECK((*source)->weights().size() == small_llama().size());
  CHECK((*source)->find("blk.1.ffn_down.weight") != nullptr);
  const auto forced = open_weights(dir.path(""), DType::bf16);
  REQUIRE(forced.has_value());
  CHECK((*forced)->find("blk.1.ffn_down.weight")->desc.type == DType::bf16);
  CHECK((*forced)->find("blk.1.ffn_norm.weight")->desc.type == DType::f32);
}

TEST_CASE("an output that was trained apart counts, though the configuration says it is tied") {
  const std::string tied = small_config(R"("tie_word_embeddings": true)");
  std::vector<Given> tensors = small_llama();
  const auto has_output = [&](const std::string& config) {
    const TempDir dir;
    write_checkpoint(dir, config, tensors);
    const auto source = open_weights(dir.path(""));
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    return (*source)->find("output.weight") != nullptr;
  };
  CHECK(has_output(tied));
  tensors[0].value = tensors[2].value = 0.5f;  // stored a second time
  CHECK(!has_output(tied));
  CHECK(has_output(small_config()));
  tensors[2].type = DType::f16;
  CHECK(has_output(tied));
  tensors.erase(tensors.begin() + 2);
  CHECK(!has_output(tied));
}

TEST_CASE("usual sampling that cannot be had is left out") {
  const TempDir dir;
  write_checkpoint(dir, small_config(R"("rope_theta": 10000.0, "num_key_value_heads": 2.0)"),
                   small_llama());
  const auto sampling = [&](const std::string& generation) {
    write_bytes(dir.path("generation_config.json"), bytes_of(generation));
    auto source = open_weights(dir.path(""));
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    return *std::move(source);
  };
  const auto off = sampling(R"({"top_k": -1, "top_p": 1, "temperature": "0.6"})");
  CHECK(*off->metadata().get_int("general.sampling.top_k", 0, 99).value() == 0);
  CHECK(*off->metadata().get_float("general.sampling.top_p").value() == 1);
  CHECK(!off->metadata().has("general.sampling.temp"));
  const auto whole = sampling(R"({"top_k": 50.0, "temperature": 1.0, "min_p": [1]})");
  CHECK(*whole->metadata().get_int("general.sampling.top_k", 0, 99).value() == 50);
  CHECK(*whole->metadata().get_float("general.sampling.temp").value() == 1);
  CHECK(!whole->metadata().has("general.sampling.min_p"));
  CHECK(!sampling(R"({"top_k": 1e300})")->metadata().has("general.sampling.top_k"));
}

TEST_CASE("configurations that cannot be had are refused by name") {
  CHECK(opened(small_config()).ok());
  refused(opened("{}"), "'architectures' is missing", StatusCode::bad_file);
  refused(opened(R"({"architectures": []})"), "'architectures' is missing", StatusCode::bad_file);
  refused(opened(R"({"architectures": "A"})"), "hf.config.architectures", StatusCode::bad_file);
  const Status unknown = opened(R"({"architectures": ["NewForCausalLM"]})");
  refused(unknown, "'NewForCausalLM'");
  for (const char* known : {"LlamaForCausalLM", "Gemma3ForCausalLM", "DeepseekV3ForCausalLM"}) {
    refused(unknown, known);
  }
  refused(opened(R"({"architectures": ["LlamaForCausalLM"]})"), "num_hidden_layers",
          StatusCode::bad_file);
  refused(opened(small_config(R"("hidden_act": "relu")")), "hidden_act 'relu'");
  refused(opened(small_config(R"("quantization_config": {"quant_method": "aqlm"})")), "'aqlm'");
  refused(opened(small_config(R"("quantization_config": {"quant_method": "quanto"})")), "'quanto'");
  refused(opened(small_config(R"("rope_scaling": {"type": "odd", "factor": 2.0})")), "'odd'");
  refused(opened(small_config(R"("rope_scaling": {"type": "linear", "factor": 0})")), "factor",
          StatusCode::bad_file);
  refused(opened(small_config(R"("rms_norm_eps": "small")")), "rms_norm_eps", StatusCode::bad_file);
  refused(opened(small_config(R"("num_key_value_heads": 0)")), "num_key_value_heads",
          StatusCode::bad_file);
  refused(opened(small_config(R"("num_key_value_heads": 3)")), "rows for 3 heads",
          StatusCode::bad_file);
  refused(opened(small_config(R"("partial_rotary_factor": 1.5)")), "partial_rotary_factor",
          StatusCode::bad_file);
  refused(opened(small_config(R"("partial_rotary_factor": 0.5)")), "partial_rotary_factor");
  refused(opened(small_config(
              R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})")),
          "partial_rotary_factor");
  refused(opened(small_config(R"("eos_token_id": "end")")), "eos_token_id", StatusCode::bad_file);
  refused(opened(small_config(R"("bos_token_id": -2)")), "bos_token_id", StatusCode::bad_file);
}

TEST_CASE("configurations as published files have them") {
  const auto found = [](const std::string& more, const char* key) {
    const TempDir dir;
    write_checkpoint(dir, small_config(more), small_llama());
    const auto source = open_weights(dir.path(""));
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    return (*source)->find(key) != nullptr;
  };
  // An integer for a boolean: Llama 4 has one.
  CHECK(found(R"("tie_word_embeddings": 0)", "output.weight"));
  std::vector<Given> tied = small_llama();
  std::erase_if(tied, [](const Given& t) { return t.name == "lm_head.weight"; });
  const Status shared = opened(small_config(R"("tie_word_embeddings": 4)"), tied);
  CHECK_MESSAGE(shared.ok(), shared.message());
  // Scaling that blends no frequencies: Llama 4 again.
  CHECK(found(R"("rope_scaling": {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0,
                 "high_freq_factor": 1.0, "original_max_position_embeddings": 32})",
              "rope_freqs.weight"));
  refused(opened(small_config(R"("rope_scaling": {"rope_type": "llama3", "factor": 16.0,
                 "low_freq_factor": 2.0, "high_freq_factor": 1.0})")),
          "high_freq_factor", StatusCode::bad_file);
  // Mistral Small 4 has the class for images of the family before it.
  refused(opened(R"({"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {
    "model_type": "mistral4", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 2, "max_position_embeddings": 64, "qk_rope_head_dim": 4}})"),
          "kv_lora_rank", StatusCode::bad_file);
}

TEST_CASE("what a configuration leaves out is as its family has it") {
  const auto value = [](std::string config, const std::string& key) {
    const TempDir dir;
    write_checkpoint(dir, config, small_llama());
    const auto source = open_weights(dir.path(""));
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    return (*source)->metadata().get_float(key).value().value_or(0);
  };
  const auto of = [](const std::string& architecture, const std::string& more = "") {
    std::string config = small_config(more);
    return config.replace(config.find("Llama"), 5, architecture);
  };
  CHECK(value(of("Llama"), "llama.rope.freq_base") == 10000);
  CHECK(value(of("SmolLM3"), "smollm3.rope.freq_base") == 2e6);
  CHECK(value(of("SmolLM3", R"("rope_theta": 5000.0)"), "smollm3.rope.freq_base") == 5000);
  // Gemma 4 as transformers writes it: layers that see everything are described one by one.
  const auto gemma = [&](const char* layers) {
    return of("Gemma4", std::string(R"("head_dim": 2, "num_key_value_heads": 2,
        "layer_types": ["sliding_attention", "full_attention"], "per_layer_config": )") +
                            layers);
  };
  CHECK(value(gemma(R"({"1": {"head_dim": 4}})"), "gemma4.attention.key_length") == 4);
  CHECK(value(gemma("{}"), "gemma4.attention.key_length") == 2);
  refused(opened(gemma(R"({"0": {"head_dim": 2}, "1": {"head_dim": 4}})")),
          "per_layer_config.1.head_dim");
}

TEST_CASE("what would be computed otherwise is refused") {
  const auto of = [](const std::string& architecture, const std::string& more) {
    return opened(R"({"architectures": [")" + architecture + R"(ForCausalLM"], "hidden_size": 8,
        "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
        "max_position_embeddings": 64, )" +
                  more + "}");
  };
  refused(of("Llama", R"("rope_parameters": {"full_attention": {"rope_theta": 1e6},
              "sliding_attention": {"rope_type": "linear", "factor": 2.0}})"),
          "sliding_attention");
  const std::string mamba = R"("mamba_n_heads": 2, "mamba_d_head": 8, "mamba_d_state": 4)";
  refused(of("GraniteMoeHybrid", mamba + R"(, "shared_intermediate_size": 12,
              "layer_types": ["mamba", "mamba"], "time_step_limit": [0.0, 0.4])"),
          "time_step_limit");
  refused(of("FalconH1", mamba + R"(, "mamba_proj_bias": true)"), "mamba_proj_bias");
  refused(of("FalconH1", mamba + R"(, "projectors_bias": true)"), "projectors_bias");
  refused(of("Llama4", R"("num_local_experts": 2, "intermediate_size_mlp": 12, "layer_types":
              ["full_attention", "chunked_attention"])"),
          "layer_types");
  refused(of("Ernie4_5_Moe", R"("moe_norm_min": 0.9)"), "moe_norm_min");
  refused(of("MiMoV2Flash", R"("head_dim": 4, "v_head_dim": 4, "rope_parameters":
              {"full_attention": {"partial_rotary_factor": 0.5},
               "sliding_attention": {"partial_rotary_factor": 1.0}})"),
          "partial_rotary_factor");
  refused(of("KimiLinear", R"("qk_rope_head_dim": 4, "mla_use_nope": false)"), "mla_use_nope");
  refused(of("KimiLinear", R"("qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4,
              "kv_lora_rank": 4, "linear_attn_config": {"head_dim": 4, "num_heads": 3,
              "full_attn_layers": [2]})"),
          "linear_num_heads");
}

TEST_CASE("kinds of layers that are unknown or not one for each layer are refused") {
  refused(opened(R"({"architectures": ["NemotronHForCausalLM"], "hidden_size": 8,
    "num_attention_heads": 2, "max_position_embeddings": 64, "intermediate_size": 12,
    "layers_block_type": ["mamba", "linear_attention", "odd"]})"),
          "layers_block_type 'odd'");
  refused(opened(R"({"architectures": ["Gemma4ForCausalLM"], "hidden_size": 8,
    "num_hidden_layers": 1024, "num_attention_heads": 2, "max_position_embeddings": 64,
    "intermediate_size": 12, "layer_types": ["full_attention"]})"),
          "layer_types");
}

TEST_CASE("damaged configurations give typed errors or models that can be planned and read") {
  const TempDir dir;
  const std::string whole = small_config(
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 32}, "head_dim": 4,
      "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "eos_token_id": [2, 3])");
  write_checkpoint(dir, whole, small_llama());
  LoadOptions load;
  load.memory_limit = int64_t{256} << 20;
  std::mt19937 random(5);
  int planned = 0;
  int refusals = 0;
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    std::string config = whole;
    for (size_t edits = 1 + random() % 3; edits > 0; --edits) {
      constexpr std::string_view kBytes = "0123456789-.e\"{}[],:tn \xff";
      config[random() % config.size()] = kBytes[random() % kBytes.size()];
    }
    write_bytes(dir.path("config.json"), bytes_of(config));
    const auto plan = plan_model(dir.path(""), load);
    (plan ? planned : refusals) += 1;
    if (plan) {
      const auto source = open_weights(dir.path("")).value();
      for (const Weight& weight : source->weights()) {
        std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
        CHECK(source->read(weight.place, 0, data).ok());
      }
    } else {
      CHECK(plan.error().code() != StatusCode::internal);
      CHECK(!plan.error().message().empty());
    }
  }
  CHECK(planned > 0);
  CHECK(refusals > 0);
}

TEST_CASE("tensors that are missing, odd or too many are refused by name") {
  std::vector<Given> more = small_llama();
  more.push_back({"model.layers.0.mlp.extra.weight", {8, 8}});
  refused(opened(small_config(), more), "'model.layers.0.mlp.extra.weight' has no place");
  more.back().name = "model.layers.0.self_attn.rotary_emb.inv_freq";
  CHECK(opened(small_config(), more).ok());
  more.back().name = "vision_tower.patch_embed.weight";
  CHECK(opened(small_config(), more).ok());
  more.back().name = "model.layers.2.input_layernorm.weight";
  refused(opened(small_config(), more), "'model.layers.2.input_layernorm.weight' has no place");

  std::vector<Given> whole = small_llama();
  for (Given& t : whole) {
    if (t.name != "model.layers.1.mlp.up_proj.weight") continue;
    t.type = DType::i32;
    refused(opened(small_config(), whole), "expected floating point, found I32");
  }
  std::vector<Given> headless = small_llama();
  headless.erase(headless.begin() + 2);
  CHECK(opened(small_config(), headless).ok());  // the embedding takes its place
  refused(opened(small_config(R"("tie_word_embeddings": false)"), headless),
          "'lm_head.weight' is missing", StatusCode::bad_file);
  CHECK(opened(small_config(R"("tie_word_embeddings": true)")).ok());

  // What the graph needs is found missing when the model is made into one.
  for (size_t i = 3; i < small_llama().size(); ++i) {
    std::vector<Given> less = small_llama();
    less.erase(less.begin() + static_cast<long>(i));
    const TempDir dir;
    write_checkpoint(dir, small_config(), less);
    const TempDir out;
    const auto done = convert(dir.path(""), out.path("out.gguf"), {});
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code() == StatusCode::bad_file);
    CHECK_FALSE(std::filesystem::exists(out.path("out.gguf")));
  }
}

TEST_CASE("a type asked for is that of matrices, not of the embedding and the output") {
  constexpr int64_t kWidth = 64;
  const TempDir dir;
  write_checkpoint(dir, small_config("", kWidth), small_llama(kWidth));
  const TempDir out;
  const std::string gguf = out.path("plain.gguf");
  REQUIRE(convert(dir.path(""), gguf, {}).has_value());
  // The same of a directory and of a file.
  for (const std::string& path : {dir.path(""), gguf}) {
    CAPTURE(path);
    const auto plain = open_weights(path);
    const auto source = open_weights(path, DType::nf4);
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    int changed = 0;
    for (const Weight& weight : (*source)->weights()) {
      CAPTURE(weight.name);
      const Weight* before = (*plain)->find(weight.name);
      REQUIRE(before != nullptr);
      const bool matrix = weight.name.starts_with("blk.") && weight.desc.rows() > 1;
      const bool whole = weight.desc.shape[0] % 64 == 0;
      CHECK(weight.desc.type == (matrix && whole ? DType::nf4 : before->desc.type));
      std::vector<float> values[2];
      for (int i = 0; i < 2; ++i) {
        const Weight& from = i == 0 ? *before : weight;
        std::vector<std::byte> bytes(static_cast<size_t>(from.desc.extent_bytes()));
        REQUIRE((i == 0 ? *plain : *source)->read(from.place, 0, bytes).ok());
        values[i].resize(static_cast<size_t>(from.desc.elements()));
        quant_traits(from.desc.type).decode(bytes.data(), values[i].data(), from.desc.elements());
      }
      changed += weight.desc.type == DType::nf4 ? 1 : 0;
      CHECK(nmse(values[1], values[0]) <= (weight.desc.type == DType::nf4 ? 0.02 : 0));
    }
    CHECK(changed > 0);
  }
}

/// `value`: of the last float of the file, which is a matrix's. Reading it as `type` is refused.
void check_refused(DType type, float value) {
  const TempDir dir;
  constexpr int64_t kWidth = 64;
  write_checkpoint(dir, small_config("", kWidth), small_llama(kWidth));
  std::string bytes = read_text(dir.path("model.safetensors"));
  std::memcpy(bytes.data() + bytes.size() - sizeof(value), &value, sizeof(value));
  write_bytes(dir.path("model.safetensors"), bytes_of(bytes));
  const auto source = open_weights(dir.path(""), type);
  REQUIRE(source.has_value());
  bool named = false;
  for (const Weight& weight : (*source)->weights()) {
    std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
    const Status status = (*source)->read(weight.place, 0, data);
    if (status.ok()) continue;
    CHECK(status.code() == StatusCode::bad_file);
    CHECK(status.message().find("finite") != std::string::npos);
    named = true;
  }
  CHECK(named);
}

TEST_CASE("what changes its type while loading has to be finite before and after") {
  check_refused(DType::q8_0, HUGE_VALF);
  check_refused(DType::f16, HUGE_VALF);
  check_refused(DType::f16, 65520.0f);
  check_refused(DType::bf16, -3.4e38f);
}

TEST_CASE("converting replaces no file of the model and writes what is read") {
  const TempDir dir;
  write_checkpoint(dir, small_config(), small_llama());
  for (const char* own : {"config.json", "model.safetensors"}) {
    const auto done = convert(dir.path(""), dir.path(own), {});
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code() == StatusCode::invalid_argument);
    const auto single = convert(dir.path("model.safetensors"), dir.path(own), {});
    CHECK(single.error().code() == StatusCode::invalid_argument);
  }
  const std::string out = dir.path("out.gguf");
  const auto report = convert(dir.path(""), out, {});
  REQUIRE_MESSAGE(report.has_value(), report.error().message());
  const auto before = open_weights(dir.path(""));
  const auto after = open_weights(out);
  REQUIRE(before.has_value());
  REQUIRE(after.has_value());
  CHECK((*after)->metadata().values() == (*before)->metadata().values());
  REQUIRE((*after)->weights().size() == (*before)->weights().size());
  CHECK(report->tensors == static_cast<int64_t>((*after)->weights().size()));
  for (size_t i = 0; i < (*after)->weights().size(); ++i) {
    const Weight& a = (*before)->weights()[i];
    const Weight& b = (*after)->weights()[i];
    CHECK(a.name == b.name);
    CHECK(to_string(a.desc) == to_string(b.desc));
    std::vector<std::byte> x(static_cast<size_t>(a.desc.extent_bytes()));
    std::vector<std::byte> y(x.size());
    REQUIRE((*before)->read(a.place, 0, x).ok());
    REQUIRE((*after)->read(b.place, 0, y).ok());
    CHECK(x == y);
  }
  CHECK(convert(out, dir.path("again.gguf"), {}).error().code() == StatusCode::bad_file);
  CHECK(convert(dir.path(""), out, {.type = "q4_0"}).error().code() ==
        StatusCode::invalid_argument);
  ConvertOptions cancelled;
  cancelled.progress = [](double) { return false; };
  CHECK(convert(dir.path(""), dir.path("c.gguf"), cancelled).error().code() ==
        StatusCode::cancelled);
  CHECK_FALSE(std::filesystem::exists(dir.path("c.gguf")));
}

TEST_CASE("a golden model as a checkpoint has the same logits to the bit") {
  const std::string golden = data_path("golden/llama-linear-f32.gguf");
  const auto source = open_model(golden).value();
  const Metadata& m = source->metadata();
  const auto integer = [&](const char* key) { return *m.get_int(key, 0, INT64_MAX).value(); };
  const int64_t heads = integer("llama.attention.head_count");
  const int64_t kv_heads = integer("llama.attention.head_count_kv");
  const int64_t head_dim = integer("llama.rope.dimension_count");

  const TempDir dir;
  const std::string config = fmt::format(
      R"({{"architectures": ["LlamaForCausalLM"], "hidden_size": {}, "intermediate_size": {},
      "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
      "head_dim": {}, "max_position_embeddings": {}, "rms_norm_eps": {}, "rope_theta": {},
      "rope_scaling": {{"type": "linear", "factor": {}}}}})",
      integer("llama.embedding_length"), integer("llama.feed_forward_length"),
      integer("llama.block_count"), heads, kv_heads, head_dim, integer("llama.context_length"),
      *m.get_float("llama.attention.layer_norm_rms_epsilon").value(),
      m.get_float("llama.rope.freq_base").value().value_or(10000.0),
      *m.get_float("llama.rope.scaling.factor").value());
  write_bytes(dir.path("config.json"), bytes_of(config));

  const auto name_of = [](std::string name) {
    const auto replace = [&](const std::string& from, const std::string& to) {
      if (const size_t at = name.find(from); at != std::string::npos) {
        name.replace(at, from.size(), to);
      }
    };
    replace("blk.", "model.layers.");
    replace("token_embd", "model.embed_tokens");
    replace("output_norm", "model.norm");
    if (name.starts_with("output.")) replace("output", "lm_head");
    replace("attn_norm", "input_layernorm");
    replace("ffn_norm", "post_attention_layernorm");
    replace("attn_output", "self_attn.o_proj");
    for (const char* part : {"q", "k", "v"}) {
      replace(std::string("attn_") + part, std::string("self_attn.") + part + "_proj");
    }
    for (const char* part : {"gate", "up", "down"}) {
      replace(std::string("ffn_") + part, std::string("mlp.") + part + "_proj");
    }
    return name;
  };
  const std::string path = dir.path("model.safetensors");
  const auto sink = create_model_file("safetensors", path, Metadata(path)).value();
  std::vector<std::byte> data;
  for (const Weight& weight : source->weights()) {
    REQUIRE(sink->declare(name_of(weight.name), weight.desc).ok());
    std::vector<std::byte> rows(static_cast<size_t>(weight.desc.extent_bytes()));
    REQUIRE(source->read(weight.place, 0, rows).ok());
    const bool q = weight.name.ends_with("attn_q.weight");
    const auto row = static_cast<size_t>(weight.desc.row_bytes());
    if (!q && !weight.name.ends_with("attn_k.weight")) {
      data.insert(data.end(), rows.begin(), rows.end());
      continue;
    }
    // Row 2j + half of a head goes to row half·head_dim/2 + j.
    std::vector<std::byte> halves(rows.size());
    for (int64_t h = 0; h < (q ? heads : kv_heads); ++h) {
      for (int64_t i = 0; i < head_dim; ++i) {
        const int64_t to = h * head_dim + i % 2 * (head_dim / 2) + i / 2;
        std::memcpy(halves.data() + static_cast<size_t>(to) * row,
                    rows.data() + static_cast<size_t>(h * head_dim + i) * row, row);
      }
    }
    data.insert(data.end(), halves.begin(), halves.end());
  }
  REQUIRE(sink->begin().ok());
  REQUIRE(sink->write(data).ok());
  REQUIRE(sink->finish().ok());

  const auto logits = [](const std::string& model) {
    LoadOptions load;
    load.batch_rows = 16;
    load.output_rows = 16;
    const auto engine = Engine::load(model, load);
    REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
    const auto session = (*engine)->open_session().value();
    std::vector<float> all;
    const std::vector<int32_t> tokens{1, 5, 9, 30, 44, 7, 12, 3, 60, 61, 2, 8, 4, 70, 33, 21};
    REQUIRE(session
                ->evaluate(tokens,
                           [&](int64_t, std::span<const float> row) {
                             all.insert(all.end(), row.begin(), row.end());
                             return true;
                           })
                .ok());
    return all;
  };
  const std::vector<float> expected = logits(golden);
  REQUIRE(!expected.empty());
  CHECK(logits(dir.path("")) == expected);
}
