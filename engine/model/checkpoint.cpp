#include "engine/model/checkpoint.h"

#include <algorithm>

#include "engine/core/file.h"
#include "engine/model/arch.h"
#include "engine/model/matrix_type.h"

namespace infer {
namespace {

constexpr const char* kArchitectures = "hf.config.architectures";

/// What may stand before "embed_tokens.weight".
constexpr const char* kRoots[] = {"model.", "language_model.model.", "model.language_model.", ""};

/// Where the columns of a matrix come from (builder.h).
constexpr const char* kOrder = ".order";

}  // namespace

CheckpointMap::CheckpointMap(std::unique_ptr<WeightSource> raw, std::optional<DType> matrices)
    : raw_(std::move(raw)),
      matrices_(matrices),
      config_values_(raw_->metadata()),
      metadata_(raw_->metadata().source()),
      used_(raw_->weights().size()) {
  tokenizer_ = raw_->tokenizer();
  const std::span<const Weight> all = raw_->weights();
  for (size_t i = 0; i < all.size(); ++i) by_name_.emplace(all[i].name, static_cast<int32_t>(i));
  config_ = config_values_.has("hf.config.text_config.num_hidden_layers") ? "hf.config.text_config."
                                                                          : "hf.config.";
  for (const char* root : kRoots) {
    if (!by_name_.contains(std::string(root) + "embed_tokens.weight")) continue;
    root_ = root;
    break;
  }
  const Result<const std::vector<std::string>*> names = config_values_.get_strings(kArchitectures);
  if (names && *names != nullptr) checkpoint_ = (*names)->front();
}

void CheckpointMap::fail_with(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void CheckpointMap::require(bool holds, const std::string& what) {
  if (holds) return;
  fail_with(error(StatusCode::unsupported, "{}: {}: {} is not supported", metadata_.source(),
                  printable(checkpoint_), what));
}

bool CheckpointMap::has(std::string_view name) const { return config_values_.has(key(name)); }

int64_t CheckpointMap::need_int(const std::string& name, int64_t min, int64_t max) {
  if (!has(name)) {
    fail_with(
        error(StatusCode::bad_file, "{}: key '{}' is missing", metadata_.source(), key(name)));
  }
  return get_int(name, min, min, max);
}

int64_t CheckpointMap::get_int(const std::string& name, int64_t absent, int64_t min, int64_t max) {
  return take(config_values_.get_int(key(name), min, max), absent);
}

double CheckpointMap::get_float(const std::string& name, double absent) {
  return take(config_values_.get_float(key(name)), absent);
}

bool CheckpointMap::get_bool(const std::string& name, bool absent) {
  return take(config_values_.get_bool(key(name)), absent);
}

std::string CheckpointMap::get_string(const std::string& name, const std::string& absent) {
  return take(config_values_.get_string(key(name)), absent);
}

std::vector<float> CheckpointMap::get_floats(const std::string& name) {
  return take(config_values_.get_floats(key(name)), {});
}

std::vector<int64_t> CheckpointMap::get_ints(const std::string& name) {
  return take(config_values_.get_ints(key(name), INT64_MIN, INT64_MAX), {});
}

void CheckpointMap::assume(const std::string& name, MetaValue value) {
  if (!has(name)) config_values_.set(key(name), std::move(value));
}

void CheckpointMap::set_int(const std::string& name, int64_t value) {
  set(name, static_cast<uint32_t>(value));
}
void CheckpointMap::set_float(const std::string& name, double value) {
  set(name, static_cast<float>(value));
}
void CheckpointMap::set_bool(const std::string& name, bool value) { set(name, value); }
void CheckpointMap::set_string(const std::string& name, const std::string& value) {
  set(name, value);
}

// Tensors

std::string CheckpointMap::layer(int64_t layer, const std::string& part) {
  return fmt::format("layers.{}.{}", layer, part);
}

std::string CheckpointMap::full_name(const std::string& name) const {
  // The output stands outside of the decoder.
  if (!name.starts_with("lm_head.")) return root_ + name;
  return root_ == "language_model.model." ? "language_model." + name : name;
}

int32_t CheckpointMap::find(const std::string& name) const {
  const auto it = by_name_.find(full_name(name));
  return it == by_name_.end() ? -1 : it->second;
}

bool CheckpointMap::has_tensor(const std::string& name) const { return find(name) >= 0; }

std::array<int64_t, kMaxDims> CheckpointMap::shape_of(const std::string& name) const {
  const int32_t index = find(name);
  if (index < 0) return {1, 1, 1, 1};
  return raw_->weights()[static_cast<size_t>(index)].desc.shape;
}

TensorView CheckpointMap::view(const std::string& name, std::initializer_list<int64_t> shape) {
  std::array<int64_t, kMaxDims> full{1, 1, 1, 1};
  std::copy(shape.begin(), shape.end(), full.begin());
  const int32_t index = find(name);
  if (index < 0) {
    fail_with(error(StatusCode::bad_file, "{}: tensor '{}' is missing", metadata_.source(),
                    printable(full_name(name))));
    return {};
  }
  used_[static_cast<size_t>(index)] = true;
  const Weight& weight = raw_->weights()[static_cast<size_t>(index)];
  // By way of make_tensor, which checks the product.
  const Result<TensorDesc> wanted = make_tensor(weight.desc.type, full);
  if (!wanted || wanted->elements() != weight.desc.elements()) {
    fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected {}, found {}",
                    metadata_.source(), printable(weight.name),
                    wanted ? shape_string(*wanted) : wanted.error().message(),
                    shape_string(weight.desc)));
    return {};
  }
  return TensorView::whole(index, full);
}

void CheckpointMap::add(MappedTensor tensor, DType stored, std::span<const int64_t> shape) {
  if (!status_.ok()) return;
  constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
  const bool order = tensor.name.ends_with(kOrder) && stored == DType::i32;
  const auto refuse = [&](const char* expected) {
    fail_with(error(StatusCode::unsupported, "{}: tensor '{}': expected {}, found {}",
                    metadata_.source(),
                    printable(raw_->weights()[static_cast<size_t>(tensor.parts[0].weight)].name),
                    expected, dtype_info(stored).name));
  };
  if (tensor.scales < 0 && !order && !is_quantised(stored) &&
      std::ranges::find(kFloats, stored) == std::end(kFloats)) {
    return refuse("floating point");
  }
  if (is_quantised(stored)) {
    for (TensorView& part : tensor.parts) {
      const auto blocks = part.in_blocks(dtype_info(stored).block_elements);
      if (!blocks) return refuse("floating point, because its columns have to be split");
      part = *blocks;
    }
  }
  DType type = DType::mxfp4;
  if (tensor.scales < 0) type = order ? stored : type_of(tensor.name, stored, shape);
  const Result<TensorDesc> desc = make_tensor(type, shape);
  if (!desc) {
    fail_with(error(StatusCode::bad_file, "{}: tensor '{}': {}", metadata_.source(), tensor.name,
                    desc.error().message()));
    return;
  }
  tensor.desc = *desc;
  if (desc->rows() > 1) elements_[type] += desc->elements();
  tensors_.push_back(std::move(tensor));
}

DType CheckpointMap::type_of(const std::string& to, DType stored,
                             std::span<const int64_t> shape) const {
  if (!is_matrix(to, shape)) return DType::f32;
  if (matrices_) return matrix_type(to, stored, shape, *matrices_);
  return stored == DType::f64 ? DType::f32 : stored;
}

void CheckpointMap::put(const std::string& to, const TensorView& view, Change change) {
  if (!status_.ok()) return;
  const Weight& weight = raw_->weights()[static_cast<size_t>(view.weight)];
  std::array<int64_t, kMaxDims> shape = view.shape;
  TensorView changed = view;
  if (change == Change::interleave_q || change == Change::interleave_k) {
    const int64_t heads = change == Change::interleave_q ? heads_ : kv_heads_;
    const bool matrix = view.shape[1] != 1;
    const int64_t width = matrix ? view.shape[0] : 1;  // a bias has one element a row
    const int64_t rows = view.size() / width;
    if (rows % (2 * heads) != 0) {
      fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected rows for {} heads, found {}",
                      metadata_.source(), printable(weight.name), heads, rows));
      return;
    }
    changed = TensorView::whole(view.weight, {width, rows / heads / 2, 2, heads}).swapped(1, 2);
  }
  MappedTensor tensor{to, {}, {changed}};
  if (change == Change::add_one) tensor.add = 1;
  add(std::move(tensor), weight.desc.type, shape);
}

void CheckpointMap::put_stacked(const std::string& to, std::vector<TensorView> parts) {
  if (!status_.ok() || parts.empty()) return;
  const std::span<const Weight> all = raw_->weights();
  const Weight& first = all[static_cast<size_t>(parts[0].weight)];
  for (const TensorView& part : parts) {
    const Weight& weight = all[static_cast<size_t>(part.weight)];
    if (part.shape == parts[0].shape && weight.desc.type == first.desc.type) continue;
    fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected {} like '{}', found {}",
                    metadata_.source(), printable(weight.name), to_string(first.desc),
                    printable(first.name), to_string(weight.desc)));
    return;
  }
  const std::array<int64_t, 3> shape{parts[0].shape[0], parts[0].shape[1],
                                     static_cast<int64_t>(parts.size())};
  add({to, {}, std::move(parts)}, first.desc.type, shape);
}

void CheckpointMap::put_values(const std::string& to, std::vector<float> values) {
  const std::array<int64_t, 1> shape{static_cast<int64_t>(values.size())};
  MappedTensor tensor{to, {}, {}};
  tensor.values = std::move(values);
  add(std::move(tensor), DType::f32, shape);
}

TensorView CheckpointMap::view_mxfp4(const std::string& codes, const std::string& scales) {
  const std::array<int64_t, kMaxDims> found = shape_of(codes);
  const std::array<int64_t, kMaxDims> blocks{found[1], found[2], found[3], 1};
  const TensorView bytes = view(codes, {kMxfp4CodeBytes, found[1], found[2], found[3]});
  const TensorView each = view(scales, {blocks[0], blocks[1], blocks[2]});
  if (!status_.ok()) return {};
  for (const TensorView& v : {bytes, each}) {
    const Weight& weight = raw_->weights()[static_cast<size_t>(v.weight)];
    if (weight.desc.type == DType::i8) continue;
    fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected bytes, found {}",
                    metadata_.source(), printable(weight.name), to_string(weight.desc)));
  }
  return TensorView::whole(bytes.weight, blocks);
}

void CheckpointMap::put_mxfp4(const std::string& to, const TensorView& blocks,
                              const std::string& scales) {
  if (!status_.ok()) return;
  MappedTensor tensor{to, {}, {blocks}};
  tensor.scales = find(scales);
  const int64_t elements = dtype_info(DType::mxfp4).block_elements;
  const std::array<int64_t, 3> shape{blocks.shape[0] * elements, blocks.shape[1], blocks.shape[2]};
  add(std::move(tensor), DType::i8, shape);
}

void CheckpointMap::copy(const std::string& from, const std::string& to, Change change) {
  const int32_t index = find(from);
  if (index < 0) return;
  used_[static_cast<size_t>(index)] = true;
  put(to, TensorView::whole(index, raw_->weights()[static_cast<size_t>(index)].desc.shape), change);
}

void CheckpointMap::layers(std::initializer_list<TensorName> names) {
  for (int64_t i = 0; i < layers_; ++i) {
    for (const TensorName& name : names) {
      const std::string to = fmt::format("blk.{}.{}", i, name.to);
      copy(layer(i, name.from) + ".weight", to + ".weight", name.change);
      copy(layer(i, name.from) + ".bias", to + ".bias", name.change);
      copy(layer(i, name.from) + kOrder, to + kOrder);
    }
  }
}

void CheckpointMap::attention(bool interleave) {
  layers({{"self_attn.q_proj", "attn_q", interleave ? Change::interleave_q : Change::none},
          {"self_attn.k_proj", "attn_k", interleave ? Change::interleave_k : Change::none},
          {"self_attn.v_proj", "attn_v"},
          {"self_attn.o_proj", "attn_output"}});
}

void CheckpointMap::feed_forward() {
  layers({{"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}});
}

void CheckpointMap::ends(Change norms) {
  copy("embed_tokens.weight", "token_embd.weight");
  copy("norm.weight", "output_norm.weight", norms);
  const bool said = has("tie_word_embeddings");
  const bool tied = get_bool("tie_word_embeddings", !has_tensor("lm_head.weight"));
  if (said && tied) {
    // Some writers store the embedding a second time.
    if (const int32_t head = find("lm_head.weight"); head >= 0) {
      used_[static_cast<size_t>(head)] = true;
    }
    return;
  }
  if (!tied) {
    const std::array<int64_t, kMaxDims> shape = shape_of("lm_head.weight");
    put("output.weight", view("lm_head.weight", {shape[0], shape[1]}));
    copy("lm_head.bias", "output.bias");
  }
}

void CheckpointMap::split_rows(const std::string& from, const std::string& first,
                               const std::string& second) {
  const std::array<int64_t, kMaxDims> shape = shape_of(from);
  const TensorView both = view(from, {shape[0], shape[1], shape[2]});
  if (status_.ok() && shape[1] % 2 != 0) {
    fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected two halves, found {} rows",
                    metadata_.source(), printable(full_name(from)), shape[1]));
  }
  put(first, both.sliced(1, 0, shape[1] / 2));
  put(second, both.sliced(1, shape[1] / 2, shape[1] / 2));
}

void CheckpointMap::experts(int64_t layer_index, const std::string& in, int64_t count,
                            const ExpertNames& names) {
  const std::string from = layer(layer_index, in) + ".";
  const std::string to = fmt::format("blk.{}.ffn_", layer_index);
  if (has_tensor(from + "gate_up_proj")) {
    split_rows(from + "gate_up_proj", to + "gate_exps.weight", to + "up_exps.weight");
    const std::array<int64_t, kMaxDims> shape = shape_of(from + "down_proj");
    put(to + "down_exps.weight", view(from + "down_proj", {shape[0], shape[1], shape[2]}));
    return;
  }
  const auto stack = [&](const char* part, const char* name) {
    std::vector<TensorView> parts;
    for (int64_t e = 0; e < count && status_.ok(); ++e) {
      const std::string tensor = fmt::format("{}{}.{}.weight", from, e, part);
      const std::array<int64_t, kMaxDims> shape = shape_of(tensor);
      parts.push_back(view(tensor, {shape[0], shape[1]}));
    }
    put_stacked(to + name, std::move(parts));
  };
  stack(names.gate, "gate_exps.weight");
  stack(names.up, "up_exps.weight");
  stack(names.down, "down_exps.weight");
}

bool CheckpointMap::is_ignored(const std::string& name) const {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;  // follows from the configuration
  return std::ranges::any_of(ignored_prefixes_, [&](const std::string& prefix) {
    return name.starts_with(root_ + prefix) || name.starts_with(prefix);
  });
}

Result<std::unique_ptr<WeightSource>> CheckpointMap::result() {
  const std::span<const Weight> all = raw_->weights();
  for (size_t i = 0; i < all.size() && status_.ok(); ++i) {
    if (used_[i] || is_ignored(all[i].name)) continue;
    fail_with(error(StatusCode::unsupported, "{}: tensor '{}' has no place in a {}",
                    metadata_.source(), printable(all[i].name), printable(checkpoint_)));
  }
  add_general();
  add_generation();
  add_texts();
  if (!status_.ok()) return tl::unexpected(std::move(status_));
  return std::make_unique<MappedSource>(std::move(raw_), std::move(metadata_),
                                        std::move(tokenizer_), std::move(tensors_));
}

Result<std::unique_ptr<WeightSource>> open_weights(const std::string& path,
                                                   std::optional<DType> matrices) {
  INFER_TRY(std::unique_ptr<WeightSource> raw, open_model(path));
  const Metadata& metadata = raw->metadata();
  if (!metadata.has("hf.checkpoint")) {
    if (matrices) return with_matrices(std::move(raw), *matrices);
    return raw;
  }
  INFER_TRY(const std::vector<std::string>* names, metadata.get_strings(kArchitectures));
  if (names == nullptr || names->empty()) {
    return fail(StatusCode::bad_file, "{}: config.json: key 'architectures' is missing", path);
  }
  std::string known;
  for (const ArchDef* arch : all_architectures()) {
    for (const char* candidate : arch->checkpoints) {
      if (names->front() == candidate) {
        CheckpointMap map(std::move(raw), matrices);
        arch->map(map);
        return map.result();
      }
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
  }
  return fail(StatusCode::unsupported,
              "{}: config.json: architecture '{}' is not supported; supported: {}", path,
              printable(names->front()), known);
}

}  // namespace infer
