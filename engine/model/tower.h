// What reads images for a model: a vision tower, and the projector from it to the model's width.
// One file each in models/towers; the build lists them (all_towers).
//
// A step of a tower is a picture: an image, or a tile of it. Its rows are patches, in whatever
// order is best for the tower: what is computed does not depend on the order, since every patch
// sees all others and has its place as coordinates. The results are the rows that stand for the
// image in the model's prompt, "embeddings" [width · parts, 1, results].
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/status.h"
#include "engine/image/image.h"
#include "engine/image/resize.h"
#include "engine/model/arch.h"
#include "engine/model/hparams.h"

namespace infer {

struct ImageSize {
  int32_t width = 0, height = 0;
};

/// What a tower reads of an image: a picture of it all, or tiles and perhaps a picture of it all.
struct TowerPictures {
  std::vector<Image> pictures;  ///< each is a step
  /// What stands before each picture and after the last one in a model's prompt. Empty: nothing.
  std::vector<std::string> texts;
  /// By row of a model's prompt: which result of all the pictures it is, counted through them; -1:
  /// Tower::line_end(). Empty: the results of one picture after the other. Without texts.
  std::vector<int32_t> rows;
};

/// A picture as a tower takes it.
struct TowerStep {
  std::vector<Position> positions;         ///< by patch
  std::vector<std::vector<float>> inputs;  ///< StepInput::image by index: [patches][width]
  /// The lists of StepInput::output_rows. All have as many rows as there are results.
  std::vector<std::vector<int32_t>> output_rows;
  std::vector<int32_t> output_ends;             ///< StepInput::output_ends
  std::vector<int32_t> part_begins, part_ends;  ///< by patch: of its window, if the tower has any
  ImageSize grid;                               ///< of the results: columns and rows
  /// By row of the model's prompt: the result that it is; -1: Tower::line_end(). Empty: the
  /// results.
  std::vector<int32_t> rows;
};

struct TowerInfo {
  Filter filter = Filter::bicubic;
  std::array<float, 3> mean{0.5f, 0.5f, 0.5f};  ///< of red, green and blue from 0 to 1: taken off
  std::array<float, 3> deviation{0.5f, 0.5f, 0.5f};  ///< divides what is left
  int64_t patch = 1;                                 ///< pixels of a side
  int64_t merged = 1;                                ///< patches of a side that make one result
  int64_t least_results = 1;                         ///< that an image may have, with its texts
  int64_t usual_results = 1024;  ///< that one has at most, if nothing else is asked for
  int64_t picture_results = 0;   ///< of each of an image's pictures at most; 0: of all of them
  int64_t width = 0;             ///< elements of a result for each of its parts
  int64_t parts = 1;  ///< the first replaces the embedding; the others: Model::take_images()
  /// The token of the model's vocabulary that chat templates write in an image's place, and what
  /// stands for an image in other texts: that token with what is to be around it.
  std::string token, text;
  /// What the token becomes in any text before it is tokenised; empty: it stays. "{}" in it is the
  /// image's number in the text, from 0.
  std::string expanded;
  /// The token whose embedding is line_end(), where the tower's file has none. Empty: none.
  std::string line_token;
  bool keeps_token = false;  ///< the results follow the token; else they take its place
  /// Tokens after an image go on from its larger side, and its results have a row and a column as
  /// second and third axis of their position. Else every result has a place of its own in the text.
  bool axes = false;
};

class Tower : public Model {
 public:
  const TowerInfo& tower() const { return tower_; }
  /// The size that an image is given before it is cut into patches: within the tower's limits, a
  /// multiple of its units. `most`: results at most. bad_file if there is none.
  virtual Result<ImageSize> fit(ImageSize size, int64_t most) const = 0;
  /// What the tower reads of an image, with its texts at most `most` rows of a prompt: the image
  /// scaled to the size of fit(), unless the tower cuts images into tiles. Errors: those of fit()
  /// and resize().
  virtual Result<TowerPictures> pictures(const Image& image, int64_t most) const;
  /// Patches of a picture with so many results at most.
  virtual int64_t most_patches(int64_t results) const {
    return results * tower_.merged * tower_.merged;
  }
  /// Rows that a step of a picture with so many results at most returns.
  virtual int64_t most_outputs(int64_t results) const { return results; }
  /// Cuts one of the pictures into patches.
  virtual TowerStep lay_out(const Image& image) const = 0;
  /// A row that is no result, but stands between lines of results: [width]. Empty: none does.
  std::span<const float> line_end() const { return line_end_; }
  void set_line_end(std::vector<float> row) { line_end_ = std::move(row); }

 protected:
  /// Reads what all files say: `clip.vision.` image_mean, image_std, patch_size.
  void read_pixels(HparamReader& r);
  TowerInfo tower_;
  std::vector<float> line_end_;
};

class TowerMap;

/// A vision tower with a projector of its own.
struct TowerDef {
  std::span<const char* const> projectors;  ///< values of clip.projector_type
  Result<std::unique_ptr<Tower>> (*create)(const WeightSource& source);
  std::span<const char* const> checkpoints;  ///< classes of Hugging Face checkpoints that have it
  void (*map)(TowerMap& m);                  ///< tower_checkpoint.h
  /// `model_type` of their vision_config, where a class may have several towers. Null: any other.
  const char* type = nullptr;
};

/// TowerDef::create of a tower that its constructor reads.
template <typename T>
Result<std::unique_ptr<Tower>> create_tower(const WeightSource& source) {
  HparamReader r(source);
  auto tower = std::make_unique<T>(r, source);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return tower;
}

/// Generated from the files in models/towers.
std::span<const TowerDef* const> all_towers();

/// Opens a vision tower for read_tower() and the tower's graph: a GGUF file ("mmproj"), or a
/// Hugging Face checkpoint that has one beside its text. Kernels of convolutions over whole patches
/// are matrices. Errors: those of open_model() and map_tower(); bad_file if the file holds no
/// tower.
Result<std::unique_ptr<WeightSource>> open_tower(const std::string& path);

/// The tower of a source of open_tower(). Errors: unsupported, with the known projectors; bad_file.
Result<std::unique_ptr<Tower>> read_tower(const WeightSource& source);

/// The source's tensor `name`, [width, …] of any type with so many places in all, as float32.
/// bad_file if it has another shape.
Result<std::vector<float>> read_table(const WeightSource& source, const std::string& name,
                                      int64_t width, int64_t places);

/// Learned places of a square of patches, [side][side][width], however many there are; `side` is
/// set to theirs. Failures stay in the reader.
std::vector<float> read_square(HparamReader& r, const WeightSource& source, const std::string& name,
                               int64_t width, int64_t& side);

/// Learned places of a class token and of `patches` patches: [1 + patches][width]. The first has
/// the token, "v.class_embd", added, the others the patches' bias where there is one. Failures stay
/// in the reader.
std::vector<float> read_class_places(HparamReader& r, const WeightSource& source, int64_t width,
                                     int64_t patches);

/// Row `row` of the source's matrix `name`, as float32. bad_file if there is none.
Result<std::vector<float>> read_row(const WeightSource& source, const std::string& name,
                                    int64_t row);

}  // namespace infer
