#include "engine/model/tower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "engine/model/mapped_source.h"
#include "engine/model/tower_checkpoint.h"
#include "engine/quant/quant.h"

namespace infer {

void Tower::read_pixels(HparamReader& r) {
  const auto read = [&](const char* part, std::array<float, 3>& to, bool divides) {
    const std::string key = r.architecture() + "." + part;
    const auto found = r.metadata().get_floats(key);
    if (!found) return r.set_error(found.error());
    if (!*found) return;
    const std::vector<float>& values = **found;
    bool good = values.size() == to.size();
    for (const float value : values) good = good && std::isfinite(value) && (!divides || value > 0);
    if (!good) {
      return r.set_error(error(StatusCode::bad_file, "{}: {}: expected 3 numbers{}",
                               r.metadata().source(), key, divides ? " above 0" : ""));
    }
    std::ranges::copy(values, to.begin());
  };
  read("vision.image_mean", tower_.mean, false);
  read("vision.image_std", tower_.deviation, true);
  tower_.patch = r.need_int("vision.patch_size", 1, 256);
}

Result<TowerPictures> Tower::pictures(const Image& image, int64_t most) const {
  INFER_TRY(const ImageSize size, fit({image.width, image.height}, most));
  INFER_TRY(Image scaled, resize(image, size.width, size.height, tower_.filter));
  TowerPictures made;
  made.pictures.push_back(std::move(scaled));
  return made;
}

namespace {

/// Turns the view of a whole matrix; what it is then.
Result<TensorDesc> transposed(const std::string& path, const Weight& weight, TensorView& view) {
  if (is_quantised(weight.desc.type)) {
    return fail(StatusCode::unsupported, "{}: tensor '{}': expected F32, F16 or BF16, found {}",
                path, weight.name, to_string(weight.desc));
  }
  view = view.swapped(0, 1);
  return make_tensor(weight.desc.type, view.shape);
}

/// A matrix whose columns are those of merged patches element by element, or a convolution over
/// them, whose kernels are: a view of it patch by patch. `desc`: what it is then.
Result<TensorView> sorted_by_patch(const std::string& path, std::span<const Weight> all, size_t i,
                                   const Metadata& metadata, TensorDesc& desc) {
  const Weight& weight = all[i];
  INFER_TRY(const std::optional<int64_t> side,
            metadata.get_int("clip.vision.spatial_merge_size", 1, 8));
  const auto& shape = weight.desc.shape;
  const bool kernels = shape[2] * shape[3] > 1;
  const int64_t patches = kernels ? shape[0] * shape[1] : side.value_or(1) * side.value_or(1);
  const int64_t columns = kernels ? patches * shape[2] : shape[0];
  if (is_quantised(weight.desc.type) || columns % patches != 0 || patches > 64) {
    return fail(StatusCode::unsupported,
                "{}: tensor '{}': expected F32, F16 or BF16 with columns for {} patches, found {}",
                path, weight.name, patches, to_string(weight.desc));
  }
  const int64_t rows = kernels ? shape[3] : shape[1];
  if (kernels) {
    const std::array<int64_t, 2> matrix{columns, rows};
    INFER_TRY(desc, make_tensor(weight.desc.type, matrix));
  }
  const std::array<int64_t, kMaxDims> by_element{patches, columns / patches, rows, 1};
  return TensorView::whole(static_cast<int32_t>(i), by_element).swapped(0, 1);
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_tower(const std::string& path) {
  INFER_TRY(std::unique_ptr<WeightSource> raw, open_model(path, ModelParts::weights));
  if (raw->metadata().has("hf.checkpoint")) return map_tower(std::move(raw));
  Metadata metadata = raw->metadata();
  INFER_TRY(const std::optional<std::string> name, metadata.get_string("general.architecture"));
  if (name.value_or("") != "clip") {
    return fail(StatusCode::bad_file,
                "{}: general.architecture: expected clip, a file with a vision tower (mmproj), "
                "found {}",
                path, name ? printable(*name) : "nothing");
  }
  INFER_TRY(const std::optional<std::string> projector, metadata.get_string("clip.projector_type"));
  std::vector<MappedTensor> tensors;
  const std::span<const Weight> all = raw->weights();
  for (size_t i = 0; i < all.size(); ++i) {
    MappedTensor tensor{all[i].name, all[i].desc, {}};
    // The kernel of a second image of a video follows the first one.
    if (tensor.name == "v.patch_embd.weight.1") tensor.name = "v.patch_embd_1.weight";
    if (tensor.name.starts_with("v.patch_embd") && tensor.name.ends_with(".weight")) {
      const auto& shape = tensor.desc.shape;
      const auto area = checked_mul(shape[0], shape[1]);
      const auto inputs = area ? checked_mul(*area, shape[2]) : std::nullopt;
      const std::array<int64_t, 2> matrix{inputs.value_or(0), shape[3]};
      const auto made = make_tensor(tensor.desc.type, matrix);
      if (!inputs || !made) {
        return fail(StatusCode::bad_file,
                    "{}: tensor '{}': expected rows of whole blocks, found {}", path, all[i].name,
                    to_string(all[i].desc));
      }
      if (shape[3] > 1) tensor.desc = *made;
    }
    TensorView view = TensorView::whole(static_cast<int32_t>(i), tensor.desc.shape);
    if (const auto blocks = view.in_blocks(dtype_info(tensor.desc.type).block_elements)) {
      view = *blocks;
    }
    if (tensor.name == "mm.input_projection.weight" && projector == "gemma3") {
      // Stored with its rows as columns.
      INFER_TRY(tensor.desc, transposed(path, all[i], view));
    }
    if (tensor.name == "mm.patch_merger.weight") {
      INFER_TRY(view, sorted_by_patch(path, all, i, metadata, tensor.desc));
    }
    tensor.parts.push_back(view);
    tensors.push_back(std::move(tensor));
  }
  TokenizerSpec tokenizer = raw->tokenizer();
  return std::make_unique<MappedSource>(std::move(raw), std::move(metadata), std::move(tokenizer),
                                        std::move(tensors));
}

Result<std::unique_ptr<Tower>> read_tower(const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  INFER_TRY(std::optional<std::string> name, metadata.get_string("clip.projector_type"));
  // Files with a second tower, for sound, name each one's.
  if (!name) {
    INFER_TRY(name, metadata.get_string("clip.vision.projector_type"));
  }
  if (!name) {
    return fail(StatusCode::bad_file, "{}: clip.projector_type is missing", metadata.source());
  }
  std::string known;
  for (const TowerDef* tower : all_towers()) {
    for (const char* projector : tower->projectors) {
      if (*name == projector) return tower->create(source);
      known += (known.empty() ? "" : ", ") + std::string(projector);
    }
  }
  return fail(StatusCode::unsupported,
              "{}: clip.projector_type: '{}' is not supported; supported: {}", metadata.source(),
              printable(*name), known);
}

Result<std::vector<float>> read_table(const WeightSource& source, const std::string& name,
                                      int64_t width, int64_t places) {
  const std::string& file = source.metadata().source();
  const Weight* weight = source.find(name);
  if (weight == nullptr) {
    return fail(StatusCode::bad_file, "{}: tensor '{}' [{}, {}] is missing", file, name, width,
                places);
  }
  const TensorDesc& desc = weight->desc;
  if (desc.shape[0] != width || desc.elements() != width * places) {
    return fail(StatusCode::bad_file, "{}: tensor '{}': expected [{}, {}], found {}", file, name,
                width, places, shape_string(desc));
  }
  std::vector<std::byte> stored(static_cast<size_t>(desc.extent_bytes()));
  INFER_CHECK_R(source.read(weight->place, 0, stored));
  std::vector<float> values(static_cast<size_t>(width * places));
  quant_traits(desc.type).decode(stored.data(), values.data(), width * places);
  return values;
}

std::vector<float> read_square(HparamReader& r, const WeightSource& source, const std::string& name,
                               int64_t width, int64_t& side) {
  const Weight* table = source.find(name);
  const int64_t places = table == nullptr ? 1 : table->desc.shape[1];
  side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(places))));
  auto values = read_table(source, name, width, side * side);
  if (values) return *std::move(values);
  r.set_error(values.error());
  return {};
}

std::vector<float> read_class_places(HparamReader& r, const WeightSource& source, int64_t width,
                                     int64_t patches) {
  constexpr const char* kBias = "v.patch_embd.bias";
  const auto read = [&](const char* name, int64_t places) -> std::vector<float> {
    auto values = read_table(source, name, width, places);
    if (values) return *std::move(values);
    r.set_error(values.error());
    return {};
  };
  std::vector<float> table = read("v.position_embd.weight", 1 + patches);
  const std::vector<float> token = read("v.class_embd", 1);
  std::vector<float> bias(static_cast<size_t>(width));
  if (source.find(kBias) != nullptr) bias = read(kBias, 1);
  if (!r.status().ok()) return {};
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] += i < token.size() ? token[i] : bias[i % bias.size()];
  }
  return table;
}

Result<std::vector<float>> read_row(const WeightSource& source, const std::string& name,
                                    int64_t row) {
  const Weight* weight = source.find(name);
  if (weight == nullptr || row < 0 || row >= weight->desc.shape[1]) {
    return fail(StatusCode::bad_file, "{}: tensor '{}': row {} is missing",
                source.metadata().source(), name, row);
  }
  const int64_t bytes = weight->desc.row_bytes();
  std::vector<std::byte> stored(static_cast<size_t>(bytes));
  INFER_CHECK_R(source.read(weight->place, static_cast<uint64_t>(row * bytes), stored));
  std::vector<float> values(static_cast<size_t>(weight->desc.shape[0]));
  quant_traits(weight->desc.type).decode(stored.data(), values.data(), weight->desc.shape[0]);
  return values;
}

}  // namespace infer
