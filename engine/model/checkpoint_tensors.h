// The tensors of a Hugging Face checkpoint under the names and in the layouts of GGUF.
#pragma once

#include <array>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/model/checkpoint_config.h"
#include "engine/model/mapped_source.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// Ends the name of where the columns of a matrix come from (builder.h).
inline constexpr const char* kColumnOrder = ".order";

/// Ends the name of what the product with a whole matrix is multiplied with (builder.h).
inline constexpr const char* kProductScale = ".scale";

/// "layers.7.mlp.gate".
std::string layer_name(int64_t layer, const std::string& part);

/// How a checkpoint's tensor becomes the model's.
enum class Change : uint8_t {
  none,
  /// The rows that RoPE turns together lie half a head of queries apart in the checkpoint, and are
  /// to be neighbours.
  interleave_q,
  interleave_k,  ///< the same of keys
  add_one,       ///< the checkpoint holds a norm's weights less one
  unit_rows,     ///< each row of the matrix is divided by its length
};

/// Names from the checkpoint begin after "model.", or whatever stands before "embed_tokens".
/// Failures go to the configuration; after the first one nothing is added any more.
class CheckpointTensors {
 public:
  /// `raw` and `config` live longer. `matrices`: the type that matrices are to have, or none: the
  /// stored one.
  CheckpointTensors(const WeightSource& raw, CheckpointConfig& config,
                    std::optional<DType> matrices);
  /// The same for a part of a checkpoint: names begin after `root`. Matrices keep their type.
  CheckpointTensors(const WeightSource& raw, CheckpointConfig& config, std::string root);

  /// How many heads interleave_q and interleave_k mean.
  void set_heads(int64_t queries, int64_t keys);

  bool has(const std::string& name) const { return find(name) >= 0; }
  /// The shape of a tensor, ones if it is missing (which view() reports).
  std::array<int64_t, kMaxDims> shape_of(const std::string& name) const;
  /// All of a tensor as a view of this shape (trailing ones left out); a failure if it is missing
  /// or has another number of elements.
  TensorView view(const std::string& name, std::initializer_list<int64_t> shape);
  void put(const std::string& to, const TensorView& view, Change change = Change::none);
  /// A tensor of this shape from parts, one after the other.
  void put_parts(const std::string& to, std::vector<TensorView> parts,
                 std::initializer_list<int64_t> shape);
  /// The same with what each part is multiplied with. Matrices become F32 unless another type is
  /// wanted: products of shorter numbers need more bits.
  void put_scaled(const std::string& to, std::vector<TensorView> parts, std::vector<float> factors,
                  std::initializer_list<int64_t> shape);
  void put_stacked(const std::string& to, std::vector<TensorView> parts);
  void put_values(const std::string& to, std::vector<float> values);
  void put_values(const std::string& to, std::vector<float> values,
                  std::initializer_list<int64_t> shape);
  /// A table of whole numbers, I32, from one of I64 or I32.
  void put_integers(const std::string& to, const std::string& from,
                    std::initializer_list<int64_t> shape);
  /// The elements of a small tensor of floating point, which counts as placed.
  std::vector<float> values(const std::string& name, int64_t count);
  /// The same of one of whole numbers, I64 or I32.
  std::vector<int64_t> integers(const std::string& name, int64_t count);
  /// Copies a tensor in its shape, if the checkpoint has it.
  void copy(const std::string& from, const std::string& to, Change change = Change::none);
  /// Copies a table, if the checkpoint has it. If it has fewer rows than `rows`, its first one
  /// stands for those that it lacks.
  void copy_rows(const std::string& from, const std::string& to, int64_t rows);
  /// These rows of a matrix, in this order.
  void put_rows(const std::string& to, const std::string& from,
                std::initializer_list<int64_t> rows);
  /// Two tensors of equal width from one [k, 2n] or [k, 2n, experts] that has the rows of one
  /// before those of the other.
  void split_rows(const std::string& from, const std::string& first, const std::string& second);
  /// Tensors from one [k, n], or [n], whose n rows are theirs one after the other: the names, with
  /// how many rows each. A failure if these are not n in all. Nothing if the checkpoint lacks it.
  void split_rows(const std::string& from,
                  std::initializer_list<std::pair<std::string, int64_t>> parts);
  /// The blocks [blocks a row, rows, experts] of MXFP4 weights: `codes` [16, …] and `scales` […]
  /// are bytes, as mapped_source.h says.
  TensorView view_mxfp4(const std::string& codes, const std::string& scales);
  void put_mxfp4(const std::string& to, const TensorView& blocks, const std::string& scales);

  /// Tensors whose names begin with `prefix` are also found under names that begin with `as`.
  void also_named(const std::string& prefix, const std::string& as);

  /// Whether both are there in one type and shape, with the same bytes.
  bool are_equal(const std::string& name, const std::string& other);
  /// The tensor, if it is there, has no place in the model.
  void ignore(const std::string& name);
  /// The same of all that begin like this, with or without what stands before "embed_tokens".
  void ignore_prefix(const std::string& prefix) { ignored_prefixes_.push_back(prefix); }

  /// Whether nothing has failed.
  bool ok() const { return config_.status().ok(); }
  /// A failure if a tensor has found no place.
  void require_all_used();
  /// The same of those whose names begin with one of these, behind the root.
  void require_used(std::initializer_list<const char*> prefixes);
  /// Of matrices, by type.
  const std::map<DType, int64_t>& elements() const { return elements_; }
  std::vector<MappedTensor> take() { return std::move(tensors_); }

 private:
  const Weight& raw(int32_t index) const { return raw_.weights()[static_cast<size_t>(index)]; }
  bool is_ignored(const std::string& name) const;
  void refuse_unused(size_t index);
  std::string full_name(const std::string& name) const;
  /// −1 if absent.
  int32_t find(const std::string& name) const;
  DType type_of(const std::string& to, DType stored, std::span<const int64_t> shape) const;
  /// Makes the tensor's description; without views `stored` is F32.
  void add(MappedTensor tensor, DType stored, std::span<const int64_t> shape);

  const WeightSource& raw_;
  CheckpointConfig& config_;
  std::optional<DType> matrices_;
  int64_t heads_ = 1;
  int64_t kv_heads_ = 1;
  std::vector<MappedTensor> tensors_;
  std::map<DType, int64_t> elements_;
  std::unordered_map<std::string_view, int32_t> by_name_;
  std::deque<std::string> other_names_;  ///< that by_name_ refers to
  std::vector<bool> used_;
  std::vector<std::string> ignored_prefixes_;
  std::string root_;  ///< "model."
};

}  // namespace infer
