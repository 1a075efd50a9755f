#include "engine/jobs/synth_types.h"

#include <algorithm>
#include <iterator>

#include "engine/quant/quant.h"

namespace infer {
namespace {

/// The layers whose values and down projections get more bits in llama.cpp's _K_M mixes: the first
/// and last eighth and every third between.
bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

}  // namespace

DType SynthTypes::of_block(const SynthShape& s, std::string_view part, int64_t layer) const {
  if (!mix) return base;
  const bool four = base == DType::q4_k;
  const DType more = gets_more_bits(layer, s.layers) ? DType::q6_k : base;
  // Eight experts share the attention, whose weights are then few beside the rest: Mixtral's rule.
  const bool shared_by_eight = s.experts == 8;
  if (part == "attn_v") {
    if (shared_by_eight) return DType::q8_0;
    // So are the values of models of 70B, which eight heads share.
    const bool is_70b = s.layers == 80 && (s.arch == "llama" || s.arch == "qwen2");
    return is_70b && more == DType::q4_k ? DType::q5_k : more;
  }
  if (part == "attn_k") return shared_by_eight ? DType::q8_0 : base;
  if (part == "attn_output") return shared_by_eight && four ? DType::q5_k : base;
  if (part == "attn_qkv") return four ? DType::q5_k : DType::q6_k;
  if (part.starts_with("ffn_down")) return more;
  return base;
}

DType SynthTypes::of_output() const {
  // The output matrix decides most: 6 bits at least, unless the whole model has more.
  const bool small = is_quantised(base) && base != DType::q8_0;
  return small ? DType::q6_k : base;
}

int32_t SynthTypes::file_type() const {
  if (mix) return base == DType::q4_k ? 15 : 17;
  switch (base) {  // enum llama_ftype of llama.h
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::q4_0: return 2;
    case DType::q4_1: return 3;
    case DType::q8_0: return 7;
    case DType::q5_0: return 8;
    case DType::q5_1: return 9;
    case DType::q2_k: return 10;
    case DType::q3_k: return 11;
    case DType::q4_k: return 14;
    case DType::q5_k: return 16;
    case DType::q6_k: return 18;
    case DType::iq4_nl: return 25;
    case DType::iq4_xs: return 30;
    case DType::bf16: return 32;
    case DType::tq1_0: return 36;
    case DType::tq2_0: return 37;
    default: return -1;
  }
}

std::vector<std::string> synth_types() {
  std::vector<std::string> names;
  for (const DTypeInfo& info : all_dtypes()) {
    std::string name(info.ident);
    if (parse_synth_types(name)) names.push_back(std::move(name));
  }
  names.insert(names.end(), {"q4_k_m", "q5_k_m"});
  return names;
}

Result<SynthTypes> parse_synth_types(const std::string& name) {
  if (name == "q4_k_m") return SynthTypes{DType::q4_k, true};
  if (name == "q5_k_m") return SynthTypes{DType::q5_k, true};
  const std::optional<DType> type = dtype_from_name(name);
  constexpr DType kNoWeights[] = {DType::q8_1, DType::q8_k, DType::i8, DType::i16,
                                  DType::i32,  DType::i64,  DType::f64};
  if (!type || std::ranges::find(kNoWeights, *type) != std::end(kNoWeights)) {
    return fail(StatusCode::invalid_argument,
                "'{}' is no type of weights; expected one such as f16, q4_0, q8_0, q4_k or a mix: "
                "q4_k_m, q5_k_m",
                name);
  }
  if (quant_traits(*type).encode == nullptr) {
    return fail(StatusCode::unsupported, "weights of type {} can be read but not made", name);
  }
  return SynthTypes{*type, false};
}

DType fitting_type(DType type, int64_t row) {
  if (row % dtype_info(type).block_elements == 0) return type;
  DType next = DType::f16;
  if (type == DType::q4_k) next = DType::q5_0;
  if (type == DType::q5_k) next = DType::q5_1;
  if (type == DType::q6_k) next = DType::q8_0;
  return row % dtype_info(next).block_elements == 0 ? next : DType::f16;
}

}  // namespace infer
