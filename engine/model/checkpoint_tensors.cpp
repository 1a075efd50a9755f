#include "engine/model/checkpoint_tensors.h"

#include <algorithm>
#include <bit>

#include "engine/core/file.h"
#include "engine/model/matrix_type.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

/// The tables of tokens, and what may stand before them.
constexpr int64_t kMostIntegers = int64_t{1} << 26;
constexpr const char* kTables[] = {"embed_tokens.weight",
                                   "embed.weight",
                                   "word_embeddings.weight",
                                   "tok_embeddings.weight",
                                   "embeddings.word_embeddings.weight",
                                   "embeddings.tok_embeddings.weight",
                                   "embeddings.weight",
                                   "token_embeddings.weight",
                                   "embedding.weight",
                                   "embed_in.weight",
                                   "wte.weight",
                                   "encoder.weight"};
constexpr const char* kRoots[] = {
    "model.",          "ernie.",   "language_model.model.", "model.language_model.", "backbone.",
    "bert.",           "roberta.", "model.text_model.",     "transformer.",          "gpt_neox.",
    "model.backbone.", ""};
/// What stands outside of the part that these are the beginning of.
constexpr const char* kOutside[] = {"lm_head.", "output.", "classifier.", "dense.", "embed_out.",
                                    "score.",   "head.",   "sentence.",   "mtp."};
/// What reads images and sound, of which texts need nothing.
constexpr const char* kTowers[] = {
    "vision_tower.", "vision_model.",        "multi_modal_projector.",
    "visual.",       "audio_tower.",         "embed_vision.",
    "embed_audio.",  "vision_adapter.",      "vision_projection.",
    "connector.",    "vit_large_projector.", "mlp1.",
    "image_newline", "mm_projector.",        "mlp_AR.",
    "merger."};

}  // namespace

std::string layer_name(int64_t layer, const std::string& part) {
  return fmt::format("layers.{}.{}", layer, part);
}

CheckpointTensors::CheckpointTensors(const WeightSource& raw, CheckpointConfig& config,
                                     std::string root)
    : raw_(raw), config_(config), used_(raw.weights().size()), root_(std::move(root)) {
  const std::span<const Weight> all = raw_.weights();
  for (size_t i = 0; i < all.size(); ++i) by_name_.emplace(all[i].name, static_cast<int32_t>(i));
}

CheckpointTensors::CheckpointTensors(const WeightSource& raw, CheckpointConfig& config,
                                     std::optional<DType> matrices)
    : CheckpointTensors(raw, config, std::string()) {
  matrices_ = matrices;
  const std::span<const Weight> all = raw_.weights();
  const auto holds_table = [&](const char* root) {
    return std::ranges::any_of(
        kTables, [&](const char* table) { return by_name_.contains(std::string(root) + table); });
  };
  const auto holds_layers = [&](const char* root) {
    const std::string begin = std::string(root) + "layers.";
    return std::ranges::any_of(all, [&](const Weight& w) { return w.name.starts_with(begin); });
  };
  const auto* root = std::ranges::find_if(kRoots, holds_table);
  // So that a file without its table is told of that, and not of all that it has.
  if (root == std::end(kRoots)) root = std::ranges::find_if(kRoots, holds_layers);
  if (root != std::end(kRoots)) root_ = *root;
}

void CheckpointTensors::set_heads(int64_t queries, int64_t keys) {
  heads_ = queries;
  kv_heads_ = keys;
}

std::string CheckpointTensors::full_name(const std::string& name) const {
  const bool outside =
      std::ranges::any_of(kOutside, [&](const char* prefix) { return name.starts_with(prefix); });
  if (!outside) return root_ + name;
  const bool logits = name.starts_with("lm_head.") || name.starts_with("output.");
  if (logits && root_ == "language_model.model.") return "language_model." + name;
  return logits && root_ == "model.backbone." ? "model." + name : name;
}

int32_t CheckpointTensors::find(const std::string& name) const {
  for (const std::string& full : {full_name(name), root_ + name}) {
    if (const auto it = by_name_.find(full); it != by_name_.end()) return it->second;
  }
  return -1;
}

void CheckpointTensors::also_named(const std::string& prefix, const std::string& as) {
  for (size_t i = 0; i < raw_.weights().size(); ++i) {
    const std::string& name = raw_.weights()[i].name;
    std::string begin = full_name(prefix);
    if (!name.starts_with(begin)) begin = root_ + prefix;
    if (!name.starts_with(begin)) continue;
    other_names_.push_back(full_name(as + name.substr(begin.size())));
    by_name_.emplace(other_names_.back(), static_cast<int32_t>(i));
  }
}

std::array<int64_t, kMaxDims> CheckpointTensors::shape_of(const std::string& name) const {
  const int32_t index = find(name);
  if (index < 0) return {1, 1, 1, 1};
  return raw(index).desc.shape;
}

TensorView CheckpointTensors::view(const std::string& name, std::initializer_list<int64_t> shape) {
  std::array<int64_t, kMaxDims> full{1, 1, 1, 1};
  std::copy(shape.begin(), shape.end(), full.begin());
  const int32_t index = find(name);
  if (index < 0) {
    config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}' is missing", config_.source(),
                            printable(full_name(name))));
    return {};
  }
  used_[static_cast<size_t>(index)] = true;
  const Weight& weight = raw(index);
  // By way of make_tensor, which checks the product.
  const Result<TensorDesc> wanted = make_tensor(weight.desc.type, full);
  if (!wanted || wanted->elements() != weight.desc.elements()) {
    config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected {}, found {}",
                            config_.source(), printable(weight.name),
                            wanted ? shape_string(*wanted) : wanted.error().message(),
                            shape_string(weight.desc)));
    return {};
  }
  return TensorView::whole(index, full);
}

void CheckpointTensors::add(MappedTensor tensor, DType stored, std::span<const int64_t> shape) {
  if (!ok()) return;
  constexpr DType kFloats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
  const bool order = tensor.name.ends_with(kColumnOrder) && stored == DType::i32;
  const auto refuse = [&](const char* expected) {
    config_.fail_with(error(StatusCode::unsupported, "{}: tensor '{}': expected {}, found {}",
                            config_.source(), printable(raw(tensor.parts[0].weight).name), expected,
                            dtype_info(stored).name));
  };
  if (tensor.scales < 0 && !order && !is_quantised(stored) &&
      std::ranges::find(kFloats, stored) == std::end(kFloats)) {
    return refuse("floating point");
  }
  if (is_quantised(stored)) {
    const int64_t elements = dtype_info(stored).block_elements;
    tensor.decoded = tensor.parts.size() == 1 && tensor.parts[0].shape[0] > 1 &&
                     tensor.parts[0].swapped(0, 1).in_blocks(elements);
    for (TensorView& part : tensor.parts) {
      if (tensor.decoded) break;
      const auto blocks = part.in_blocks(elements);
      if (!blocks) return refuse("floating point, because its columns have to be split");
      part = *blocks;
    }
    if (tensor.decoded) stored = DType::bf16;  // enough for what had codes of at most 8 bits
  }
  DType type = DType::mxfp4;
  if (tensor.scales < 0) type = order ? stored : type_of(tensor.name, stored, shape);
  const Result<TensorDesc> desc = make_tensor(type, shape);
  if (!desc) {
    config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}': {}", config_.source(),
                            tensor.name, desc.error().message()));
    return;
  }
  tensor.desc = *desc;
  if (desc->rows() > 1) elements_[type] += desc->elements();
  tensors_.push_back(std::move(tensor));
}

DType CheckpointTensors::type_of(const std::string& to, DType stored,
                                 std::span<const int64_t> shape) const {
  if (!is_matrix(to, shape)) return DType::f32;
  if (matrices_) return matrix_type(to, stored, shape, *matrices_);
  return stored == DType::f64 ? DType::f32 : stored;
}

void CheckpointTensors::put(const std::string& to, const TensorView& view, Change change) {
  if (!ok()) return;
  const Weight& weight = raw(view.weight);
  std::array<int64_t, kMaxDims> shape = view.shape;
  TensorView changed = view;
  if (change == Change::interleave_q || change == Change::interleave_k) {
    const int64_t heads = change == Change::interleave_q ? heads_ : kv_heads_;
    const bool matrix = view.shape[1] != 1;
    const int64_t width = matrix ? view.shape[0] : 1;  // a bias has one element a row
    const int64_t rows = view.size() / width;
    if (rows % (2 * heads) != 0) {
      config_.fail_with(error(StatusCode::bad_file,
                              "{}: tensor '{}': expected rows for {} heads, found {}",
                              config_.source(), printable(weight.name), heads, rows));
      return;
    }
    changed = TensorView::whole(view.weight, {width, rows / heads / 2, 2, heads}).swapped(1, 2);
    changed.offset = view.offset;
  }
  MappedTensor tensor{to, {}, {changed}};
  if (change == Change::add_one) tensor.add = 1;
  if (change == Change::unit_rows) {
    tensor.unit_rows = true;
    config_.require(!is_quantised(weight.desc.type), "quantised rows that are to be divided");
  }
  add(std::move(tensor), weight.desc.type, shape);
}

void CheckpointTensors::put_parts(const std::string& to, std::vector<TensorView> parts,
                                  std::initializer_list<int64_t> shape) {
  if (!ok() || parts.empty()) return;
  const DType stored = raw(parts.front().weight).desc.type;
  add({to, {}, std::move(parts)}, stored, std::span(shape.begin(), shape.size()));
}

void CheckpointTensors::put_scaled(const std::string& to, std::vector<TensorView> parts,
                                   std::vector<float> factors,
                                   std::initializer_list<int64_t> shape) {
  if (std::ranges::all_of(factors, [](float f) { return f == 1.0f; })) {
    return put_parts(to, std::move(parts), shape);
  }
  if (!ok() || parts.empty()) return;
  const DType stored = raw(parts.front().weight).desc.type;
  MappedTensor tensor{to, {}, std::move(parts)};
  tensor.factors = std::move(factors);
  if (is_quantised(stored)) {
    config_.fail_with(error(StatusCode::unsupported,
                            "{}: tensor '{}': expected floating point, found {}", config_.source(),
                            printable(raw(tensor.parts[0].weight).name), dtype_info(stored).name));
    return;
  }
  add(std::move(tensor), DType::f32, std::span(shape.begin(), shape.size()));
}

void CheckpointTensors::put_stacked(const std::string& to, std::vector<TensorView> parts) {
  if (!ok() || parts.empty()) return;
  const std::span<const Weight> all = raw_.weights();
  const Weight& first = all[static_cast<size_t>(parts[0].weight)];
  for (const TensorView& part : parts) {
    const Weight& weight = all[static_cast<size_t>(part.weight)];
    if (part.shape == parts[0].shape && weight.desc.type == first.desc.type) continue;
    config_.fail_with(error(StatusCode::bad_file,
                            "{}: tensor '{}': expected {} like '{}', found {}", config_.source(),
                            printable(weight.name), to_string(first.desc), printable(first.name),
                            to_string(weight.desc)));
    return;
  }
  const std::array<int64_t, 3> shape{parts[0].shape[0], parts[0].shape[1],
                                     static_cast<int64_t>(parts.size())};
  add({to, {}, std::move(parts)}, first.desc.type, shape);
}

void CheckpointTensors::put_values(const std::string& to, std::vector<float> values) {
  const auto size = static_cast<int64_t>(values.size());
  put_values(to, std::move(values), {size});
}

void CheckpointTensors::put_values(const std::string& to, std::vector<float> values,
                                   std::initializer_list<int64_t> shape) {
  MappedTensor tensor{to, {}, {}};
  tensor.values = std::move(values);
  add(std::move(tensor), DType::f32, std::span(shape.begin(), shape.size()));
}

void CheckpointTensors::put_integers(const std::string& to, const std::string& from,
                                     std::initializer_list<int64_t> shape) {
  const Result<TensorDesc> desc = make_tensor(DType::i32, std::span(shape.begin(), shape.size()));
  if (!desc || desc->elements() > kMostIntegers) {
    config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}': too many elements",
                            config_.source(), printable(from)));
    return;
  }
  const std::vector<int64_t> found = integers(from, desc->elements());
  if (!ok()) return;
  MappedTensor tensor{to, *desc, {}};
  for (const int64_t value : found) {
    if (value != static_cast<int32_t>(value)) {
      config_.fail_with(error(StatusCode::bad_file,
                              "{}: tensor '{}': expected numbers of 32 bits, found {}",
                              config_.source(), printable(from), value));
      return;
    }
    tensor.values.push_back(std::bit_cast<float>(static_cast<int32_t>(value)));
  }
  tensors_.push_back(std::move(tensor));
}

std::vector<float> CheckpointTensors::values(const std::string& name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const TensorView all = view(name, {count});
  if (!ok()) return values;
  const Weight& weight = raw(all.weight);
  if (is_quantised(weight.desc.type) || weight.desc.type == DType::i32) {
    config_.fail_with(error(StatusCode::unsupported,
                            "{}: tensor '{}': expected floating point, found {}", config_.source(),
                            printable(weight.name), to_string(weight.desc)));
    return values;
  }
  std::vector<std::byte> bytes(static_cast<size_t>(weight.desc.extent_bytes()));
  Status read = raw_.read(weight.place, 0, bytes);
  if (!read.ok()) config_.fail_with(std::move(read));
  quant_traits(weight.desc.type).decode(bytes.data(), values.data(), count);
  return values;
}

std::vector<int64_t> CheckpointTensors::integers(const std::string& name, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  const TensorView all = view(name, {count});
  if (!ok()) return values;
  const Weight& weight = raw(all.weight);
  if (weight.desc.type == DType::i32) {
    std::vector<int32_t> stored(values.size());
    Status read = raw_.read(weight.place, 0, std::as_writable_bytes(std::span(stored)));
    if (!read.ok()) config_.fail_with(std::move(read));
    std::ranges::copy(stored, values.begin());
    return values;
  }
  if (weight.desc.type != DType::i64) {
    config_.fail_with(error(StatusCode::unsupported,
                            "{}: tensor '{}': expected I64 or I32, found {}", config_.source(),
                            printable(weight.name), to_string(weight.desc)));
    return values;
  }
  Status read = raw_.read(weight.place, 0, std::as_writable_bytes(std::span(values)));
  if (!read.ok()) config_.fail_with(std::move(read));
  return values;
}

TensorView CheckpointTensors::view_mxfp4(const std::string& codes, const std::string& scales) {
  const std::array<int64_t, kMaxDims> found = shape_of(codes);
  const std::array<int64_t, kMaxDims> blocks{found[1], found[2], found[3], 1};
  const TensorView bytes = view(codes, {kMxfp4CodeBytes, found[1], found[2], found[3]});
  const TensorView each = view(scales, {blocks[0], blocks[1], blocks[2]});
  if (!ok()) return {};
  for (const TensorView& v : {bytes, each}) {
    const Weight& weight = raw(v.weight);
    if (weight.desc.type == DType::i8) continue;
    config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected bytes, found {}",
                            config_.source(), printable(weight.name), to_string(weight.desc)));
  }
  return TensorView::whole(bytes.weight, blocks);
}

void CheckpointTensors::put_mxfp4(const std::string& to, const TensorView& blocks,
                                  const std::string& scales) {
  if (!ok()) return;
  MappedTensor tensor{to, {}, {blocks}};
  tensor.scales = find(scales);
  const int64_t elements = dtype_info(DType::mxfp4).block_elements;
  const std::array<int64_t, 3> shape{blocks.shape[0] * elements, blocks.shape[1], blocks.shape[2]};
  add(std::move(tensor), DType::i8, shape);
}

void CheckpointTensors::copy(const std::string& from, const std::string& to, Change change) {
  const int32_t index = find(from);
  if (index < 0) return;
  used_[static_cast<size_t>(index)] = true;
  put(to, TensorView::whole(index, raw(index).desc.shape), change);
}

void CheckpointTensors::copy_rows(const std::string& from, const std::string& to, int64_t rows) {
  const std::array<int64_t, kMaxDims> shape = shape_of(from);
  if (!has(from) || shape[1] >= rows) return copy(from, to);
  const TensorView table = view(from, {shape[0], shape[1]});
  if (!ok()) return;
  TensorView others = table;
  others.shape[1] = rows - shape[1];
  others.stride[1] = 0;
  MappedTensor tensor{to, {}, {table, others}};
  const std::array<int64_t, 2> whole{shape[0], rows};
  add(std::move(tensor), raw(table.weight).desc.type, whole);
}

void CheckpointTensors::put_rows(const std::string& to, const std::string& from,
                                 std::initializer_list<int64_t> rows) {
  const std::array<int64_t, kMaxDims> shape = shape_of(from);
  const TensorView table = view(from, {shape[0], shape[1]});
  if (!ok()) return;
  MappedTensor tensor{to, {}, {}};
  for (const int64_t row : rows) {
    if (row < 0 || row >= shape[1]) {
      config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected a row {}, found {}",
                              config_.source(), printable(full_name(from)), row, shape[1]));
      return;
    }
    tensor.parts.push_back(table.sliced(1, row, 1));
  }
  const std::array<int64_t, 2> whole{shape[0], static_cast<int64_t>(rows.size())};
  add(std::move(tensor), raw(table.weight).desc.type, whole);
}

void CheckpointTensors::split_rows(const std::string& from, const std::string& first,
                                   const std::string& second) {
  const std::array<int64_t, kMaxDims> shape = shape_of(from);
  const TensorView both = view(from, {shape[0], shape[1], shape[2]});
  if (ok() && shape[1] % 2 != 0) {
    config_.fail_with(error(StatusCode::bad_file,
                            "{}: tensor '{}': expected two halves, found {} rows", config_.source(),
                            printable(full_name(from)), shape[1]));
  }
  put(first, both.sliced(1, 0, shape[1] / 2));
  put(second, both.sliced(1, shape[1] / 2, shape[1] / 2));
}

void CheckpointTensors::split_rows(const std::string& from,
                                   std::initializer_list<std::pair<std::string, int64_t>> parts) {
  if (!has(from)) return;
  const std::array<int64_t, kMaxDims> shape = shape_of(from);
  const size_t dim = shape[1] == 1 ? 0 : 1;
  const TensorView all = view(from, {shape[0], shape[1]});
  int64_t rows = 0;
  for (const auto& [name, count] : parts) rows += count;
  if (ok() && rows != shape[dim]) {
    config_.fail_with(error(StatusCode::bad_file, "{}: tensor '{}': expected {} rows, found {}",
                            config_.source(), printable(full_name(from)), rows, shape[dim]));
    return;
  }
  int64_t first = 0;
  for (const auto& [name, count] : parts) {
    put(name, all.sliced(dim, first, count));
    first += count;
  }
}

bool CheckpointTensors::is_ignored(const std::string& name) const {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;  // follows from the configuration
  return std::ranges::any_of(ignored_prefixes_, [&](const std::string& prefix) {
    return name.starts_with(root_ + prefix) || name.starts_with(prefix);
  });
}

bool CheckpointTensors::are_equal(const std::string& name, const std::string& other) {
  const int32_t a = find(name);
  const int32_t b = find(other);
  if (a < 0 || b < 0 || raw(a).desc.type != raw(b).desc.type ||
      raw(a).desc.shape != raw(b).desc.shape) {
    return false;
  }
  constexpr uint64_t kPart = 1 << 20;
  const auto size = static_cast<uint64_t>(raw(a).desc.rows() * raw(a).desc.row_bytes());
  std::vector<std::byte> of_a, of_b;
  for (uint64_t at = 0; at < size; at += kPart) {
    of_a.resize(std::min(kPart, size - at));
    of_b.resize(of_a.size());
    for (const auto& [index, to] : {std::pair(a, &of_a), std::pair(b, &of_b)}) {
      Status read = raw_.read(raw(index).place, at, *to);
      if (read.ok()) continue;
      config_.fail_with(std::move(read));
      return true;
    }
    if (of_a != of_b) return false;
  }
  return true;
}

void CheckpointTensors::ignore(const std::string& name) {
  if (const int32_t index = find(name); index >= 0) used_[static_cast<size_t>(index)] = true;
}

void CheckpointTensors::refuse_unused(size_t index) {
  if (used_[index] || is_ignored(raw_.weights()[index].name)) return;
  config_.fail_with(error(StatusCode::unsupported, "{}: tensor '{}' has no place in a {}",
                          config_.source(), printable(raw_.weights()[index].name),
                          printable(config_.checkpoint())));
}

void CheckpointTensors::require_all_used() {
  for (size_t i = 0; i < used_.size() && ok(); ++i) {
    const std::string& name = raw_.weights()[i].name;
    const bool sees = std::ranges::any_of(kTowers, [&](const std::string prefix) {
      return name.starts_with(prefix) || name.starts_with("model." + prefix);
    });
    if (!sees) refuse_unused(i);
  }
}

void CheckpointTensors::require_used(std::initializer_list<const char*> prefixes) {
  for (size_t i = 0; i < used_.size() && ok(); ++i) {
    const std::string& name = raw_.weights()[i].name;
    if (std::ranges::any_of(prefixes, [&](const char* p) { return name.starts_with(root_ + p); })) {
      refuse_unused(i);
    }
  }
}

}  // namespace infer
