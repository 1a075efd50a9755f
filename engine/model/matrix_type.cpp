#include "engine/model/matrix_type.h"

#include <algorithm>

#include "engine/model/mapped_source.h"

namespace infer {

bool is_matrix(const std::string& name, std::span<const int64_t> shape) {
  const auto rank = shape.size() - static_cast<size_t>(std::ranges::count(shape, 1));
  return rank > 1 && !name.ends_with("_norm.weight") && !name.ends_with(".bias") &&
         !name.ends_with("ffn_gate_inp.weight") && name.find(".ple_norm_") == std::string::npos &&
         name.find("conv1d") == std::string::npos && !name.ends_with("shortconv.conv.weight") &&
         !name.ends_with("_ape.weight") && !name.ends_with("_tid2eid.weight") &&
         !name.ends_with(".ssm_a");
}

DType matrix_type(const std::string& name, DType stored, std::span<const int64_t> shape,
                  DType wanted) {
  if (!is_quantised(wanted)) return wanted;
  const bool end = name == "token_embd.weight" || name == "output.weight" ||
                   name == "position_embd.weight" || name == "token_types.weight";
  const bool whole = shape[0] % dtype_info(wanted).block_elements == 0;
  return is_quantised(stored) || end || !whole ? stored : wanted;
}

namespace {

bool is_half_convolution(const Weight& weight) {
  const DType type = weight.desc.type;
  return weight.name.find("conv1d") != std::string::npos &&
         (type == DType::f16 || type == DType::bf16);
}

/// Groups of the output's low-rank matrices; 0: the metadata has no such number.
int64_t output_groups(const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  const auto architecture = metadata.get_string("general.architecture");
  if (!architecture || !*architecture) return 0;
  const auto groups =
      metadata.get_int(**architecture + ".attention.output_group_count", 0, 1 << 20);
  return groups && *groups ? **groups : 0;
}

/// A source whose weights have the types and shapes that `form_of` gives when they are read.
template <typename FormOf>
std::unique_ptr<WeightSource> with_forms(std::unique_ptr<WeightSource> raw, FormOf form_of) {
  std::vector<MappedTensor> tensors;
  const std::span<const Weight> all = raw->weights();
  for (size_t i = 0; i < all.size(); ++i) {
    const TensorDesc& desc = all[i].desc;
    MappedTensor tensor{all[i].name, desc, {}};
    const auto [type, shape] = form_of(all[i]);
    if (const auto made = make_tensor(type, shape)) tensor.desc = *made;
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

}  // namespace

std::unique_ptr<WeightSource> with_matrices(std::unique_ptr<WeightSource> raw, DType wanted) {
  return with_forms(std::move(raw), [&](const Weight& weight) {
    const TensorDesc& desc = weight.desc;
    const DType type = is_matrix(weight.name, desc.shape)
                           ? matrix_type(weight.name, desc.type, desc.shape, wanted)
                           : desc.type;
    return std::pair(type, desc.shape);
  });
}

std::unique_ptr<WeightSource> with_usual_forms(std::unique_ptr<WeightSource> raw) {
  const int64_t groups = output_groups(*raw);
  const auto joins_groups = [&](const Weight& weight) {
    const auto& shape = weight.desc.shape;
    return groups > 1 && weight.name.ends_with(".attn_output_a.weight") && shape[2] == 1 &&
           shape[1] % groups == 0;
  };
  if (std::ranges::none_of(raw->weights(), is_half_convolution) &&
      std::ranges::none_of(raw->weights(), joins_groups)) {
    return raw;
  }
  return with_forms(std::move(raw), [&](const Weight& weight) {
    std::array<int64_t, kMaxDims> shape = weight.desc.shape;
    if (joins_groups(weight)) shape = {shape[0], shape[1] / groups, groups, 1};
    return std::pair(is_half_convolution(weight) ? DType::f32 : weight.desc.type, shape);
  });
}

}  // namespace infer
