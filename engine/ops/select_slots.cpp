#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "engine/ops/op.h"
#include "engine/ops/reference.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("select_slots", in, 4, {0, 2, 3}));
  const auto& p = std::get<op::SelectSlots>(params);
  const auto layer = static_cast<size_t>(p.kv_layer);
  INFER_CHECK_R(check_shape("select_slots", layer < kv.layers.size(), "an existing layer", in));
  const KvLayerShape& shape = kv.layers[layer];
  const TensorDesc& q = in[0]->desc;
  const bool weighted =
      in[1] == nullptr || (!p.by_head && in[1]->desc.type == DType::f32 &&
                           in[1]->desc.shape[0] == q.shape[1] && in[1]->desc.shape[1] == 1);
  INFER_CHECK_R(check_shape(
      "select_slots",
      q.type == DType::f32 && q.shape[0] == shape.k_dim && shape.heads == 1 && weighted &&
          in[2]->desc.type == DType::i32 && in[3]->desc.type == DType::i32 && p.block >= 1 &&
          p.count >= p.block && p.best() >= 1 && p.count % p.block == 0 &&
          !(p.numbers && p.by_head) && (shape.tokens == 1 || shape.tokens == p.block),
      "q f32 [k_dim, heads, rows], weights f32 [heads, 1, rows], slots, sequences, one kv head, "
      "a count of whole blocks, a key for each slot or block",
      in));
  return std::vector{made(DType::i32, p.most(), p.by_head ? q.shape[1] : 1, *in[0])};
}

/// The key at a slot, decoded.
std::vector<float> key_at(const RefCall& call, int32_t sequence, int32_t slot) {
  const auto layer = static_cast<size_t>(std::get<op::SelectSlots>(call.params).kv_layer);
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const int64_t dim = call.kv.layers[layer].k_dim;
  const QuantTraits& type = quant_traits(call.kv.k_type);
  const std::byte* keys =
      call.pages[static_cast<size_t>(at.kind)].page(sequence, slot) + at.k_offset;
  const int64_t token = at.row(slot);
  std::vector<float> key(static_cast<size_t>(dim));
  if (at.k_element == 0) {
    type.decode(keys + token * at.k_row, key.data(), dim);
    return key;
  }
  std::vector<std::byte> elements(static_cast<size_t>(dim * at.k_element));
  for (int64_t i = 0; i < dim; ++i) {
    std::memcpy(elements.data() + i * at.k_element, keys + (i * kPageTokens + token) * at.k_element,
                static_cast<size_t>(at.k_element));
  }
  type.decode(elements.data(), key.data(), dim);
  return key;
}

/// What a block scores for heads [first, last) of a row.
double score_of(const RefCall& call, int64_t row, int32_t block, int64_t first, int64_t last) {
  const auto& p = std::get<op::SelectSlots>(call.params);
  const TensorRef& q = call.inputs[0];
  const int32_t sequence = *call.inputs[3].row<int32_t>(0, row);
  double score = p.by_head ? -std::numeric_limits<double>::infinity() : 0.0;
  for (int32_t i = p.by_head ? 0 : p.block - 1; i < p.block; ++i) {
    const std::vector<float> key = key_at(call, sequence, block * p.block + i);
    for (int64_t h = first; h < last; ++h) {
      const double product = dot_f64(q.row<float>(h, row), key.data(), q.desc.shape[0]);
      const double weight =
          call.inputs[1].data == nullptr ? 1.0 : call.inputs[1].row<float>(0, row)[h];
      score = p.by_head ? std::max(score, product) : score + weight * std::max(0.0, product);
    }
  }
  return score;
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::SelectSlots>(call.params);
  const TensorRef& out = call.outputs[0];
  const int64_t heads = call.inputs[0].desc.shape[1] / out.desc.shape[1];  // of a list
  for (int64_t item = 0; item < out.desc.shape[2] * out.desc.shape[1]; ++item) {
    const int64_t r = item / out.desc.shape[1];
    const int64_t list = item % out.desc.shape[1];
    const int32_t slot = *call.inputs[2].row<int32_t>(0, r);
    std::vector<int32_t> chosen;
    const auto blocks = static_cast<int32_t>(p.blocks(slot));
    if (p.sees_all(slot)) {
      chosen.resize(static_cast<size_t>(p.numbers ? blocks : slot + 1));
      std::iota(chosen.begin(), chosen.end(), 0);
    } else {
      std::vector<double> scores;
      for (int32_t block = 0; block < blocks; ++block) {
        scores.push_back(score_of(call, r, block, list * heads, (list + 1) * heads));
      }
      std::vector<int32_t> order(scores.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
      });
      order.resize(static_cast<size_t>(p.best()));
      std::ranges::sort(order);
      for (const int32_t block : order) {
        if (p.numbers) {
          chosen.push_back(block);
          continue;
        }
        for (int32_t i = 0; i < p.block; ++i) chosen.push_back(block * p.block + i);
      }
      for (int32_t s = blocks * p.block; s <= slot && !p.numbers; ++s) chosen.push_back(s);
    }
    chosen.resize(static_cast<size_t>(p.most()), -1);
    std::ranges::copy(chosen, out.row<int32_t>(list, r));
  }
}

struct Shape {
  int64_t heads, dim;
  int32_t count;
  bool across = false;  ///< keys are transposed
  int32_t block = 1;
  bool weighted = true;
  bool numbers = false;  ///< of blocks, which have a key each
  bool by_head = false;
  bool keys = false;  ///< blocks have a key each, and slots are wanted
};

void add_case(std::vector<OpCase>& all, const Shape& shape, DType type, int64_t rows,
              int32_t sequences) {
  OpCase c;
  c.name = std::to_string(shape.count) + " by " + std::to_string(shape.heads) + " heads of " +
           std::to_string(shape.dim) + " " + std::string(dtype_info(type).ident) +
           (shape.across ? " across" : "") +
           (shape.block > 1 ? " blocks of " + std::to_string(shape.block) : "") +
           (shape.weighted  ? ""
            : shape.by_head ? " by head"
                            : " unweighted") +
           (shape.numbers ? " numbers" : "") + (shape.keys ? " a key each" : "") + " rows " +
           std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  const auto dim = static_cast<int32_t>(shape.dim);
  c.kv = {{{.heads = 1, .k_dim = dim, .v_dim = dim, .v_in_k = !shape.across}}, type, type};
  if (shape.numbers || shape.keys) c.kv.layers[0].tokens = shape.block;
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const ValueId q = b.activations(shape.dim, shape.heads);
    const ValueId k = b.activations(shape.dim);
    const ValueId weights = shape.weighted ? b.activations(shape.heads) : kNoValue;
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequence = g.input(StepInput::sequences);
    g.add_all(op::KvStore{0}, {k, k, slots, sequence});
    g.output(g.add(op::SelectSlots{0, shape.count, shape.block, shape.numbers, shape.by_head},
                   {q, weights, slots, sequence}));
  };
  all.push_back(std::move(c));
}

void cases(std::vector<OpCase>& all) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 32, 5}, type, 3, 2);
    add_case(all, {8, 64, 70}, type, 130, 3);
  }
  add_case(all, {1, 37, 3}, DType::f16, 33, 1);  // most scores are 0: the first of equals
  add_case(all, {3, 37, 1}, DType::f32, 70, 2);
  add_case(all, {3, 40, 9, true}, DType::f16, 130, 2);
  add_case(all, {64, 128, 64}, DType::f16, 130, 1);
  add_case(all, {67, 16, 100}, DType::bf16, 1, 1);
  add_case(all, {4, 32, 2000}, DType::f16, 33, 3);  // more than there are
  add_case(all, {5, 32, 300}, DType::f16, 700, 1);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 32, 12, false, 4}, type, 130, 3);
    add_case(all, {3, 64, 16, false, 16, false}, type, 200, 2);
  }
  add_case(all, {2, 37, 21, false, 7}, DType::f32, 190, 1);  // blocks across pages
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 32, 24, false, 6, true, false, false, true}, type, 150, 2);
    add_case(all, {3, 64, 64, false, 16, true, false, false, true}, type, 200, 1);
  }
  add_case(all, {5, 37, 140, false, 70, true, false, false, true}, DType::f16, 450, 1);
  add_case(all, {5, 40, 15, true, 5}, DType::f16, 150, 2);
  add_case(all, {1, 32, 200, false, 100}, DType::f16, 450, 1);  // blocks longer than pages
  add_case(all, {16, 128, 64, false, 32}, DType::f16, 1, 1);
  add_case(all, {8, 64, 256, false, 8, false}, DType::f16, 700, 1);
  add_case(all, {5, 48, 9, true, 1, false}, DType::f32, 90, 2);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 32, 12, false, 4, true, true}, type, 130, 3);
    add_case(all, {2, 64, 12, false, 4, false, false, true}, type, 130, 3);
  }
  add_case(all, {2, 37, 21, false, 7, true, true}, DType::f32, 190, 1);
  add_case(all, {5, 40, 30, true, 5, true, true}, DType::f16, 150, 2);
  add_case(all, {1, 32, 200, false, 100, true, true}, DType::f16, 450, 1);
  add_case(all, {3, 32, 256, false, 128, false, true}, DType::f16, 500, 2);
  add_case(all, {64, 128, 64, false, 4, true, true}, DType::f16, 200, 1);
  add_case(all, {5, 32, 64, false, 4, true, true}, DType::f16, 900, 1);
  add_case(all, {16, 128, 400, false, 4, true, true}, DType::f16, 1, 1);
  add_case(all, {4, 128, 256, false, 128, false, false, true}, DType::f16, 300, 1);
  add_case(all, {4, 128, 384, false, 128, false, false, true}, DType::bf16, 1, 1);
  add_case(all, {1, 37, 14, false, 7, false, false, true}, DType::f32, 190, 2);
  add_case(all, {3, 40, 20, true, 5, false, false, true}, DType::f16, 150, 2);
  add_case(all, {67, 16, 6, false, 3, false, false, true}, DType::f16, 33, 1);
  add_case(all, {2, 32, 9, false, 1, false, false, true}, DType::f16, 90, 1);
}

}  // namespace

const OpDef& select_slots_op() {
  static const OpDef def{OpId::SelectSlots, "select_slots", infer, reference, cases};
  return def;
}

}  // namespace infer
