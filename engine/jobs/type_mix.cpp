#include "engine/jobs/type_mix.h"

#include <algorithm>
#include <iterator>

#include "engine/core/ascii.h"
#include "engine/quant/quant.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

using Kind = TypeMix::Kind;

struct NamedMix {
  std::string_view name;
  Kind kind;
  DType base;
  int32_t file_type;
};
constexpr NamedMix kMixes[] = {
    {"q2_k", Kind::q2_k, DType::q2_k, 10},       {"q2_k_s", Kind::q2_k_s, DType::q2_k, 21},
    {"q3_k_s", Kind::q3_k_s, DType::q3_k, 11},   {"q3_k_m", Kind::q3_k_m, DType::q3_k, 12},
    {"q3_k_l", Kind::q3_k_l, DType::q3_k, 13},   {"q4_0", Kind::q4_0, DType::q4_0, 2},
    {"q4_k_s", Kind::q4_k_s, DType::q4_k, 14},   {"q4_k_m", Kind::q4_k_m, DType::q4_k, 15},
    {"q5_0", Kind::q5_0, DType::q5_0, 8},        {"q5_k_s", Kind::q5_k_s, DType::q5_k, 16},
    {"q5_k_m", Kind::q5_k_m, DType::q5_k, 17},   {"iq2_xxs", Kind::iq2_xxs, DType::iq2_xxs, 19},
    {"iq2_xs", Kind::iq2_xs, DType::iq2_xs, 20}, {"iq2_s", Kind::iq2_s, DType::iq2_xs, 28},
    {"iq2_m", Kind::iq2_m, DType::iq2_s, 29},    {"iq3_xxs", Kind::iq3_xxs, DType::iq3_xxs, 23},
    {"iq3_xs", Kind::iq3_xs, DType::iq3_s, 22},  {"iq3_s", Kind::iq3_s, DType::iq3_s, 26},
    {"iq3_m", Kind::iq3_m, DType::iq3_s, 27},    {"iq4_nl", Kind::iq4_nl, DType::iq4_nl, 25},
    {"iq4_xs", Kind::iq4_xs, DType::iq4_xs, 30}, {"mxfp4", Kind::mxfp4, DType::q8_0, 38},
};

struct Alias {
  std::string_view name, mix;
};
constexpr Alias kAliases[] = {
    {"q3_k", "q3_k_m"}, {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}, {"mxfp4_moe", "mxfp4"}};

const NamedMix* find_mix(std::string_view name) {
  const auto alias = std::ranges::find(kAliases, name, &Alias::name);
  if (alias != std::end(kAliases)) name = alias->mix;
  const auto* const mix = std::ranges::find(kMixes, name, &NamedMix::name);
  return mix == std::end(kMixes) ? nullptr : mix;
}

std::string lower(std::string text) {
  for (char& c : text) c = ascii_lower(c);
  return text;
}

/// A type of activations, or of numbers that are no weights.
bool is_no_weight(DType type) {
  constexpr DType kNoWeights[] = {DType::q8_1, DType::q8_k, DType::i8, DType::i16,
                                  DType::i32,  DType::i64,  DType::f64};
  return std::ranges::find(kNoWeights, type) != std::end(kNoWeights);
}

/// FP4 has no number in GGUF, which is what is written.
bool can_be_made(DType type) {
  return !is_no_weight(type) && type != DType::fp4 && quant_traits(type).quantise != nullptr;
}

/// The layers whose values and down projections get more bits in the _K_M mixes: the first and last
/// eighth and every third between.
bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

bool in_first_eighth(const MixModel& model, int64_t layer) { return layer < model.layers / 8; }

/// Eight experts share the attention, whose weights are then few beside the rest: Mixtral's rule.
bool is_shared_by_eight(const MixModel& model) { return model.experts == 8; }

/// Several heads share keys and values, whose weights are then few.
bool has_few_values(const MixModel& model) { return model.heads_per_kv_head >= 4; }

bool is_one_of(Kind kind, std::initializer_list<Kind> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

constexpr std::initializer_list<Kind> kTwoBits = {Kind::iq2_xxs, Kind::iq2_xs, Kind::iq2_s,
                                                  Kind::iq2_m};

}  // namespace

/// The IQ2 mixes, whose base is too coarse for the parts that matter most.
DType TypeMix::of_two_bits(const MixModel& model, std::string_view part, int64_t layer) const {
  const DType more = is_one_of(kind_, {Kind::iq2_s, Kind::iq2_m}) ? DType::iq3_s : DType::q2_k;
  if (part == "attn_v") {
    return has_few_values(model) || model.experts >= 4 ? DType::q4_k : more;
  }
  if (part == "attn_k") return is_shared_by_eight(model) ? DType::q4_k : base_;
  if (part.starts_with("ffn_down")) return in_first_eighth(model, layer) ? more : base_;
  if (part == "attn_output") {
    if (is_shared_by_eight(model)) return DType::q5_k;
    return more == DType::iq3_s ? more : base_;
  }
  return base_;
}

DType TypeMix::of_values(const MixModel& model, int64_t layer) const {
  if (is_shared_by_eight(model)) return DType::q8_0;
  const bool few = has_few_values(model);
  DType type = base_;
  switch (kind_) {
    case Kind::q2_k: type = few ? DType::q4_k : DType::q3_k; break;
    case Kind::q2_k_s:
    case Kind::iq3_xs:
    case Kind::iq3_s: type = few ? DType::q4_k : base_; break;
    case Kind::iq3_xxs:
      type = few ? DType::q4_k : model.importance ? DType::iq3_xxs : DType::iq3_s;
      break;
    case Kind::iq3_m: type = DType::q4_k; break;
    case Kind::q3_k_m: type = layer < 2 ? DType::q5_k : DType::q4_k; break;
    case Kind::q3_k_l: type = DType::q5_k; break;
    case Kind::iq4_nl:
    case Kind::iq4_xs: type = few ? DType::q5_k : base_; break;
    case Kind::q4_k_s: type = layer < 4 ? DType::q5_k : base_; break;
    case Kind::q4_k_m:
    case Kind::q5_k_m: type = gets_more_bits(layer, model.layers) ? DType::q6_k : base_; break;
    default: break;
  }
  // So are the values of models of 70B, which eight heads share.
  const bool is_70b = model.layers == 80 && (model.arch == "llama" || model.arch == "qwen2");
  return is_70b && (type == DType::q3_k || type == DType::q4_k) ? DType::q5_k : type;
}

DType TypeMix::of_down(const MixModel& model, int64_t layer) const {
  const bool first = in_first_eighth(model, layer);
  const bool more = gets_more_bits(layer, model.layers);
  switch (kind_) {
    case Kind::q2_k: return DType::q3_k;
    case Kind::q2_k_s: return first ? DType::q4_k : base_;
    case Kind::iq3_xxs:
      if (model.importance) return base_;
      return first ? DType::q4_k : DType::q3_k;
    case Kind::q3_k_m: return layer < model.layers / 16 ? DType::q5_k : DType::q4_k;
    case Kind::iq3_m: return first || (is_shared_by_eight(model) && more) ? DType::q4_k : base_;
    case Kind::q3_k_l: return DType::q5_k;
    case Kind::q4_k_m:
    case Kind::q5_k_m: return more ? DType::q6_k : base_;
    case Kind::iq4_nl:
    case Kind::iq4_xs: return first && !model.importance ? DType::q5_k : base_;
    case Kind::q4_k_s: return first ? DType::q5_k : base_;
    // With an importance matrix, the largest values of the first layers may be cut off.
    case Kind::q4_0: return first && model.importance ? DType::q4_1 : base_;
    case Kind::q5_0: return first && model.importance ? DType::q5_1 : base_;
    default: return base_;
  }
}

DType TypeMix::of_attention_output(const MixModel& model) const {
  if (is_shared_by_eight(model)) {
    const bool keeps = is_one_of(
        kind_, {Kind::q5_k_s, Kind::q5_k_m, Kind::q4_0, Kind::q5_0, Kind::q3_k_l, Kind::q2_k_s});
    return keeps ? base_ : DType::q5_k;
  }
  switch (kind_) {
    case Kind::q2_k: return DType::q3_k;
    case Kind::iq3_xxs: return DType::iq3_s;
    case Kind::q3_k_m:
    case Kind::iq3_m: return DType::q4_k;
    case Kind::q3_k_l: return DType::q5_k;
    default: return base_;
  }
}

DType TypeMix::pure() const {
  if (kind_ == Kind::iq2_s) return DType::iq2_s;
  return kind_ == Kind::mxfp4 ? DType::mxfp4 : base_;
}

DType TypeMix::of_block(const MixModel& model, std::string_view part, int64_t layer) const {
  if (kind_ == Kind::uniform) return base_;
  if (kind_ == Kind::mxfp4) return part.ends_with("_exps") ? DType::mxfp4 : base_;
  if (is_one_of(kind_, kTwoBits)) return of_two_bits(model, part, layer);
  if (part == "attn_v") return of_values(model, layer);
  if (part == "attn_k" && is_shared_by_eight(model)) return DType::q8_0;
  if (part == "attn_k" || part == "attn_q") {
    if (kind_ == Kind::iq3_xs) return DType::iq3_xxs;
    return kind_ == Kind::iq3_xxs ? DType::iq2_s : base_;
  }
  if (part == "attn_output") return of_attention_output(model);
  if (part == "attn_qkv") {
    if (is_one_of(kind_, {Kind::q3_k_m, Kind::q3_k_l, Kind::iq3_m})) return DType::q4_k;
    if (kind_ == Kind::q4_k_m) return DType::q5_k;
    return kind_ == Kind::q5_k_m ? DType::q6_k : base_;
  }
  if (part.starts_with("ffn_down")) return of_down(model, layer);
  if (part.starts_with("ffn_gate") || part.starts_with("ffn_up")) {
    const bool middle = layer >= model.layers / 8 && layer < 7 * model.layers / 8;
    return kind_ == Kind::iq3_xs && middle ? DType::iq3_xxs : base_;
  }
  return base_;
}

DType TypeMix::of_output() const {
  if (is_one_of(kind_, kTwoBits) || kind_ == Kind::iq3_xxs) return DType::q5_k;
  // The output matrix decides most: 6 bits at least, unless the whole model has more.
  const bool small = is_quantised(base_) && base_ != DType::q8_0;
  return small ? DType::q6_k : base_;
}

DType TypeMix::of_embedding() const {
  switch (kind_) {
    case Kind::iq2_xxs:
    case Kind::iq2_xs: return DType::q2_k;
    case Kind::iq2_s:
    case Kind::iq2_m:
    case Kind::iq3_xxs: return DType::iq3_s;
    default: return base_;
  }
}

bool TypeMix::needs_importance() const {
  return is_one_of(kind_, kTwoBits) || is_one_of(kind_, {Kind::q2_k_s, Kind::iq3_xxs});
}

int32_t TypeMix::file_type() const {
  if (kind_ != Kind::uniform) return std::ranges::find(kMixes, kind_, &NamedMix::kind)->file_type;
  switch (base_) {
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::q4_1: return 3;
    case DType::q8_0: return 7;
    case DType::q5_1: return 9;
    case DType::q3_k: return 11;
    case DType::q4_k: return 14;
    case DType::q5_k: return 16;
    case DType::q6_k: return 18;
    case DType::bf16: return 32;
    case DType::tq1_0: return 36;
    case DType::tq2_0: return 37;
    default: break;
  }
  const NamedMix* const mix = find_mix(dtype_info(base_).ident);
  return mix != nullptr ? mix->file_type : -1;
}

Result<DType> parse_weight_type(const std::string& name) {
  const std::optional<DType> type = dtype_from_name(name);
  if (type && can_be_made(*type)) return *type;
  std::string names;
  for (const DTypeInfo& info : all_dtypes()) {
    if (!can_be_made(info.type)) continue;
    names += names.empty() ? info.name : fmt::format(", {}", info.name);
  }
  if (type && !is_no_weight(*type)) {
    return fail(StatusCode::unsupported,
                "weights of type {} can be read but not written; expected one of {}", name, names);
  }
  return fail(StatusCode::invalid_argument, "'{}' is not a type of weights; expected one of {}",
              name, names);
}

Result<TypeMix> parse_synth_type(const std::string& name) {
  if (!dtype_from_name(name)) {
    if (const NamedMix* const mix = find_mix(lower(name))) return TypeMix(mix->kind, mix->base);
  }
  INFER_TRY(const DType type, parse_weight_type(name));
  return TypeMix(type);
}

Result<TypeMix> parse_type_mix(const std::string& name) {
  if (const NamedMix* const mix = find_mix(lower(name))) return TypeMix(mix->kind, mix->base);
  INFER_TRY(const DType type, parse_weight_type(name));
  return TypeMix(type);
}

std::vector<std::string> type_mix_names() {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    std::string upper(name);
    for (char& c : upper) c = ascii_upper(c);
    names.push_back(std::move(upper));
  };
  for (const DTypeInfo& info : all_dtypes()) {
    if (can_be_made(info.type) && find_mix(info.ident) == nullptr) add(info.ident);
  }
  for (const NamedMix& mix : kMixes) add(mix.name);
  for (const Alias& alias : kAliases) add(alias.name);
  return names;
}

std::vector<std::string> synth_types() {
  std::vector<std::string> names;
  for (const DTypeInfo& info : all_dtypes()) {
    if (can_be_made(info.type)) names.emplace_back(info.ident);
  }
  for (const NamedMix& mix : kMixes) {
    if (!dtype_from_name(mix.name)) names.emplace_back(mix.name);
  }
  return names;
}

DType fitting_type(DType type, int64_t row) {
  if (row % dtype_info(type).block_elements == 0) return type;
  DType next = DType::f16;
  switch (type) {
    case DType::q2_k:
    case DType::q3_k:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq3_xxs:
    case DType::iq3_s:
    case DType::iq4_xs: next = DType::iq4_nl; break;
    case DType::q4_k: next = DType::q5_0; break;
    case DType::q5_k: next = DType::q5_1; break;
    case DType::q6_k: next = DType::q8_0; break;
    default: break;
  }
  return row % dtype_info(next).block_elements == 0 ? next : DType::f16;
}

}  // namespace infer
