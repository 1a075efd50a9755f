// Weights that a checkpoint stores as several tensors: codes, scales and more. They are recognised
// by their names: in bitsandbytes.cpp, packed_fp4.cpp, packed_hqq.cpp, packed_int4.cpp,
// packed_rows.cpp, packed_ternary.cpp and scaled_bytes.cpp.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/weights/metadata.h"
#include "formats/safetensors/header.h"

namespace infer::safetensors {

/// A tensor with the file that it is in.
struct StoredTensor {
  TensorEntry entry;
  const File* file = nullptr;
  uint32_t file_index = 0;
};

/// Safe from several threads.
class AssembledTensor {
 public:
  virtual ~AssembledTensor() = default;
  /// Blocks [first, first + count) of its type in the order of its elements.
  virtual Status read(int64_t first, int64_t count, std::byte* out) const = 0;
};

/// One weight, in the place of the stored tensor `place`.
struct Assembled {
  std::string name;
  TensorDesc desc;
  size_t place;
  std::unique_ptr<AssembledTensor> tensor;
};

/// A weight F32 [1] of this value.
Result<Assembled> assembled_number(const std::string& name, float value, size_t place);

/// The tensors of a checkpoint by name. A tensor taken as part of another weight is no weight
/// itself.
class PartTable {
 public:
  PartTable(const Metadata& metadata, const std::vector<StoredTensor>& tensors);

  const Metadata& metadata() const { return metadata_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  bool is_taken(size_t index) const { return taken_[index]; }
  /// Null if there is none of that name.
  const StoredTensor* find(const std::string& name) const;
  /// Takes the tensor; null if there is none of that name.
  const StoredTensor* take(const std::string& name);
  /// Takes a tensor of one of these types with this many elements; 0: any number above 0. Errors:
  /// bad_file if it is missing or different.
  Result<const StoredTensor*> take(const std::string& name, std::initializer_list<DType> types,
                                   int64_t elements);
  /// Takes the scales of activations and of the cache. They are for programs that store these in 4
  /// or 8 bits; here both keep as many bits as without them.
  void take_activation_scales();
  /// Whether `name` is BASE + `ending`, and BASE.
  static bool ends(const std::string& name, std::string_view ending, std::string& base);

 private:
  const Metadata& metadata_;
  const std::vector<StoredTensor>& tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<bool> taken_;
};

/// bad_file: what is wrong with a stored tensor.
Status bad_tensor(const StoredTensor& tensor, const std::string& what);

/// All of a small tensor.
template <typename T>
Result<std::vector<T>> read_all(const StoredTensor& tensor) {
  std::vector<T> values(static_cast<size_t>(tensor.entry.desc.extent_bytes()) / sizeof(T));
  INFER_CHECK_R(
      tensor.file->read_at(tensor.entry.offset, std::as_writable_bytes(std::span(values))));
  return values;
}

/// Elements [first, first + count) of a tensor.
template <typename T>
Status read_part(const StoredTensor& tensor, int64_t first, int64_t count, T* out) {
  return tensor.file->read_at(tensor.entry.offset + static_cast<uint64_t>(first) * sizeof(T),
                              std::as_writable_bytes(std::span(out, static_cast<size_t>(count))));
}

/// NF4 and FP4 of bitsandbytes: for each W with `W.quant_state.bitsandbytes__nf4` (or fp4) a weight
/// W of that type, or of F32 if rows or blocks of scales are not multiples of 64 weights.
Result<std::vector<Assembled>> assemble_bitsandbytes(PartTable& parts);

/// GPTQ and AWQ of 4 bits: for each W.qweight a weight W.weight of type Q4_0 where all zero points
/// are 8, else of Q5_0, which holds code − zero exactly. Where groups are not runs of columns
/// (act-order), its columns are sorted by group, and W.order (I32) says where each comes from.
Result<std::vector<Assembled>> assemble_packed_int4(PartTable& parts);

/// HQQ of 8, 4, 2 and 1 bits: for each X.W_q a weight X.weight of the first of the types Q4_0, Q5_0
/// and Q8_0 that holds code − zero exactly. unsupported if none does, with the reason.
Result<std::vector<Assembled>> assemble_packed_hqq(PartTable& parts);

/// BitNet's weights of three levels, if quant_method is "bitnet": for each W of bytes a weight W of
/// type TQ2_0, or F32, and W's name with ".scale" for ".weight". unsupported where the weights are
/// to be rounded while they are used.
Result<std::vector<Assembled>> assemble_packed_ternary(PartTable& parts);

/// NVFP4 and MXFP4 of compressed-tensors, ModelOpt and DeepSeek-V4: for each W_packed, or W of
/// bytes, with 8-bit scales a weight W of that type, and W's name with ".scale" for ".weight" where
/// there is a scale of the whole tensor. To be called before the next two, whose weights have the
/// same endings.
Result<std::vector<Assembled>> assemble_packed_fp4(PartTable& parts);

/// Integers of 4 or 8 bits of compressed-tensors: for each W_packed a weight W of type Q4_0, or
/// Q5_0 if it has zero points, or Q8_0; of F32 where these types cannot hold it.
Result<std::vector<Assembled>> assemble_packed_rows(PartTable& parts);

/// FP8 and I8 with scales: for each W of 8 bits with W_scale_inv, W_scale, SCB or, of FP8, scale a
/// weight W of type Q8_0, or of F32 if rows or groups of scales are not multiples of 32 weights.
Result<std::vector<Assembled>> assemble_scaled_bytes(PartTable& parts);

}  // namespace infer::safetensors
