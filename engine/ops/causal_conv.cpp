#include <cmath>

#include "engine/ops/op.h"
#include "engine/ops/recurrent.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("causal_conv", in, 5, {0, 1, 3, 4}));
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& w = in[1]->desc;
  const int64_t channels = x.shape[0];
  const int64_t taps = w.shape[0];
  const auto& p = std::get<op::CausalConv>(params);
  const int64_t kept = (taps - 1) * p.dilation;
  const bool bias =
      in[2] == nullptr || (in[2]->desc.type == DType::f32 && in[2]->desc.shape[0] == channels);
  INFER_CHECK_R(check_shape("causal_conv",
                            x.type == DType::f32 && x.shape[1] == 1 && w.type == DType::f32 &&
                                w.shape[1] * w.shape[2] == channels &&
                                (w.shape[1] == 1 || w.shape[2] == 1) && taps >= 2 &&
                                p.dilation >= 1 && kept < kMostTaps && bias && p.at >= 0 &&
                                p.at % kStatePad == 0,
                            "x f32 [channels, 1, rows], w f32 [taps, channels] or [taps, 1, "
                            "channels] with 2 taps or more that see 16 tokens at most, bias f32 "
                            "[channels]",
                            in));
  INFER_CHECK_R(check_state("causal_conv", in, 3, kv, p.kv_layer, p.at + kept * channels));
  return std::vector{made(DType::f32, channels, 1, *in[0])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::CausalConv>(call.params);
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& bias = call.inputs[2];
  const int64_t channels = x.desc.shape[0];
  const int64_t taps = w.desc.shape[0];
  const int64_t kept = (taps - 1) * p.dilation;
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const int64_t slot = *call.inputs[3].row<int32_t>(0, r);
    float* before = state_of(call, p.kv_layer, 3, r) + p.at;
    for (int64_t c = 0; c < channels; ++c) {
      const float now = x.row<float>(0, r)[c];
      const float* weights = w.desc.shape[1] == 1 ? w.row<float>(0, c) : w.row<float>(c, 0);
      double sum = bias.data == nullptr ? 0.0 : bias.row<float>(0, 0)[c];
      for (int64_t j = 0; j < taps; ++j) {
        const int64_t s = slot - (taps - 1 - j) * p.dilation;
        if (s < 0) continue;
        sum += static_cast<double>(weights[j]) *
               (j + 1 == taps ? now : before[s % kept * channels + c]);
      }
      before[slot % kept * channels + c] = now;
      call.outputs[0].row<float>(0, r)[c] =
          static_cast<float>(p.silu ? sum / (1 + std::exp(-sum)) : sum);
    }
  }
}

void cases(std::vector<OpCase>& all) {
  struct Shape {
    int64_t channels;
    int64_t taps;
    bool bias;
    bool silu;
    int64_t at;
    bool apart;  ///< weights [taps, 1, channels]
    int32_t dilation = 1;

    int64_t kept() const { return (taps - 1) * dilation; }
  };
  for (const Shape& shape : {Shape{64, 4, true, true, 0, false},
                             {131, 3, false, false, 48, true},
                             {7, 2, true, false, 0, false},
                             {300, 5, false, true, 0, false},
                             {96, 4, false, true, 16, false, 3},
                             {67, 3, true, false, 0, false, 7}}) {
    for (const auto& [rows, sequences] : {std::pair{1, 1}, {2, 1}, {3, 3}, {33, 2}, {70, 1}}) {
      OpCase c;
      c.name = std::to_string(shape.taps) + " taps of " + std::to_string(shape.channels) +
               (shape.dilation > 1 ? " dilation " + std::to_string(shape.dilation) : "") +
               " rows " + std::to_string(rows) + " sequences " + std::to_string(sequences);
      c.rows = rows;
      c.sequences = sequences;
      c.kv.layers = {state_shape(shape.at + shape.kept() * shape.channels)};
      c.build = [shape](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        const ValueId x = g.slice(b.activations(shape.channels + 5), 2, shape.channels);
        const int64_t n = shape.channels;
        const ValueId w = shape.apart ? b.weight(DType::f32, shape.taps, 1, n)
                                      : b.weight(DType::f32, shape.taps, n);
        const ValueId bias = shape.bias ? b.weight(DType::f32, shape.channels) : kNoValue;
        g.output(g.add(op::CausalConv{0, shape.silu, shape.at, shape.dilation},
                       {x, w, bias, g.input(StepInput::slots), g.input(StepInput::sequences)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& causal_conv_op() {
  static const OpDef def{OpId::CausalConv, "causal_conv", infer, reference, cases};
  return def;
}

}  // namespace infer
