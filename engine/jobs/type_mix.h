// The element type of each weight of a quantised model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/status.h"

namespace infer {

/// The properties of a model that decide the types of its weights.
struct MixModel {
  std::string_view arch;
  int64_t layers = 0;
  int64_t experts = 0;
  int64_t heads_per_kv_head = 1;
  bool importance = false;  ///< there is an importance matrix
};

/// One type for all matrices, or one of the usual mixes of llama.cpp's quantiser: more bits for the
/// parts of a block and the layers where an error costs most.
class TypeMix {
 public:
  enum class Kind : uint8_t {
    uniform,
    q4_0,
    q5_0,
    q2_k,
    q2_k_s,
    q3_k_s,
    q3_k_m,
    q3_k_l,
    q4_k_s,
    q4_k_m,
    q5_k_s,
    q5_k_m,
    iq2_xxs,
    iq2_xs,
    iq2_s,
    iq2_m,
    iq3_xxs,
    iq3_xs,
    iq3_s,
    iq3_m,
    iq4_nl,
    iq4_xs,
    mxfp4,
  };

  explicit TypeMix(DType base) : base_(base) {}
  TypeMix(Kind kind, DType base) : kind_(kind), base_(base) {}

  /// The type of most matrices.
  DType base() const { return base_; }
  /// The one that the mix has its name of; else that of most matrices.
  DType pure() const;

  /// The type of a block's matrix, e.g. "attn_v", "ffn_down_exps", regardless of its row length
  /// (see fitting_type()).
  DType of_block(const MixModel& model, std::string_view part, int64_t layer) const;
  /// The type of the output matrix, or of the embedding if that is the output.
  DType of_output() const;
  DType of_embedding() const;
  /// True if the type is only for experts and the rest of the model gets another type.
  bool is_of_experts() const { return kind_ == Kind::mxfp4; }
  /// True if the type is so coarse that it needs an importance matrix.
  bool needs_importance() const;
  /// The number for general.file_type (enum llama_ftype of llama.h); −1: it has none.
  int32_t file_type() const;

 private:
  DType of_two_bits(const MixModel& model, std::string_view part, int64_t layer) const;
  DType of_values(const MixModel& model, int64_t layer) const;
  DType of_down(const MixModel& model, int64_t layer) const;
  DType of_attention_output(const MixModel& model) const;

  Kind kind_ = Kind::uniform;
  DType base_ = DType::q4_0;
};

/// The types of `infer synth`: an element type (for all matrices; the output has at least 6 bits)
/// or the name of a mix that is not also a type. Errors: invalid_argument for other names;
/// unsupported for a type that can only be read.
Result<TypeMix> parse_synth_type(const std::string& name);

/// What `infer quantize` takes, in either case: the name of a mix, also where it is a type's too,
/// or an element type. Q3_K, Q4_K and Q5_K mean their _M mixes. Fails as parse_synth_type.
Result<TypeMix> parse_type_mix(const std::string& name);
/// The names that parse_type_mix knows, as they are usually written: "Q4_K_M".
std::vector<std::string> type_mix_names();

/// An element type that weights can be quantised to. Fails as parse_synth_type.
Result<DType> parse_weight_type(const std::string& name);

/// The type that takes the place of one whose blocks do not divide the row, as in llama.cpp.
DType fitting_type(DType type, int64_t row);

}  // namespace infer
