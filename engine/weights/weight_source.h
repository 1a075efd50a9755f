// Where weights come from: a file format opens a path as a WeightSource.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor_desc.h"
#include "engine/weights/metadata.h"
#include "engine/weights/tokenizer_spec.h"
#include "engine/weights/weight_sink.h"

namespace infer {

/// The place of a stored tensor. Only its source can interpret it.
struct TensorPlace {
  uint32_t file = 0;    ///< which file of a split set
  uint64_t offset = 0;  ///< bytes from its start
};

/// One named weight. `desc` is contiguous.
struct Weight {
  std::string name;
  TensorDesc desc;
  TensorPlace place;
};

/// An opened model. Immutable after opening; all calls are safe from several threads.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual const Metadata& metadata() const = 0;
  /// Ordered as in the file.
  virtual std::span<const Weight> weights() const = 0;
  virtual const TokenizerSpec& tokenizer() const = 0;

  /// Copies out.size() bytes from `offset` bytes into the tensor at `place`. io or bad_file if the
  /// file cannot be read that far (it may have been cut short since it was opened).
  virtual Status read(const TensorPlace& place, uint64_t offset,
                      std::span<std::byte> out) const = 0;

  /// Whether the tensor lies in a file just as it is used, so that map() gives it.
  virtual bool can_map(const TensorPlace& place) const = 0;

  /// The tensor's `bytes` in the mapped file, for as long as the source lives, aligned to the
  /// format's alignment. unsupported unless can_map(). A file that shrinks under a mapping kills
  /// the process: only on request.
  virtual Result<std::span<const std::byte>> map(const TensorPlace& place,
                                                 uint64_t bytes) const = 0;

  /// The weight with this name, or null. Takes linear time.
  const Weight* find(std::string_view name) const;
  /// The types of the weights, each once.
  std::vector<DType> types() const;
};

/// What is read of a model.
enum class ModelParts : uint8_t {
  all,
  weights,  ///< without a vocabulary that lies in files of its own
};

/// A file format. One folder in formats/ each; the build lists them (all_formats).
struct FormatDef {
  const char* name;  ///< "GGUF"
  /// True if the path looks like this format, by its first bytes or its files, never only by name.
  bool (*recognise)(const std::string& path);
  Result<std::unique_ptr<WeightSource>> (*open)(const std::string& path, ModelParts parts);
  /// Begins a file of this format with this metadata. Null if the format cannot be written.
  Result<std::unique_ptr<WeightSink>> (*create)(const std::string& path,
                                                const Metadata& metadata) = nullptr;
  /// Reads only the vocabulary, whatever weights are in the path; null if it is part of the
  /// model's file. not_found if the path has none.
  Result<TokenizerSpec> (*vocabulary)(const std::string& path) = nullptr;
};

/// All formats. CMake generates the list from the folders in formats/.
std::span<const FormatDef* const> all_formats();

/// Opens a model with the format that recognises it. Errors: not_found if the path does not exist;
/// bad_file, with what was expected, if no format recognises it; those of the format.
Result<std::unique_ptr<WeightSource>> open_model(const std::string& path,
                                                 ModelParts parts = ModelParts::all);

/// The vocabulary of a path whose weights are missing or not supported. Errors: not_found if no
/// format can read the vocabulary alone.
Result<TokenizerSpec> open_vocabulary(const std::string& path);

/// Begins a model file in the format with this name ("GGUF"). Errors: invalid_argument, with the
/// formats that can be written, if it is none of them; those of FormatDef::create.
Result<std::unique_ptr<WeightSink>> create_model_file(std::string_view format,
                                                      const std::string& path,
                                                      const Metadata& metadata);

}  // namespace infer
