#include "engine/model/peft_names.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "engine/core/file.h"

namespace infer {
namespace {

constexpr std::string_view kBefore = "base_model.model.";
constexpr std::string_view kRoots[] = {"model.language_model.", "language_model.model.", "model.",
                                       "backbone.", ""};

/// Modules of a layer. The same one twice: there are two ways.
struct Known {
  std::string_view from;
  std::vector<std::string_view> to;
};
const Known kModules[] = {
    {"self_attn.q_proj", {"attn_q"}},
    {"self_attn.k_proj", {"attn_k"}},
    {"self_attn.v_proj", {"attn_v"}},
    {"self_attn.o_proj", {"attn_output"}},
    {"self_attn.out_proj", {"attn_output"}},
    {"self_attn.dense", {"attn_output"}},
    {"self_attn.gate_proj", {"attn_gate"}},
    {"self_attn.g_proj", {"attn_gate"}},
    {"self_attn.qkv_proj", {"attn_qkv"}},
    {"self_attn.qkv_proj", {"attn_q", "attn_k", "attn_v"}},
    {"self_attn.q_a_proj", {"attn_q_a"}},
    {"self_attn.q_b_proj", {"attn_q_b"}},
    {"self_attn.kv_a_proj_with_mqa", {"attn_kv_a_mqa"}},
    {"attention.query_key_value", {"attn_qkv"}},
    {"attention.dense", {"attn_output"}},
    {"attention.wo", {"attn_output"}},
    {"mlp.c_fc", {"ffn_up"}},
    {"mlp.c_proj", {"ffn_down"}},
    {"mlp.fc1", {"ffn_up"}},
    {"mlp.fc2", {"ffn_down"}},
    {"mlp.gate_proj", {"ffn_gate"}},
    {"mlp.up_proj", {"ffn_up"}},
    {"mlp.down_proj", {"ffn_down"}},
    {"mlp.gate_up_proj", {"ffn_gate", "ffn_up"}},
    {"mlp.gate_up_proj", {"ffn_up"}},
    {"feed_forward.w1", {"ffn_gate"}},
    {"feed_forward.w3", {"ffn_up"}},
    {"feed_forward.w2", {"ffn_down"}},
    {"feed_forward.gate_proj", {"ffn_gate"}},
    {"feed_forward.up_proj", {"ffn_up"}},
    {"feed_forward.down_proj", {"ffn_down"}},
    {"mlp.shared_expert.gate_proj", {"ffn_gate_shexp"}},
    {"mlp.shared_expert.up_proj", {"ffn_up_shexp"}},
    {"mlp.shared_expert.down_proj", {"ffn_down_shexp"}},
    {"mlp.shared_experts.gate_proj", {"ffn_gate_shexp"}},
    {"mlp.shared_experts.up_proj", {"ffn_up_shexp"}},
    {"mlp.shared_experts.down_proj", {"ffn_down_shexp"}},
    {"feed_forward.shared_expert.gate_proj", {"ffn_gate_shexp"}},
    {"feed_forward.shared_expert.up_proj", {"ffn_up_shexp"}},
    {"feed_forward.shared_expert.down_proj", {"ffn_down_shexp"}},
    {"self_attn.f_a_proj", {"ssm_f_a"}},
    {"self_attn.f_b_proj", {"ssm_f_b"}},
    {"self_attn.g_a_proj", {"ssm_g_a"}},
    {"self_attn.g_b_proj", {"ssm_g_b"}},
    {"self_attn.b_proj", {"ssm_beta"}},
    {"conv.in_proj", {"shortconv.in_proj"}},
    {"conv.out_proj", {"shortconv.out_proj"}},
};

/// All experts of a layer.
constexpr std::string_view kExperts[] = {"mlp.experts", "block_sparse_moe.experts"};
constexpr std::string_view kWrapped = ".base_layer";
/// The modules of an expert, behind ".N.".
constexpr std::pair<std::string_view, std::string_view> kOfExpert[] = {
    {"gate_proj", "ffn_gate_exps"}, {"w1", "ffn_gate_exps"},        {"up_proj", "ffn_up_exps"},
    {"w3", "ffn_up_exps"},          {"down_proj", "ffn_down_exps"}, {"w2", "ffn_down_exps"}};

/// Takes "PREFIX.N." from the front of a name; −1 if it does not begin so.
int64_t take_number(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.substr(prefix.size()).starts_with(".")) return -1;
  const std::string_view rest = name.substr(prefix.size() + 1);
  int64_t number = -1;
  const auto [end, bad] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const auto digits = static_cast<size_t>(end - rest.data());
  if (bad != std::errc() || number < 0 || !rest.substr(digits).starts_with(".")) return -1;
  name = rest.substr(digits + 1);
  return number;
}

std::string_view unwrapped(std::string_view module) {
  if (module.ends_with(kWrapped)) module.remove_suffix(kWrapped.size());
  return module;
}

/// A module of a layer, by its name within it.
PeftModule part_of_layer(int64_t layer, std::string_view part) {
  using Kind = PeftModule::Kind;
  const auto named = [&](std::string_view to) {
    return fmt::format("blk.{}.{}.weight", layer, to);
  };
  for (const std::string_view experts : kExperts) {
    if (unwrapped(part) == experts) {
      return {Kind::experts,
              layer,
              -1,
              {{named("ffn_gate_exps"), named("ffn_up_exps"), named("ffn_down_exps")}}};
    }
    std::string_view rest = part;
    const int64_t expert = take_number(rest, experts);
    for (const auto& [from, to] : kOfExpert) {
      if (expert >= 0 && rest == from) return {Kind::expert, layer, expert, {{named(to)}}};
    }
  }
  PeftModule module{Kind::unknown, layer, -1, {}};
  for (const Known& known : kModules) {
    if (part != known.from) continue;
    module.kind = Kind::matrix;
    module.names.emplace_back();
    for (const std::string_view to : known.to) module.names.back().push_back(named(to));
  }
  return module;
}

}  // namespace

Result<PeftName> peft_name(const std::string& file, const std::string& name) {
  std::string_view rest = name;
  for (const std::string_view end : {".weight", ".default"}) {
    if (rest.ends_with(end)) rest.remove_suffix(end.size());
  }
  const size_t dot = std::min(rest.rfind('.'), rest.size());
  const std::string_view last = rest.substr(std::min(dot + 1, rest.size()));
  const bool embedding = last == "lora_embedding_A" || last == "lora_embedding_B";
  if (!rest.starts_with(kBefore) || dot < kBefore.size() ||
      (!embedding && last != "lora_A" && last != "lora_B")) {
    return fail(StatusCode::unsupported,
                "{}: tensor '{}': expected {}MODULE.lora_A.weight or .lora_B.weight: an adapter "
                "with other tensors is not supported",
                file, printable(name), kBefore);
  }
  return PeftName{std::string(rest.substr(kBefore.size(), dot - kBefore.size())),
                  last.back() == 'A', embedding};
}

PeftModule peft_module(const std::string& module) {
  using Kind = PeftModule::Kind;
  if (module == "lm_head" || module == "language_model.lm_head") {
    return {Kind::matrix, -1, -1, {{"output.weight"}}};
  }
  for (const std::string_view root : kRoots) {
    if (!module.starts_with(root)) continue;
    std::string_view rest = std::string_view(module).substr(root.size());
    if (rest == "embed_tokens") return {Kind::table, -1, -1, {{"token_embd.weight"}}};
    if (const int64_t layer = take_number(rest, "layers"); layer >= 0) {
      return part_of_layer(layer, rest);
    }
  }
  return {};
}

std::string peft_parameter(const std::string& module, const char* parameter) {
  return std::string(unwrapped(module)) + "." + parameter;
}

}  // namespace infer
