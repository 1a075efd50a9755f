// The typed parameters of every operation.
//
// Shapes are written [d0, d1, d2]; d0 varies fastest in memory. Activations are float32
// [d0, d1, rows]; `rows` is the number of tokens of the step, or of its wanted results
// (Rows::outputs). "in" lists a node's inputs in order; an input that may be left out says "or
// none". "out" lists the results. engine/ops/<operation>.cpp checks all of it and has the reference
// code.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <variant>

namespace infer::op {

/// Looks up a row of the table for each token and multiplies it by `scale`. A token below 0, which
/// stands for a piece of an image, gives zeros.
/// in: tokens i32 [1, 1, rows], table [n, vocab] of any type. out: [n, 1, rows].
struct Embed {
  float scale = 1.0f;
};

/// x / √(mean(x²) + eps) along d0, then multiplied by the weight (Zhang & Sennrich 2019).
/// in: x [d0, d1, rows], weight f32 [d0] or none. out: as x.
struct RmsNorm {
  float eps = 1e-5f;
};

/// (x − mean(x)) / √(mean((x − mean(x))²) + eps) along d0, then multiplied by the weight, then plus
/// the bias (Ba et al. 2016). in: x [d0, d1, rows], weight f32 [d0], or [d0, d1] with one for each
/// head, or none, bias f32 [d0] or none. out: as x.
struct LayerNorm {
  float eps = 1e-5f;
};

/// y = scale·(W·x) + bias.
/// in: x [k, 1, rows], W [k, n] of any type, bias f32 [n] or none, scale f32 [1] or none (some
/// quantised types have one scale for the whole tensor). out: [n, 1, rows].
struct Matmul {};

/// a + scale · b. in: a, b of the same shape. out: the same shape.
struct Add {
  float scale = 1.0f;
};

/// factor · x, held within [least, most]. in: x [d0, d1, rows]. out: as x.
struct Scale {
  float factor = 1.0f;
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
};

/// x · weight, element by element of d0. in: x [d0, d1, rows], weight f32 [d0]. out: as x.
struct Multiply {};

/// x with the root mean square of `like` along d0: x·√(mean(like²) / max(mean(x²), floor)).
/// in: x [d0, d1, rows], like [d0, 1, rows]. out: as x.
struct MatchMagnitude {
  float floor = 1e-5f;
};

/// max(0, x − mean(x) − factor·deviation(x)) along d0: what stands out, if the elements have a
/// normal distribution (Gemma 3n). The deviation is the root of the mean square of x − mean(x). in:
/// x [d0, d1, rows]. out: as x.
struct Outstanding {
  float factor = 0.0f;
};

/// cap · tanh(x / cap). in: x [d0, d1, rows]. out: as x.
struct Softcap {
  float cap = 1.0f;
};

/// Rotary position embedding (Su et al. 2021). Rotates the first 2·pairs elements of each head and
/// copies the rest.
/// in: x [head, heads, rows], table f32 [2, pairs, rows] of (cos, sin), computed by the host.
/// out: as x.
struct Rope {
  enum class Style : uint8_t {
    interleaved,  ///< rotates (2i, 2i + 1) together: Llama's order, "NORM" in llama.cpp
    half_split,   ///< rotates (i, i + pairs) together: "NEOX" in llama.cpp
  };
  Style style = Style::interleaved;
};

/// The Walsh–Hadamard transform of each run of `block` elements of d0, in natural order, divided by
/// √block. It is orthonormal, symmetric and its own inverse. `block` is a power of two and divides
/// d0. in: x [d0, d1, rows]. out: as x.
struct Hadamard {
  int64_t block = 1;
};

/// Stores the key and the value of each row in the cache, converted to the cache's types, at the
/// row's sequence and slot (its place in the sequence, from 0). In a layer whose blocks of tokens
/// have one key (KvLayerShape::tokens), only rows that end a block are stored.
/// in: k [k_dim, kv_heads, rows], v [v_dim, kv_heads, rows], slots i32 [1, 1, rows],
/// sequences i32 [1, 1, rows]. out: none.
struct KvStore {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers
};

/// softmax(scale·q·Kᵀ)·V over the slots of the row's sequence, up to and including the row's slot.
/// Consecutive heads share a kv head: heads / kv_heads each (grouped-query attention, Ainslie et
/// al. 2023).
/// in: q [k_dim, heads, rows], slots and sequences as for KvStore, sinks f32 [heads] or none (one
/// more logit per head; it adds to the sum of the softmax but has no value), last i32 [1, 1, rows]
/// or none (the last slot that a row sees, at least its own, in place of that), chosen i32 [count,
/// 1 or kv_heads, rows] or none (a row sees these slots alone, or the heads of each kv head their
/// own: what SelectSlots made; not with a window or last). out: [v_dim, heads, rows].
struct Attention {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers
  float scale = 1.0f;
  float softcap = 0.0f;  ///< scores become softcap·tanh(score / softcap); 0: unchanged
  int32_t window = 0;    ///< the row sees this many slots, its own included; 0: all
  /// The row sees the slots from the last multiple of the window on in place of as many as that.
  bool chunked = false;
  int32_t chosen_block = 1;     ///< SelectSlots::block of what made `chosen`
  bool chosen_by_head = false;  ///< SelectSlots::by_head of it
  /// Scaled scores are lessened by slope·|distance| in slots: `most` of alibi_slope(). Not with
  /// chosen. 0: they are not.
  float alibi = 0.0f;
  float alibi_factor = 1.0f;  ///< multiplies the slopes
};

/// The slots that a row attends to: of those up to its own, the `count` with the highest scores
/// ("lightning indexer", DeepSeek-AI 2025). Among equal scores the lower slot is first. The score
/// of a slot with key k is Σ_h weights[h]·max(0, q_h·k).
///
/// With a block of more than one slot, whole blocks are chosen, count / block of them: slots
/// [b·block, (b + 1)·block) are block b, and the key at its last slot is the block's. A row also
/// gets the slots behind its last complete block, so at most block − 1 more (Qwen Team 2026). Or
/// the result has the numbers of the blocks (DeepSeek-V4). The layer has a key for each slot, or
/// for each block (KvLayerShape::tokens).
/// By head: each head chooses for itself, count / block blocks in all, of which the row's own,
/// complete or not, is always one. A block's score is the highest q_h·k of its slots (MiniMax
/// 2026).
/// in: q [k_dim, heads, rows], weights f32 [heads, 1, rows] or none (all are 1; none by head),
/// slots and sequences as for KvStore. out: i32 [most(), 1, rows], by head [most(), heads, rows]:
/// slots or numbers of blocks in ascending order, then −1.
struct SelectSlots {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers: one kv head; values are not read
  int32_t count = 1;     ///< a multiple of block; by head at least two blocks
  int32_t block = 1;
  bool numbers = false;  ///< of blocks in place of slots; not by head
  bool by_head = false;

  /// Elements of the result for a row: slots or blocks. Rows that see fewer get all.
  constexpr int32_t most() const {
    return numbers ? count / block : by_head ? count : count + block - 1;
  }
  /// Whether a row at `slot` gets all that it sees.
  constexpr bool sees_all(int64_t slot) const {
    return numbers ? blocks(slot) <= most() : slot < most();
  }
  /// How many blocks are chosen by their scores, of the blocks(slot) that a row at `slot` has.
  constexpr int64_t best() const { return count / block - (by_head ? 1 : 0); }
  constexpr int64_t blocks(int64_t slot) const { return (slot + (by_head ? 0 : 1)) / block; }

  /// How many slots a row at `slot` gets, of the `most` that the output has room for.
  static constexpr int64_t given(int64_t slot, int64_t most, int64_t block, bool by_head) {
    return slot < most ? slot + 1 : most + 1 - block + (slot + (by_head ? 0 : 1)) % block;
  }
};

/// softmax(scale·q·Kᵀ)·V over the last slots of the row's sequence and over blocks of slots, each
/// of which has one key and value in a layer of its own (KvLayerShape::tokens), together
/// ("compressed attention", DeepSeek-AI 2026). A row sees the blocks that end at its slot or
/// before, or those of them that are chosen. Both layers have a single kv head. in: q [k_dim,
/// heads, rows], slots and sequences as for KvStore, sinks as for Attention or none, chosen i32
/// [count, 1, rows] or none (numbers of blocks: SelectSlots::numbers). out: [v_dim, heads, rows].
struct PooledAttention {
  int32_t kv_layer = 0;      ///< index in KvGeometry::layers: of slots
  int32_t pooled_layer = 0;  ///< the same: of blocks
  float scale = 1.0f;
  int32_t window = 1;  ///< slots that the row sees, its own included

  /// How many blocks a row at `slot` sees, `most` at most.
  static constexpr int64_t blocks(int64_t slot, int64_t tokens, int64_t most) {
    return (slot + 1) / tokens < most ? (slot + 1) / tokens : most;
  }
};

// Recurrent layers. Tokens of a sequence come in ascending slots, and each is computed from the
// state that the one before it left, in float32: so no cut of a text into steps changes a result.
// What is before slot 0 is zero, whatever the page holds. The matrix S of a head is in blocks of
// kStateColumns columns, [block][row][column]; the last block may have fewer. Columns are rounded
// up to kStatePad.

/// Depthwise causal convolution: Σ_j w[j]·x of the token (taps − 1 − j)·dilation before, plus the
/// bias. The state holds the last kept = (taps − 1)·dilation inputs, which are fewer than
/// kMostTaps: x [channels] of slot s at (s mod kept)·channels. in: x [channels, 1, rows], w f32
/// [taps, channels] or [taps, 1, channels], bias f32 [channels] or none, slots and sequences as for
/// KvStore. out: as x.
struct CausalConv {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers: a state
  bool silu = false;     ///< out = y·σ(y)
  int64_t at = 0;        ///< element of the state where the inputs begin, a multiple of kStatePad
  int32_t dilation = 1;
};

/// The mean of x over the slots of the row's block up to its own. Slots [b·block, (b + 1)·block)
/// are block b. The state holds the sum [d0].
/// in: x [d0, 1, rows], slots and sequences as for KvStore. out: as x.
struct BlockMean {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers: a state
  int32_t block = 1;
};

/// The mean of x over the slots of the row's block up to its own, by element with the weights
/// softmax(gate). Slots [b·block, (b + 1)·block) are block b. If blocks overlap, x and gate have
/// two parts of equal size: the mean is that of the second parts in the block and the first parts
/// in the block before it, if there is one. The state holds for each element of the result the
/// largest gate, the sum of the weights relative to it, and that of x times them, [3·d]; with
/// overlap those of the next block behind them. in: x, gate f32 [d or 2·d, 1, rows], slots and
/// sequences as for KvStore. out: [d, 1, rows].
struct BlockPool {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers: a state
  int32_t block = 1;
  bool overlaps = false;
  int64_t at = 0;  ///< element of the state where its part begins, a multiple of kStatePad
};

/// The gated delta rule (Yang et al. 2024). For each value head, with Δ = softplus(step + bias),
/// β = σ(write), and q, k of the key head that serves it, multiplied by their scales:
///   S ← exp(a·Δ)·S;  S ← S + k·(β·(v − Sᵀk))ᵀ;  out = Sᵀq.
/// The state holds S of each head: k_dim rows of v_dim columns. With a decay for each channel of a
/// key (Kimi Team 2025), Δ is that of the row of S that it multiplies. With a bound, S decays by
/// exp(bound·σ(|a|·(step + bias))) there in place of exp(a·Δ).
/// in: q, k [k_dim, key heads, rows], v [v_dim, heads, rows], step, write [heads, 1, rows] or
/// [n, heads / n, rows], a, bias f32 [heads], slots and sequences as for KvStore; by channel, step
/// [k_dim, heads, rows] and bias f32 [k_dim·heads]. out: as v.
struct DeltaScan {
  int32_t kv_layer = 0;  ///< index in KvGeometry::layers: a state
  int64_t at = 0;        ///< element of the state where S begins, a multiple of kStatePad
  float q_scale = 1.0f;
  float k_scale = 1.0f;
  /// Head h takes key head h mod (key heads); else consecutive heads share one.
  bool tiled = false;
  bool by_channel = false;  ///< a decay for each channel of a key
  float bound = 0;          ///< of the logarithm of a decay by channel, below 0; 0: none
};

/// The scan of Mamba-2 (Dao & Gu 2024). For each head, with Δ = softplus(step + bias), and b, c of
/// the group that consecutive heads share:
///   S ← exp(a·Δ)·S + b·(Δ·x)ᵀ;  out = Sᵀc + d·x.
/// With a slope, Δ is 1, d 0, and a of head h (from 0) −slope·2^(−8·(h + 1) / heads) (lightning
/// attention, Qin et al. 2024).
/// By element (Mamba, Gu & Dao 2023), each column of S has a Δ = softplus(step) and a d of its own,
/// and each element of S the a that it decays with.
/// The state holds S of each head: n rows of `head` columns.
/// in: x [head, heads, rows], b, c [n, groups, rows], step [heads, 1, rows], a, bias, d f32
/// [heads], or all four none with a slope, slots and sequences as for KvStore; by element, step as
/// x, a f32 [n, head·heads], no bias, d f32 [head·heads]. out: as x.
struct SsmScan {
  int32_t kv_layer = 0;     ///< index in KvGeometry::layers: a state
  int64_t at = 0;           ///< element of the state where S begins, a multiple of kStatePad
  float slope = 0;          ///< above 0; 0: none
  bool by_element = false;  ///< not with a slope
};

/// softmax(scale·q·Kᵀ + bias)·V over the rows of the same text in this step: attention without a
/// cache, for texts that are computed at once. The text of row r is the rows [begins[r], ends[r]);
/// both are the same for all its rows. Consecutive heads share a kv head.
/// in: q [k_dim, heads, rows], k [k_dim, kv_heads, rows], v [v_dim, kv_heads, rows], begins and
/// ends i32 [1, 1, rows], sinks as for Attention or none. out: [v_dim, heads, rows].
struct TextAttention {
  float scale = 1.0f;
  float softcap = 0.0f;  ///< as for Attention
  int32_t before = -1;   ///< how many rows before it a row sees; −1: all of its text
  int32_t after = -1;    ///< how many rows after it a row sees; −1: all of its text
  /// The row sees no rows before the last multiple of this, counted from its text's begin. 0: none.
  int32_t chunk = 0;
  float alibi = 0.0f;  ///< as for Attention, in rows
  float alibi_factor = 1.0f;
};

/// The mean of the rows [begins[i], ends[i]) of x, at least one.
/// in: x [d0, d1, rows], begins and ends i32 [1, 1, outputs]. out: [d0, d1, outputs].
struct MeanRows {};

/// x·Φ(x) with the distribution function Φ of the normal distribution, or what is used in its place
/// (Hendrycks & Gimpel 2016). in: x [d0, d1, rows]. out: as x.
struct Gelu {
  enum class Kind : uint8_t {
    exact,
    tanh,     ///< x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2
    sigmoid,  ///< x·σ(1.702·x): "quick" GELU
  };
  Kind kind = Kind::exact;
};

/// activation(gate) · up. in: gate, up of the same shape. out: the same shape.
struct Glu {
  enum class Kind : uint8_t {
    silu,        ///< activation(g) = g·σ(g) (Shazeer 2020, SwiGLU)
    gelu_tanh,   ///< tanh approximation of GELU
    swiglu_oai,  ///< out = min(g, limit)·σ(alpha·min(g, limit)) · (clamp(u, ±limit) + 1)
    sigmoid,     ///< activation(g) = σ(g)
    relu,        ///< activation(g) = max(g, 0)
    bilinear,    ///< activation(g) = g
    gelu,        ///< activation(g) = g·Φ(g), as Gelu
    softplus,    ///< activation(g) = log(1 + e^g)
  };
  Kind kind = Kind::silu;
  float alpha = 1.702f;  ///< of swiglu_oai
  float limit = 7.0f;    ///< of swiglu_oai
};

/// xIELU with the sums of its learned parameters (Huang & Schlag 2024):
/// x > 0: positive·x² + beta·x; else negative·(e^min(x, eps) − 1 − x) + beta·x.
/// in: x [d0, d1, rows]. out: as x.
struct Xielu {
  float positive = 0.8f;
  float negative = 1.3f;
  float beta = 0.5f;
  float eps = -1e-6f;
};

/// Chooses `used` experts for each row: those with the highest scores. The score of an expert is
/// its gate value, plus its selection bias if there is one. The weight of a chosen expert comes
/// from its gate value alone.
/// A table may say which experts each token takes ("hash routing"). An id that is no expert's
/// stands for the nearest that is, one that the row has already for the next that it has not. in:
/// logits f32 [experts, 1, rows], selection bias f32 [experts] or none, table i32 [used,
/// vocabulary] and tokens i32 [1, 1, rows], or both none (a table: without groups, with sigmoid or
/// sqrt_softplus). out: ids i32 [used, 1, rows], highest score first, the lower id first among
/// equal scores, or as the table has them; weights f32 [used, 1, rows].
struct MoeRoute {
  enum class Gating : uint8_t {
    softmax,            ///< gate values: softmax over the logits of all experts
    sigmoid,            ///< gate values: sigmoid of each logit
    softmax_of_chosen,  ///< gate values: the logits; weights: softmax over the chosen ones
    /// Gate values: the logits. The weight of a chosen expert, with logit m: softmax over those
    /// experts that were not chosen before it and whose logits x have (m − x) / max(|x|, m) ≤
    /// margin (SparseMixer, Liu et al. 2024). Not with groups.
    sparse_mixer,
    softmax_in_order,  ///< as softmax, where all are used without groups: the ids ascend
    sqrt_softplus,     ///< gate values: √(log(1 + e^x)) of each logit x
  };
  Gating gating = Gating::softmax;
  int32_t used = 2;         ///< experts chosen for a row
  bool normalise = false;   ///< divides the weights by their sum
  float scale = 1.0f;       ///< multiplies the weights, after normalising
  int32_t groups = 1;       ///< the experts are in this many groups of equal size
  int32_t groups_used = 1;  ///< experts are chosen only from this many best groups
  int32_t group_best = 2;   ///< a group's score is the sum of its 1 or 2 best scores
  float margin = 0.0f;      ///< of sparse_mixer
};

/// scale·(W·x) + bias of each expert that was chosen for the row.
/// in: x [k, 1, rows] for all experts or [k, used, rows] for each its own, W [k, n, experts] of any
/// type, ids i32 [used, 1, rows], bias f32 [n, experts] or none, scale f32 [experts] or none.
/// out: [n, used, rows].
struct MoeMatmul {};

/// Σ_e weights[e]·x[:, e], added in the order of e.
/// in: x [n, used, rows], weights f32 [used, 1, rows]. out: [n, 1, rows].
struct MoeCombine {};

/// How far a memory is let through: σ(sign(γ)·√max(|γ|, 1e-6)) with γ = scale·Σ q·k along d0
/// (Cheng et al. 2026, "Engram").
/// in: q, k [d0, d1, rows]. out: [d1, 1, rows].
struct MemoryGate {
  float scale = 1.0f;
};

/// How the streams of a residual meet a part of a layer (manifold-constrained hyper-connections,
/// Xie et al. 2026): with y = scale·x + base, where each of the three parts of x has a scale of its
/// own, the part takes σ(y) + eps of each stream, and gives 2·σ(y) of what it makes to each. The
/// rest of y is a matrix, row by row, with which the streams are mixed: the softmax of each row
/// plus eps; then each column is divided by its sum plus eps; then, iterations − 1 times, each row
/// and each column (Sinkhorn & Knopp 1967). in: x f32 [n + n + n·n, 1, rows], scale f32 [3], base
/// f32 [n + n + n·n]; with iterations = 0 only the first part of all: x f32 [n, 1, rows], scale f32
/// [1], base f32 [n]. out: what is taken, what is given f32 [n, 1, rows], the matrix f32 [n·n, 1,
/// rows]; or the first alone.
struct StreamGates {
  static constexpr int32_t kMostStreams = 8;
  int32_t streams = 1;  ///< n
  int32_t iterations = 0;
  float eps = 1e-6f;
};

/// What streams become, by StreamGates: out[:, i] = Σ_j mix[j·n + i]·x[:, j] + shares[i]·h.
/// in: x [d0, n, rows], mix f32 [n·n, 1, rows], h [d0, 1, rows], shares f32 [n, 1, rows]. out: as
/// x.
struct MixStreams {};

/// weights[e]·x for each chosen expert: what it takes where weights are of its input.
/// in: x [n, 1, rows], weights f32 [used, 1, rows]. out: [n, used, rows].
struct MoeSpread {};

/// Gathers rows of x by index.
/// in: x [d0, d1, rows], indices i32 [1, 1, outputs]. out: [d0, d1, outputs].
struct SelectRows {};

/// Gathers elements of d0 by index. An index below 0 or beyond the end gives NaN.
/// in: x [k, d1, rows], indices i32 [n]. out: [n, d1, rows].
struct SelectColumns {};

/// Multiplies each head by its own matrix.
/// in: x [k, heads, rows], W [k, n, heads] of any type. out: [n, heads, rows].
struct HeadMatmul {};

/// Joins a and b along d0: first a, then b. If one input has a single head, that head is repeated
/// for every head of the other.
/// in: a [d0a, heads or 1, rows], b [d0b, heads or 1, rows]. out: [d0a + d0b, heads, rows].
struct Concat {};

}  // namespace infer::op

namespace infer {

/// The operations, in the order of ops.def. The value is also the index in OpParams.
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

/// An operation with its parameters. The type held says which operation it is.
using OpParams = detail::AllParams;

/// As in ops.def: "rms_norm".
const char* op_name(OpId id);

inline OpId op_id(const OpParams& params) { return static_cast<OpId>(params.index()); }

inline constexpr int kOpCount = static_cast<int>(std::variant_size_v<OpParams>);

}  // namespace infer
