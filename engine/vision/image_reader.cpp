#include "engine/vision/image_reader.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace infer {
namespace {

/// A token below 0 for a row of an image.
int32_t token_of(uint64_t image, int64_t row) {
  const uint64_t mixed = XXH3_64bits_withSeed(&row, sizeof(row), image);
  return -1 - static_cast<int32_t>(mixed >> 33);
}

}  // namespace

int64_t OpenedTower::kept_bytes() const {
  constexpr int64_t kUsual = int64_t{64} << 20;
  const TowerInfo& info = tower->tower();
  return std::max(kUsual, most_rows * info.parts * info.width * int64_t{sizeof(float)});
}

Result<ReadyImage> prepare_image(const OpenedTower& opened, std::span<const std::byte> file,
                                 std::string_view name, const PictureTextFn& tokens_of) {
  ReadyImage ready;
  INFER_TRY(const Image image, decode_image(file, name));
  Result<TowerPictures> made = opened.tower->pictures(image, opened.most_rows);
  if (!made) return fail(made.error().code(), "{}: {}", name, made.error().message());
  ready.pictures = std::move(made->pictures);
  ready.rows = std::move(made->rows);
  for (const std::string& text : made->texts) {
    INFER_TRY(ready.texts.emplace_back(), tokens_of(text));
  }
  for (const Image& picture : ready.pictures) {
    const int32_t sides[] = {picture.width, picture.height};
    const uint64_t seed = XXH3_64bits_withSeed(sides, sizeof(sides), ready.hash);
    ready.hash = XXH3_64bits_withSeed(picture.rgb.data(), picture.rgb.size(), seed);
  }
  if (!ready.rows.empty()) {  // equal pictures may be of images of two forms
    const size_t bytes = ready.rows.size() * sizeof(ready.rows[0]);
    ready.hash = XXH3_64bits_withSeed(ready.rows.data(), bytes, ready.hash);
  }
  return ready;
}

Result<std::unique_ptr<ImageReader>> ImageReader::create(const OpenedTower& opened,
                                                         std::span<Device* const> devices,
                                                         uint64_t seed) {
  INFER_TRY(auto executor, Executor::create(*opened.tower, *opened.weights, devices, opened.request,
                                            opened.plan, {}));
  return std::unique_ptr<ImageReader>(new ImageReader(opened, std::move(executor), seed));
}

Result<std::shared_ptr<const ImageRows>> ImageReader::read(const ReadyImage& image) {
  const auto known = std::ranges::find(kept_, image.hash, &Kept::hash);
  if (known != kept_.end()) {
    std::rotate(known, known + 1, kept_.end());
    return kept_.back().rows;
  }
  const TowerInfo& tower = opened_.tower->tower();
  auto rows = std::make_shared<ImageRows>();
  rows->axes = tower.axes;
  rows->width = tower.width;
  rows->parts = tower.parts;
  const auto add_text = [&](size_t i) {
    if (i >= image.texts.size()) return;
    rows->tokens.insert(rows->tokens.end(), image.texts[i].begin(), image.texts[i].end());
    rows->values.resize(rows->tokens.size() * static_cast<size_t>(tower.width * tower.parts));
  };
  for (size_t i = 0; i < image.pictures.size(); ++i) {
    add_text(i);
    INFER_CHECK_R(add_picture(image.pictures[i], image.hash ^ seed_, *rows));
  }
  add_text(image.pictures.size());
  if (!image.rows.empty()) arrange(image.rows, image.hash ^ seed_, *rows);
  std::shared_ptr<const ImageRows> read = std::move(rows);
  keep({image.hash, read});
  return read;
}

Status ImageReader::add_picture(const Image& picture, uint64_t hash, ImageRows& rows) {
  TowerStep step = opened_.tower->lay_out(picture);
  const auto patches = static_cast<int32_t>(step.positions.size());
  StepBatch batch;
  batch.tokens.assign(step.positions.size(), 0);
  batch.slots.assign(step.positions.size(), 0);
  batch.sequences.assign(step.positions.size(), 0);
  batch.text_begins.assign(step.positions.size(), 0);
  batch.text_ends.assign(step.positions.size(), patches);
  batch.positions = std::move(step.positions);
  batch.images = std::move(step.inputs);
  batch.output_rows = std::move(step.output_rows.front());
  batch.output_ends = std::move(step.output_ends);
  batch.part_begins = std::move(step.part_begins);
  batch.part_ends = std::move(step.part_ends);
  const int64_t more = opened_.tower->info().more_output_rows;
  for (int64_t i = 1; i <= more; ++i) {
    batch.more_output_rows.push_back(std::move(step.output_rows[static_cast<size_t>(i)]));
  }
  INFER_TRY_S(const std::span<const float> values, executor_->run(batch));
  rows.columns = step.grid.width;
  const auto width = static_cast<size_t>(rows.width * rows.parts);
  const std::span<const float> other = opened_.tower->line_end();
  const size_t made = std::max(step.rows.size(), batch.output_rows.size());
  rows.values.reserve(rows.values.size() + width * made);
  for (const int32_t result : step.rows) {
    const std::span<const float> row =
        result < 0 ? other : values.subspan(static_cast<size_t>(result) * width, width);
    rows.values.insert(rows.values.end(), row.begin(), row.end());
  }
  if (step.rows.empty()) rows.values.insert(rows.values.end(), values.begin(), values.end());
  while (rows.tokens.size() < rows.values.size() / width) {
    rows.tokens.push_back(token_of(hash, rows.count()));
  }
  return {};
}

void ImageReader::arrange(std::span<const int32_t> order, uint64_t hash, ImageRows& rows) const {
  const std::vector<float> results = std::exchange(rows.values, {});
  const auto width = static_cast<size_t>(rows.width * rows.parts);
  rows.values.reserve(width * order.size());
  rows.tokens.clear();
  for (const int32_t result : order) {
    const std::span<const float> row =
        result < 0 ? opened_.tower->line_end()
                   : std::span(results).subspan(static_cast<size_t>(result) * width, width);
    rows.values.insert(rows.values.end(), row.begin(), row.end());
    rows.tokens.push_back(token_of(hash, rows.count()));
  }
}

/// Lets go of the oldest ones that there is no room for.
void ImageReader::keep(const Kept& image) {
  const auto bytes = [](const Kept& kept) {
    return static_cast<int64_t>(kept.rows->values.size() * sizeof(float));
  };
  kept_.push_back(image);
  int64_t left = opened_.kept_bytes();
  auto first = kept_.end();
  while (first != kept_.begin() && left >= bytes(*(first - 1))) left -= bytes(*--first);
  kept_.erase(kept_.begin(), first);
}

}  // namespace infer
