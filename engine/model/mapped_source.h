// A model under other names: each weight is assembled from weights of another source when it is
// read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/tensor_view.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// Bytes of the codes of a block of MXFP4.
inline constexpr int64_t kMxfp4CodeBytes = 16;

/// One weight of a MappedSource. Exactly one of these makes it:
///   values                     the values themselves (F32, or the bits of I32)
///   parts without scales       elements of the views, one view after the other, plus `add`,
///                              rounded to the type of `desc` if that differs; the units of views
///                              of quantised weights are blocks
///   parts and scales           MXFP4: every unit of the views is 16 bytes of codes of weights 2j
///                              and 2j + 1 (low and high nibble of byte j), and of `scales` at the
///                              same unit one byte, the exponent (as gpt-oss is published)
///   parts that are decoded     elements of quantised weights whose rows become columns
/// Parts are whole blocks of the type of `desc`.
struct MappedTensor {
  std::string name;
  TensorDesc desc;
  std::vector<TensorView> parts;
  float add = 0;
  int32_t scales = -1;  ///< index in the source's weights()
  std::vector<float> values;
  std::vector<float> factors;  ///< by part: what its elements are multiplied with; empty: nothing
  bool unit_rows = false;      ///< rows of views are divided by their lengths
  /// The units of views are elements, dimension 1 is that of the stored rows, and `desc` has a type
  /// without blocks.
  bool decoded = false;
};

/// Reading takes bounded memory, whatever its size; of a decoded tensor that of a plane.
/// Thread-safe. Immutable.
class MappedSource final : public WeightSource {
 public:
  MappedSource(std::unique_ptr<WeightSource> raw, Metadata metadata, TokenizerSpec tokenizer,
               std::vector<MappedTensor> tensors);

  const Metadata& metadata() const override { return metadata_; }
  std::span<const Weight> weights() const override { return weights_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }

  Status read(const TensorPlace& place, uint64_t offset, std::span<std::byte> out) const override;
  /// Whether the weight is stored unchanged in a file that can be mapped.
  bool can_map(const TensorPlace& place) const override;
  Result<std::span<const std::byte>> map(const TensorPlace& place, uint64_t bytes) const override;

 private:
  Status check(const TensorPlace& place, uint64_t offset, uint64_t bytes) const;
  bool is_plain(const MappedTensor& tensor) const;
  Status gather(const TensorView& view, int32_t weight, int64_t unit_bytes, int64_t first,
                int64_t count, std::byte* out) const;
  Status make_blocks(const MappedTensor& tensor, int64_t first, int64_t count,
                     std::byte* out) const;
  const DTypeInfo& stored_type(const TensorView& view) const {
    return dtype_info(raw_->weights()[static_cast<size_t>(view.weight)].desc.type);
  }
  Status convert(const MappedTensor& tensor, const TensorView& view, int64_t begin, int64_t count,
                 std::byte* out) const;
  Status make_decoded(const MappedTensor& tensor, const TensorView& view, int64_t begin,
                      int64_t count, std::byte* out) const;
  Status encode(const MappedTensor& tensor, std::span<const float> values, std::byte* out) const;
  Status make_mxfp4(const MappedTensor& tensor, const TensorView& view, int64_t first,
                    int64_t count, std::byte* out) const;

  std::unique_ptr<WeightSource> raw_;
  Metadata metadata_;
  TokenizerSpec tokenizer_;
  std::vector<MappedTensor> tensors_;
  std::vector<Weight> weights_;  ///< TensorPlace::offset is the index
};

}  // namespace infer
