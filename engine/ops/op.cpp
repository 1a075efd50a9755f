#include "engine/ops/op.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/quant/quant.h"

namespace infer {
namespace {

uint64_t mix(uint64_t& state) {  // SplitMix64 (Steele, Lea, Flood 2014)
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

const OpDef& op_def(OpId id) {
  static const auto table = [] {
    std::array<const OpDef*, kOpCount> by_id{};
    for (const OpDef* def : all_ops()) by_id[static_cast<size_t>(def->id)] = def;
    return by_id;
  }();
  return *table[static_cast<size_t>(id)];
}

Result<std::vector<OutputDesc>> infer_outputs(const OpParams& params, InputDescs inputs,
                                              const KvGeometry& kv) {
  return op_def(op_id(params)).infer(params, inputs, kv);
}

Status check_inputs(const char* op, InputDescs inputs, size_t count,
                    std::initializer_list<size_t> required) {
  if (inputs.size() != count) {
    return error(StatusCode::internal, "{}: expected {} inputs, found {}", op, count,
                 inputs.size());
  }
  for (const size_t i : required) {
    if (inputs[i] == nullptr) return error(StatusCode::internal, "{}: input {} is missing", op, i);
  }
  return {};
}

Status check_shape(const char* op, bool good, const char* expected, InputDescs inputs) {
  if (good) return {};
  std::string shapes;
  for (const Value* v : inputs) {
    if (!shapes.empty()) shapes += ", ";
    shapes += v == nullptr ? "none" : to_string(v->desc);
  }
  return error(StatusCode::internal, "{}: expected {}, found {}", op, expected, shapes);
}

OutputDesc made(DType type, int64_t d0, int64_t d1, const Value& rows_of) {
  return {tensor(type, d0, d1, rows_of.desc.shape[2]), rows_of.rows};
}

CaseBuilder::CaseBuilder(const OpCase& op_case, uint64_t seed)
    : graph_(infer_outputs, op_case.rows, op_case.outputs, op_case.kv),
      state_(seed),
      rows_(op_case.rows) {}

float CaseBuilder::normal() {
  // Nearly: the sum of four numbers that are as likely from 0 to 65535, about its mean.
  const uint64_t drawn = mix(state_);
  const auto part = [&](int i) { return static_cast<int32_t>(drawn >> (16 * i) & 0xffff); };
  constexpr float kOfOne = std::numbers::sqrt3_v<float> / 65536;  // 1 / standard deviation
  return static_cast<float>(part(0) + part(1) + part(2) + part(3) - 2 * 65535) * kOfOne;
}

ValueId CaseBuilder::weight(DType type, int64_t d0, int64_t d1, int64_t d2) {
  const TensorDesc desc = tensor(type, d0, d1, d2);
  std::vector<std::byte> bytes(static_cast<size_t>(desc.extent_bytes()));
  const QuantTraits& traits = quant_traits(type);
  if (traits.encode != nullptr) {
    std::vector<float> values(static_cast<size_t>(desc.elements()));
    for (float& x : values) x = normal();
    traits.encode(values.data(), bytes.data(), desc.elements());
  } else {
    // Without an encoder: random codes; blocks whose values are not moderate are drawn again.
    const DTypeInfo& info = dtype_info(type);
    std::vector<float> decoded(static_cast<size_t>(info.block_elements));
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(info.block_bytes)) {
      for (bool good = false; !good;) {
        for (int i = 0; i < info.block_bytes; ++i) bytes[at + i] = std::byte(mix(state_) >> 56);
        traits.decode(&bytes[at], decoded.data(), info.block_elements);
        good = true;
        for (const float x : decoded) good = good && std::fabs(x) < 16.0f;
      }
    }
  }
  weights_.push_back(std::move(bytes));
  return graph_.weight(static_cast<int32_t>(weights_.size() - 1), desc);
}

ValueId CaseBuilder::decays(int64_t d0, int64_t d1) {
  const ValueId made = weight(DType::f32, d0, d1);
  std::vector<std::byte>& bytes = weights_.back();
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float x = 0;
    std::memcpy(&x, &bytes[at], sizeof(x));
    x = -std::fabs(x);
    std::memcpy(&bytes[at], &x, sizeof(x));
  }
  return made;
}

ValueId CaseBuilder::activations(int64_t d0, int64_t d1, float scale) {
  const TensorDesc desc = tensor(DType::f32, d0, d1, rows_);
  std::vector<std::byte> bytes(static_cast<size_t>(desc.extent_bytes()));
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    const float x = normal() * scale;
    std::memcpy(&bytes[at], &x, sizeof(x));
  }
  inputs_.push_back(std::move(bytes));
  return graph_.data_input(static_cast<int32_t>(inputs_.size() - 1), desc, Rows::tokens);
}

ValueId CaseBuilder::indices(int64_t d0, int64_t below, int64_t least) {
  const TensorDesc desc = tensor(DType::i32, d0, 1, rows_);
  std::vector<std::byte> bytes(static_cast<size_t>(desc.extent_bytes()));
  for (size_t at = 0; at < bytes.size(); at += sizeof(int32_t)) {
    const uint64_t drawn = mix(state_) % static_cast<uint64_t>(below - least);
    const auto i = static_cast<int32_t>(least + static_cast<int64_t>(drawn));
    std::memcpy(&bytes[at], &i, sizeof(i));
  }
  inputs_.push_back(std::move(bytes));
  return graph_.data_input(static_cast<int32_t>(inputs_.size() - 1), desc, Rows::tokens);
}

}  // namespace infer
