#include "engine/model/matrix_type.h"

#include <algorithm>

#include "engine/model/mapped_source.h"

namespace infer {

bool is_matrix(const std::string& name, std::span<const int64_t> shape) {
  const auto rank = shape.size() - static_cast<size_t>(std::ranges::count(shape, 1));
  return rank > 1 && !name.ends_with("_norm.weight") && !name.ends_with(".bias") &&
         !name.ends_with("ffn_gate_inp.weight") && name.find("conv1d") == std::string::npos &&
         !name.ends_with("shortconv.conv.weight");
}

DType matrix_type(const std::string& name, DType stored, std::span<const int64_t> shape,
                  DType wanted) {
  if (!is_quantised(wanted)) return wanted;
  const bool end = name == "token_embd.weight" || name == "output.weight" ||
                   name == "position_embd.weight" || name == "token_types.weight";
  const bool whole = shape[0] % dtype_info(wanted).block_elements == 0;
  return is_quantised(stored) || end || !whole ? stored : wanted;
}

std::unique_ptr<WeightSource> with_matrices(std::unique_ptr<WeightSource> raw, DType wanted) {
  std::vector<MappedTensor> tensors;
  const std::span<const Weight> all = raw->weights();
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorDesc& desc = all[i].desc;
    MappedTensor tensor{all[i].name, desc, {}};
    if (is_matrix(tensor.name, desc.shape)) {
      const DType type = matrix_type(tensor.name, desc.type, desc.shape, wanted);
      if (const auto made = make_tensor(type, desc.shape)) tensor.desc = *made;
    }
    TensorView view = TensorView::whole(static_cast<int32_t>(i), desc.shape);
    if (const auto blocks = view.in_blocks(dtype_info(desc.type).block_elements)) view = *blocks;
    tensor.parts.push_back(view);
    tensors.push_back(std::move(tensor));
  }
  Metadata metadata = raw->metadata();
  TokenizerSpec tokenizer = raw->tokenizer();
  return std::make_unique<MappedSource>(std::move(raw), std::move(metadata), std::move(tokenizer),
                                        std::move(tensors));
}

}  // namespace infer
