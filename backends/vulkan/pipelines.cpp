#include "backends/vulkan/pipelines.h"

#include <algorithm>

namespace infer::vulkan {

Result<std::unique_ptr<Pipelines>> Pipelines::create(Context& context) {
  std::unique_ptr<Pipelines> made(new Pipelines(context));
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  INFER_CHECK_R(context.check(
      context.vk().vkCreatePipelineLayout(context.device(), &layout, nullptr, &made->layout_),
      "cannot make a pipeline layout"));
  VkPipelineCacheCreateInfo cache{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  INFER_CHECK_R(context.check(
      context.vk().vkCreatePipelineCache(context.device(), &cache, nullptr, &made->cache_),
      "cannot make a pipeline cache"));
  return made;
}

Pipelines::~Pipelines() {
  const VolkDeviceTable& vk = context_.vk();
  for (const auto& [key, pipeline] : made_) {
    vk.vkDestroyPipeline(context_.device(), pipeline, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk.vkDestroyPipelineCache(context_.device(), cache_, nullptr);
  if (layout_ != VK_NULL_HANDLE) vk.vkDestroyPipelineLayout(context_.device(), layout_, nullptr);
}

Result<VkPipeline> Pipelines::get(const std::string& shader, std::span<const uint32_t> constants) {
  const std::lock_guard lock(mutex_);
  std::pair key(shader, std::vector<uint32_t>(constants.begin(), constants.end()));
  if (const auto it = made_.find(key); it != made_.end()) return it->second;
  const auto all = all_shaders();
  const auto it = std::ranges::find_if(all, [&](const Shader& s) { return shader == s.name; });
  if (it == all.end()) {
    return fail(StatusCode::unsupported, "there is no shader '{}' in this build", shader);
  }
  INFER_TRY(const VkPipeline made, make(*it, constants));
  made_.emplace(std::move(key), made);
  return made;
}

Result<VkPipeline> Pipelines::make(const Shader& shader, std::span<const uint32_t> constants) {
  const VolkDeviceTable& vk = context_.vk();
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  code.codeSize = shader.code.size_bytes();
  code.pCode = shader.code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  INFER_CHECK_R(context_.check(vk.vkCreateShaderModule(context_.device(), &code, nullptr, &module),
                               shader.name));
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo specialisation{static_cast<uint32_t>(entries.size()), entries.data(),
                                            constants.size_bytes(), constants.data()};
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  size.requiredSubgroupSize = context_.physical().subgroup;
  VkComputePipelineCreateInfo create{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  create.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  if (context_.physical().choose_subgroup) {
    create.stage.pNext = &size;
    create.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module;
  create.stage.pName = "main";
  create.stage.pSpecializationInfo = &specialisation;
  create.layout = layout_;
  VkPipeline made = VK_NULL_HANDLE;
  const VkResult result =
      vk.vkCreateComputePipelines(context_.device(), cache_, 1, &create, nullptr, &made);
  vk.vkDestroyShaderModule(context_.device(), module, nullptr);
  INFER_CHECK_R(context_.check(result, shader.name));
  return made;
}

}  // namespace infer::vulkan
