#include <algorithm>
#include <cstring>
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
      in[1] == nullptr || (in[1]->desc.type == DType::f32 && in[1]->desc.shape[0] == q.shape[1] &&
                           in[1]->desc.shape[1] == 1);
  INFER_CHECK_R(check_shape(
      "select_slots",
      q.type == DType::f32 && q.shape[0] == shape.k_dim && shape.heads == 1 && weighted &&
          in[2]->desc.type == DType::i32 && in[3]->desc.type == DType::i32 && p.block >= 1 &&
          p.count >= p.block && p.count % p.block == 0 &&
          (shape.tokens == 1 || shape.tokens == p.block),
      "q f32 [k_dim, heads, rows], weights f32 [heads, 1, rows], slots, sequences, one kv head, "
      "a count of whole blocks, a key for each slot or block",
      in));
  return std::vector{made(DType::i32, p.most(), 1, *in[0])};
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

void reference(const RefCall& call) {
  const auto& p = std::get<op::SelectSlots>(call.params);
  const TensorRef& q = call.inputs[0];
  for (int64_t r = 0; r < q.desc.shape[2]; ++r) {
    const int32_t end = *call.inputs[2].row<int32_t>(0, r) + 1;
    const int32_t sequence = *call.inputs[3].row<int32_t>(0, r);
    std::vector<double> scores;  // of blocks
    for (int32_t block = 0; block < end / p.block; ++block) {
      const std::vector<float> key = key_at(call, sequence, (block + 1) * p.block - 1);
      double score = 0;
      for (int64_t h = 0; h < q.desc.shape[1]; ++h) {
        const double weight =
            call.inputs[1].data == nullptr ? 1.0 : call.inputs[1].row<float>(0, r)[h];
        score += weight * std::max(0.0, dot_f64(q.row<float>(h, r), key.data(), q.desc.shape[0]));
      }
      scores.push_back(score);
    }
    std::vector<int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    const auto most = static_cast<size_t>(p.count / p.block);
    if (order.size() > most) order.resize(most);
    std::ranges::sort(order);
    std::vector<int32_t> chosen;
    for (const int32_t block : order) {
      if (p.numbers) {
        chosen.push_back(block);
        continue;
      }
      for (int32_t i = 0; i < p.block; ++i) chosen.push_back(block * p.block + i);
    }
    for (int32_t slot = end / p.block * p.block; slot < end && !p.numbers; ++slot) {
      chosen.push_back(slot);
    }
    chosen.resize(static_cast<size_t>(p.most()), -1);
    std::ranges::copy(chosen, call.outputs[0].row<int32_t>(0, r));
  }
}

struct Shape {
  int64_t heads, dim;
  int32_t count;
  bool across = false;  ///< keys are transposed
  int32_t block = 1;
  bool weighted = true;
  bool numbers = false;  ///< of blocks, which have a key each
};

void add_case(std::vector<OpCase>& all, const Shape& shape, DType type, int64_t rows,
              int32_t sequences) {
  OpCase c;
  c.name = std::to_string(shape.count) + " by " + std::to_string(shape.heads) + " heads of " +
           std::to_string(shape.dim) + " " + std::string(dtype_info(type).ident) +
           (shape.across ? " across" : "") +
           (shape.block > 1 ? " blocks of " + std::to_string(shape.block) : "") +
           (shape.weighted ? "" : " unweighted") + (shape.numbers ? " numbers" : "") + " rows " +
           std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  const auto dim = static_cast<int32_t>(shape.dim);
  c.kv = {{{.heads = 1, .k_dim = dim, .v_dim = dim, .v_in_k = !shape.across}}, type, type};
  if (shape.numbers) c.kv.layers[0].tokens = shape.block;
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const ValueId q = b.activations(shape.dim, shape.heads);
    const ValueId k = b.activations(shape.dim);
    const ValueId weights = shape.weighted ? b.activations(shape.heads) : kNoValue;
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequence = g.input(StepInput::sequences);
    g.add_all(op::KvStore{0}, {k, k, slots, sequence});
    g.output(g.add(op::SelectSlots{0, shape.count, shape.block, shape.numbers},
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
  add_case(all, {16, 32, 300}, DType::f16, 1400, 1);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 32, 12, false, 4}, type, 130, 3);
    add_case(all, {3, 64, 16, false, 16, false}, type, 200, 2);
  }
  add_case(all, {2, 37, 21, false, 7}, DType::f32, 190, 1);  // blocks across pages
  add_case(all, {5, 40, 15, true, 5}, DType::f16, 150, 2);
  add_case(all, {1, 32, 200, false, 100}, DType::f16, 450, 1);  // blocks longer than pages
  add_case(all, {16, 128, 64, false, 32}, DType::f16, 1, 1);
  add_case(all, {8, 64, 256, false, 8, false}, DType::f16, 1400, 1);
  add_case(all, {5, 48, 9, true, 1, false}, DType::f32, 90, 2);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 32, 12, false, 4, true, true}, type, 130, 3);
  }
  add_case(all, {2, 37, 21, false, 7, true, true}, DType::f32, 190, 1);
  add_case(all, {5, 40, 30, true, 5, true, true}, DType::f16, 150, 2);
  add_case(all, {1, 32, 200, false, 100, true, true}, DType::f16, 450, 1);
  add_case(all, {3, 32, 256, false, 128, false, true}, DType::f16, 500, 2);
  add_case(all, {64, 128, 64, false, 4, true, true}, DType::f16, 1400, 1);
  add_case(all, {16, 128, 400, false, 4, true, true}, DType::f16, 1, 1);
}

}  // namespace

const OpDef& select_slots_op() {
  static const OpDef def{OpId::SelectSlots, "select_slots", infer, reference, cases};
  return def;
}

}  // namespace infer
