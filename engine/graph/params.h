// The typed parameters of every operation. Shapes are written [fastest, …]; activations are
// [d0, d1, rows] float32, where rows is the number of tokens of the step.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

namespace infer::op {

/// Rows of a table. in: tokens i32 [1, 1, rows], table [n, vocab]. out: scale · row, [n, 1, rows].
struct Embed {
  float scale = 1.0f;
};

/// x / √(mean(x²) + eps) along d0, times weight [d0] where given (Zhang & Sennrich 2019).
/// in: x [d0, d1, rows], weight or none. out: as x.
struct RmsNorm {
  float eps = 1e-5f;
};

/// y = scale·(W·x) + bias. in: x [k, 1, rows], W [k, n] of any type, bias f32 [n] or none, scale
/// f32 [1] or none (of types that keep one for the whole tensor). out: [n, 1, rows].
struct Matmul {};

/// a + scale · b. in: a, b of one shape. out: the same.
struct Add {
  float scale = 1.0f;
};

/// factor · x.
struct Scale {
  float factor = 1.0f;
};

/// cap · tanh(x / cap).
struct Softcap {
  float cap = 1.0f;
};

/// Rotary position embedding (Su et al. 2021) of the first 2·pairs elements of each head.
/// in: x [head, heads, rows], table f32 [2, pairs, rows] of (cos, sin) made by the host. out: as x.
struct Rope {
  enum class Style : uint8_t {
    interleaved,  ///< pairs (2i, 2i+1): Llama's own order, "NORM"
    half_split,   ///< pairs (i, i+pairs): "NEOX"
  };
  Style style = Style::interleaved;
};

/// The Walsh–Hadamard transform of every `block` elements of d0, in the natural order, divided by
/// √block: orthonormal, symmetric and its own inverse. block is a power of two that divides d0.
/// in: x [d0, d1, rows]. out: as x.
struct Hadamard {
  int64_t block = 1;
};

/// Stores keys and values of each row in the cache, at (sequence, slot), in the cache's types.
/// in: k [k_dim, kv_heads, rows], v [v_dim, kv_heads, rows], slots i32 [1, 1, rows],
/// sequences i32 [1, 1, rows]. No output.
struct KvStore {
  int32_t kv_layer = 0;
};

/// softmax(scale·q·Kᵀ)·V over the slots of the row's own sequence up to and including its own slot.
/// Heads are shared among kv heads in order (grouped-query attention, Ainslie et al. 2023).
/// in: q [k_dim, heads, rows], slots, sequences as for KvStore, sinks f32 [heads] or none (a logit
/// per head that takes part in the softmax's sum alone). out: [v_dim, heads, rows].
struct Attention {
  int32_t kv_layer = 0;
  float scale = 1.0f;
  float softcap = 0.0f;  ///< cap·tanh(s/cap) on scores; 0: none
  int32_t window = 0;    ///< sees slots > own − window; 0: all
};

/// activation(gate) · up. in: gate, up of one shape. out: the same.
struct Glu {
  enum class Kind : uint8_t {
    silu,        ///< x·σ(x) (Shazeer 2020, SwiGLU)
    gelu_tanh,   ///< tanh approximation of GELU
    swiglu_oai,  ///< min(g, limit)·σ(alpha·min(g, limit)) · (clamp(u, ±limit) + 1)
  };
  Kind kind = Kind::silu;
  float alpha = 1.702f;
  float limit = 7.0f;
};

/// Chooses experts for each row. in: logits f32 [experts, 1, rows], selection bias f32 [experts] or
/// none (added for the choice only). out: ids i32 [used, 1, rows] by falling score, ties to the
/// lower id; weights f32 [used, 1, rows].
struct MoeRoute {
  enum class Gating : uint8_t {
    softmax,            ///< over all experts, before the choice
    sigmoid,            ///< each expert alone
    softmax_of_chosen,  ///< over the chosen ones, after the choice
  };
  Gating gating = Gating::softmax;
  int32_t used = 2;
  bool normalise = false;   ///< divide the weights by their sum
  float scale = 1.0f;       ///< then multiply
  int32_t groups = 1;       ///< experts lie in this many equal groups
  int32_t groups_used = 1;  ///< only the best groups take part
  int32_t group_best = 2;   ///< a group is worth the sum of so many of its best scores: 1 or 2
};

/// Each row times the matrices chosen for it. in: x [k, 1 or used, rows], W [k, n, experts], ids
/// i32 [used, 1, rows], bias f32 [n, experts] or none, scale f32 [experts] or none; the result is
/// scale·(W·x) + bias of the expert. out: [n, used, rows].
struct MoeMatmul {};

/// Σ_e weights[e]·x[:, e] in the order of e. in: x [n, used, rows], weights f32 [used, 1, rows].
/// out: [n, 1, rows].
struct MoeCombine {};

/// Rows of x by index. in: x [d0, d1, rows], indices i32 [1, 1, outputs]. out: [d0, d1, outputs].
struct SelectRows {};

/// Elements of d0 by index, no number where there is none. in: x [k, d1, rows], indices i32 [n].
/// out: [n, d1, rows].
struct SelectColumns {};

/// Each head times a matrix of its own. in: x [k, heads, rows], W [k, n, heads] of any type.
/// out: [n, heads, rows].
struct HeadMatmul {};

/// a, then b, along d0; an input of one head is given to all. in: a [d0a, heads or 1, rows],
/// b [d0b, heads or 1, rows]. out: [d0a + d0b, heads, rows].
struct Concat {};

}  // namespace infer::op

namespace infer {

/// Operations in the order of ops.def; the value is the index in OpParams.
enum class OpId : uint8_t {
#define INFER_OP(type, name) type,
#include "engine/graph/ops.def"
#undef INFER_OP
};

namespace detail {
template <typename, typename... Ts>
struct OpVariant {
  using type = std::variant<Ts...>;
};
using AllParams = OpVariant<void
#define INFER_OP(type, name) , op::type
#include "engine/graph/ops.def"
#undef INFER_OP
                            >::type;
}  // namespace detail

/// An operation and its parameters: the alternative held says which operation it is.
using OpParams = detail::AllParams;

/// As in ops.def: "rms_norm".
const char* op_name(OpId id);

inline OpId op_id(const OpParams& params) { return static_cast<OpId>(params.index()); }

inline constexpr int kOpCount = static_cast<int>(std::variant_size_v<OpParams>);

}  // namespace infer
