#include "engine/model/peft.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/file.h"
#include "engine/model/adapters.h"
#include "engine/model/arch.h"
#include "engine/model/mapped_source.h"
#include "engine/model/peft_config.h"
#include "engine/model/peft_names.h"

namespace infer {
namespace {

using Shape = std::array<int64_t, kMaxDims>;

/// PEFT may save what an adapter changes beside it.
constexpr std::pair<const char*, const char*> kUnchanged[] = {
    {".embed_tokens.base_layer.weight", kTokenTable},
    {".lm_head.base_layer.weight", kOutputMatrix}};

/// The two tensors of a module.
struct Pair {
  int32_t a = -1;
  int32_t b = -1;
  bool embedding = false;  ///< of tokens
};

/// A module of one expert.
struct OfExpert {
  int64_t expert;
  std::string module;
  Pair pair;
};

/// Makes the tensors of GGUF's adapter.
class Converter {
 public:
  Converter(const WeightSource& raw, const WeightSource& base)
      : raw_(raw), base_(base), file_(raw.metadata().source()) {}

  Status convert() {
    INFER_CHECK(read_base());
    INFER_TRY_S(config_, read_peft_config(raw_.metadata()));
    std::map<std::string, Pair> pairs;
    for (size_t i = 0; i < raw_.weights().size(); ++i) {
      const Weight& weight = raw_.weights()[i];
      if (is_unchanged(weight)) continue;
      INFER_TRY_S(const PeftName name, peft_name(file_, weight.name));
      const DType type = weight.desc.type;
      if (type != DType::f32 && type != DType::f16 && type != DType::bf16) {
        return error(StatusCode::unsupported,
                     "{}: tensor '{}': expected F32, F16 or BF16, found {}", file_,
                     printable(weight.name), dtype_info(type).name);
      }
      Pair& pair = pairs[name.module];
      pair.embedding = name.embedding;
      (name.a ? pair.a : pair.b) = static_cast<int32_t>(i);
    }
    if (pairs.empty()) {
      return error(StatusCode::bad_file, "{}: expected tensors, found none", file_);
    }
    for (const auto& [module, pair] : pairs) INFER_CHECK(put_module(module, pair));
    for (const auto& [name, experts] : stacks_) INFER_CHECK(put_stack(name, experts));
    return {};
  }

  Metadata metadata() const {
    Metadata made(file_);
    made.set("general.type", std::string("adapter"));
    made.set("general.architecture", architecture_);
    made.set("adapter.type", std::string("lora"));
    made.set("adapter.lora.alpha", config_.is_plain() ? config_.alpha : 0.0);  // zero: the rank
    return made;
  }
  std::vector<MappedTensor> take() { return std::move(tensors_); }

 private:
  Status read_base() {
    INFER_TRY_S(const ArchDef* arch, architecture_of(base_));
    layout_ = arch->layout;
    if (layout_.rescales) {
      return error(StatusCode::unsupported,
                   "{}: adapters of PEFT are not supported for a model of this architecture, whose "
                   "weights are multiplied with factors: convert the adapter to GGUF",
                   file_);
    }
    INFER_TRY_S(const auto named, base_.metadata().get_string("general.architecture"));
    architecture_ = named.value_or("");
    splits_ =
        layout_.splits_axes && base_.metadata().has(architecture_ + ".rope.dimension_sections");
    for (const auto& [name, heads] :
         {std::pair{"head_count", &heads_}, {"head_count_kv", &kv_heads_}}) {
      INFER_TRY_S(const auto found,
                  base_.metadata().get_ints(architecture_ + ".attention." + name, 0, INT32_MAX));
      *heads = found.value_or(heads_);
    }
    return {};
  }

  const Weight& raw(int32_t index) const { return raw_.weights()[static_cast<size_t>(index)]; }
  /// Of one of the model's tensors; zeros if it has none of this name.
  Shape shape_of(const std::string& name) const {
    const Weight* weight = base_.find(name);
    if (weight == nullptr && name == kOutputMatrix) weight = base_.find(kTokenTable);
    return weight == nullptr ? Shape{} : weight->desc.shape;
  }

  /// A tensor of the model itself, unless it has got further rows.
  bool is_unchanged(const Weight& weight) const {
    return std::ranges::any_of(kUnchanged, [&](const auto& known) {
      return weight.name.ends_with(known.first) && weight.desc.shape == shape_of(known.second);
    });
  }

  Status put_module(const std::string& name, const Pair& pair) {
    if (pair.a < 0 || pair.b < 0) {
      return error(StatusCode::bad_file, "{}: module '{}': lora_{} is missing", file_,
                   printable(name), pair.a < 0 ? 'A' : 'B');
    }
    const PeftModule module = peft_module(name);
    if (pair.embedding != (module.kind == PeftModule::Kind::table)) return unknown(name);
    for (const std::vector<std::string>& tensors : module.names) {
      const auto there = [&](const auto& tensor) { return shape_of(tensor)[1] > 0; };
      if (!std::ranges::all_of(tensors, there)) continue;
      switch (module.kind) {
        case PeftModule::Kind::unknown: break;
        case PeftModule::Kind::table: return put_table(name, pair);
        case PeftModule::Kind::matrix: return put_rows(name, pair, tensors, module.layer);
        case PeftModule::Kind::experts: return put_experts(name, pair, tensors);
        case PeftModule::Kind::expert:
          if (module.expert >= shape_of(tensors[0])[2]) break;
          stacks_[tensors[0]].push_back({module.expert, name, pair});
          return {};
      }
    }
    return unknown(name);
  }

  Status unknown(const std::string& module) const {
    return error(StatusCode::unsupported,
                 "{}: module '{}': the model has no such module, or stores its weights in "
                 "another order: convert the adapter to GGUF",
                 file_, printable(module));
  }

  /// `factors`: of each part, or none.
  Status add(const std::string& name, std::vector<TensorView> parts, const Shape& shape,
             std::vector<float> factors = {}) {
    DType type = raw(parts[0].weight).desc.type;
    MappedTensor tensor{name, {}, std::move(parts)};
    if (std::ranges::any_of(factors, [](float f) { return f != 1; })) {
      tensor.factors = std::move(factors);
      type = DType::f32;
    }
    INFER_TRY_S(tensor.desc, make_tensor(type, shape));
    tensors_.push_back(std::move(tensor));
    return {};
  }
  float factor(const std::string& module, int64_t rank) const {
    return config_.is_plain() ? 1 : config_.scale(module, rank);
  }

  /// A has a column for each token, where GGUF's has a row.
  Status put_table(const std::string& module, const Pair& pair) {
    const std::string name = kTokenTable;
    const TensorView turned = TensorView::whole(pair.a, raw(pair.a).desc.shape).swapped(0, 1);
    const Shape b = raw(pair.b).desc.shape;
    INFER_CHECK(add(name + kLoraA, {turned}, turned.shape));
    return add(name + kLoraB, {TensorView::whole(pair.b, b)}, b, {factor(module, b[0])});
  }

  /// The rows of B are those of the tensors `names`, one after the other.
  Status put_rows(const std::string& module, const Pair& pair,
                  const std::vector<std::string>& names, int64_t layer) {
    const Shape a = raw(pair.a).desc.shape;
    const Shape b = raw(pair.b).desc.shape;
    const int64_t rank = b[0];
    int64_t rows = 0;
    for (const std::string& name : names) rows += shape_of(name)[1];
    if (b[1] != rows) return expected_rows(pair, rows);
    int64_t first = 0;
    for (const std::string& name : names) {
      if (splits_ && (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight"))) {
        return error(StatusCode::unsupported,
                     "{}: module '{}': adapters of PEFT for queries and keys of a model of this "
                     "architecture that sees are not supported: convert the adapter to GGUF",
                     file_, printable(module));
      }
      const int64_t count = shape_of(name)[1];
      TensorView view = TensorView::whole(pair.b, b).sliced(1, first, count);
      const int64_t heads = interleaved_heads(name, layer);
      if (heads > 0 && count % (2 * heads) == 0) {
        const int64_t offset = view.offset;
        view = TensorView::whole(pair.b, {rank, count / heads / 2, 2, heads}).swapped(1, 2);
        view.offset = offset;
      }
      INFER_CHECK(add(name + kLoraA, {TensorView::whole(pair.a, a)}, a));
      INFER_CHECK(add(name + kLoraB, {view}, {rank, count, 1, 1}, {factor(module, rank)}));
      first += count;
    }
    return {};
  }

  /// A [k, rank · experts] has the rows of one expert after those of the other; in a row of
  /// B [rank · experts, n] the experts take turns. Gate and up are one parameter, down is one.
  Status put_experts(const std::string& module, const Pair& pair,
                     const std::vector<std::string>& tensors) {
    const std::string& gate = tensors[0];
    const std::string& up = tensors[1];
    const std::string& down = tensors[2];
    const Shape a = raw(pair.a).desc.shape;
    const Shape b = raw(pair.b).desc.shape;
    const Shape one = shape_of(up);
    const int64_t experts = one[2];
    if (shape_of(gate) != one || shape_of(down)[2] != experts) return unknown(module);
    if (a[1] != b[0] || b[0] % experts != 0) {
      return error(StatusCode::bad_file, "{}: tensor '{}': expected a rank of {} experts, found {}",
                   file_, printable(raw(pair.b).name), experts, shape_string(raw(pair.b).desc));
    }
    const int64_t rank = b[0] / experts;
    const bool both = a[0] == one[0] && b[1] == 2 * one[1];
    if (!both && b[1] != one[0]) return expected_rows(pair, one[0]);
    const bool turns = layout_.gate_up_in_turns;
    const std::string parameter = peft_parameter(module, both ? "gate_up_proj" : "down_proj");
    const auto put = [&](const std::string& name, int64_t first, int64_t rows,
                         int64_t step) -> Status {
      TensorView view{pair.b, first * b[0], {rank, rows, experts, 1}, {experts, step * b[0], 1, 1}};
      const Shape whole{a[0], rank, experts, 1};
      INFER_CHECK(add(name + kLoraA, {TensorView::whole(pair.a, whole)}, whole));
      return add(name + kLoraB, {view}, view.shape, {factor(parameter, rank)});
    };
    if (!both) return put(down, 0, b[1], 1);
    INFER_CHECK(put(gate, 0, one[1], turns ? 2 : 1));
    return put(up, turns ? 1 : one[1], one[1], turns ? 2 : 1);
  }

  /// The experts of one tensor, each of which is a module of its own.
  Status put_stack(const std::string& name, std::vector<OfExpert> experts) {
    const int64_t count = shape_of(name)[2];
    std::ranges::sort(experts, {}, &OfExpert::expert);
    const OfExpert& first = experts.front();
    const auto alike = [&](int32_t a, int32_t b) {
      return raw(a).desc.shape == raw(b).desc.shape && raw(a).desc.type == raw(b).desc.type;
    };
    std::vector<TensorView> a;
    std::vector<TensorView> b;
    std::vector<float> factors;
    const bool complete = [&] {
      for (size_t i = 0; i < experts.size(); ++i) {
        if (experts[i].expert != static_cast<int64_t>(i)) return false;
      }
      return std::ssize(experts) == count;
    }();
    if (!complete) {
      return error(StatusCode::unsupported,
                   "{}: module '{}': expected an adapter of each of {} experts, found {}", file_,
                   printable(first.module), count, experts.size());
    }
    for (const OfExpert& each : experts) {
      if (!alike(each.pair.a, first.pair.a) || !alike(each.pair.b, first.pair.b)) {
        return error(StatusCode::unsupported,
                     "{}: module '{}': expected the rank and type of '{}': experts that differ are "
                     "not supported",
                     file_, printable(each.module), printable(first.module));
      }
      a.push_back(TensorView::whole(each.pair.a, raw(each.pair.a).desc.shape));
      b.push_back(TensorView::whole(each.pair.b, raw(each.pair.b).desc.shape));
      factors.push_back(factor(each.module, b.back().shape[0]));
    }
    const Shape shape_a{a[0].shape[0], a[0].shape[1], count, 1};
    const Shape shape_b{b[0].shape[0], b[0].shape[1], count, 1};
    INFER_CHECK(add(name + kLoraA, std::move(a), shape_a));
    return add(name + kLoraB, std::move(b), shape_b, std::move(factors));
  }

  Status expected_rows(const Pair& pair, int64_t rows) const {
    return error(StatusCode::bad_file, "{}: tensor '{}': expected {} rows, found {}", file_,
                 printable(raw(pair.b).name), rows, shape_string(raw(pair.b).desc));
  }

  /// Of a tensor whose rows GGUF has in another order; 0: of any other.
  int64_t interleaved_heads(const std::string& name, int64_t layer) const {
    const bool queries = name.ends_with(".attn_q.weight");
    if (!layout_.interleaves || (!queries && !name.ends_with(".attn_k.weight"))) return 0;
    const std::vector<int64_t>& heads = queries ? heads_ : kv_heads_;
    const size_t at = heads.size() == 1 ? 0 : static_cast<size_t>(layer);
    return at < heads.size() ? heads[at] : 0;
  }

  const WeightSource& raw_;
  const WeightSource& base_;
  const std::string file_;
  PeftConfig config_;
  std::string architecture_;
  ArchDef::Layout layout_;
  bool splits_ = false;                                  ///< Layout::splits_axes, of this model
  std::vector<int64_t> heads_, kv_heads_;                ///< by layer, or one for all
  std::map<std::string, std::vector<OfExpert>> stacks_;  ///< by the model's tensor
  std::vector<MappedTensor> tensors_;
};

}  // namespace

Result<std::unique_ptr<WeightSource>> from_peft(std::unique_ptr<WeightSource> raw,
                                                const WeightSource& base) {
  Converter converter(*raw, base);
  INFER_CHECK_R(converter.convert());
  return std::make_unique<MappedSource>(std::move(raw), converter.metadata(), TokenizerSpec{},
                                        converter.take());
}

}  // namespace infer
