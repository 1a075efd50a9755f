#include "backends/vulkan/near_largest.h"

#include <bit>
#include <utility>

#include "backends/vulkan/constants.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// Values that a workgroup looks at.
constexpr int64_t kPart = 512;
/// Values of a list. More than this are seldom of use, and all are read then.
constexpr int64_t kCapacity = 1024;
constexpr int64_t kListWords = 1 + 2 * kCapacity;

}  // namespace

Status NearLargest::allocate(int64_t rows, int64_t parts) {
  const auto word = static_cast<int64_t>(sizeof(uint32_t));
  if (largest_ == nullptr || largest_->size() < rows * parts * word) {
    INFER_TRY_S(largest_, RawBuffer::create(context_, rows * parts * word, 0,
                                            VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  }
  if (lists_ == nullptr || lists_->size() < rows * kListWords * word) {
    INFER_TRY_S(lists_, RawBuffer::create_mapped(context_, rows * kListWords * word,
                                                 VK_MEMORY_PROPERTY_HOST_CACHED_BIT));
  }
  return {};
}

Status NearLargest::record(const Push& push) {
  recorded_ = {};
  INFER_CHECK(commands_->begin(false));
  const VkCommandBuffer handle = commands_->handle();
  const VolkDeviceTable& vk = context_.vk();
  constexpr VkPipelineStageFlags kCompute = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
  full_barrier(context_, handle, kCompute | VK_PIPELINE_STAGE_TRANSFER_BIT, kCompute);
  vk.vkCmdPushConstants(handle, pipelines_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push),
                        &push);
  for (const uint32_t listed : {0U, 1U}) {
    INFER_TRY_S(const VkPipeline pipeline,
                pipelines_.get("near_largest", by_id(NearLargestConstants{listed})));
    if (listed != 0) full_barrier(context_, handle, kCompute, kCompute);
    vk.vkCmdBindPipeline(handle, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vk.vkCmdDispatch(handle, push.parts, push.rows, 1);
  }
  full_barrier(context_, handle, kCompute, kCompute | VK_PIPELINE_STAGE_HOST_BIT);
  return commands_->end();
}

Status NearLargest::find(VkDeviceAddress values, int64_t columns, int64_t rows, float reach,
                         std::vector<std::vector<IndexedValue>>& found) {
  if (commands_ == nullptr) {
    auto made = std::make_unique<Commands>(context_);
    INFER_CHECK(made->create());
    commands_ = std::move(made);
  }
  INFER_CHECK(commands_->wait());
  const int64_t parts = round_up(columns, kPart) / kPart;
  INFER_CHECK(allocate(rows, parts));
  const auto list = [&](int64_t row) {
    return reinterpret_cast<uint32_t*>(lists_->data()) + row * kListWords;
  };
  for (int64_t r = 0; r < rows; ++r) *list(r) = 0;

  const Push push{.values = values,
                  .largest = largest_->address(),
                  .lists = lists_->address(),
                  .columns = static_cast<uint32_t>(columns),
                  .part_columns = static_cast<uint32_t>(kPart),
                  .parts = static_cast<uint32_t>(parts),
                  .capacity = static_cast<uint32_t>(kCapacity),
                  .reach = reach,
                  .rows = static_cast<uint32_t>(rows)};
  if (push != recorded_) {
    INFER_CHECK(record(push));
    recorded_ = push;
  }
  INFER_CHECK(commands_->submit());
  INFER_CHECK(commands_->wait());

  found.resize(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<IndexedValue>& row = found[static_cast<size_t>(r)];
    row.clear();
    const uint32_t* words = list(r);
    if (*words > kCapacity) continue;
    for (uint32_t i = 0; i < *words; ++i) {
      row.push_back(
          {static_cast<int32_t>(words[1 + 2 * i]), std::bit_cast<float>(words[2 + 2 * i])});
    }
  }
  return {};
}

}  // namespace infer::vulkan
