// Reads images for a model: decodes files, and computes what the model's vision tower makes of
// them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/image/image.h"
#include "engine/model/tower.h"
#include "engine/vision/image_rows.h"

namespace infer {

/// A tower whose file has been opened, and its plan on the devices of the model that it reads for.
struct OpenedTower {
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<WeightTable> weights;
  std::unique_ptr<Tower> tower;
  int64_t most_rows = 0;  ///< of an image, for the model

  /// Bytes of images that a reader keeps: at least of one, so that what comes again is not computed
  /// again.
  int64_t kept_bytes() const;
  PlanRequest request;
  MemoryPlan plan;
};

/// An image that is ready for a tower.
struct ReadyImage {
  std::vector<Image> pictures;  ///< of TowerPictures
  /// TowerPictures::texts as tokens.
  std::vector<std::vector<int32_t>> texts;
  std::vector<int32_t> rows;  ///< TowerPictures::rows
  uint64_t hash = 0;
};

/// The tokens of a text that stands before, between or after pictures.
using PictureTextFn = std::function<Result<std::vector<int32_t>>(const std::string& text)>;

/// Decodes a PNG, JPEG or WebP file and makes of the image what the tower reads. Any thread. `name`
/// begins messages. Errors: those of decode_image(), Tower::pictures() and `tokens_of`.
Result<ReadyImage> prepare_image(const OpenedTower& opened, std::span<const std::byte> file,
                                 std::string_view name, const PictureTextFn& tokens_of);

/// Not thread-safe. Keeps the images that were read last, up to OpenedTower::kept_bytes().
class ImageReader {
 public:
  /// Loads the tower's weights. All outlive the reader. `seed`: what images' rows depend on beside
  /// the pixels. Errors: those of Executor::create().
  static Result<std::unique_ptr<ImageReader>> create(const OpenedTower& opened,
                                                     std::span<Device* const> devices,
                                                     uint64_t seed);

  /// An image's rows, computed unless they are kept. Errors: those of Executor::run(),
  /// out_of_memory.
  Result<std::shared_ptr<const ImageRows>> read(const ReadyImage& image);

  Executor& executor() { return *executor_; }
  uint64_t seed() const { return seed_; }

 private:
  ImageReader(const OpenedTower& opened, std::unique_ptr<Executor> executor, uint64_t seed)
      : opened_(opened), executor_(std::move(executor)), seed_(seed) {}

  struct Kept {
    uint64_t hash;
    std::shared_ptr<const ImageRows> rows;
  };
  /// Adds a picture's rows.
  Status add_picture(const Image& picture, uint64_t hash, ImageRows& rows);
  /// Puts the results of all pictures in the order of TowerPictures::rows.
  void arrange(std::span<const int32_t> order, uint64_t hash, ImageRows& rows) const;
  void keep(const Kept& image);

  const OpenedTower& opened_;
  std::unique_ptr<Executor> executor_;
  uint64_t seed_;
  std::vector<Kept> kept_;  ///< the last one that was asked for last
};

}  // namespace infer
