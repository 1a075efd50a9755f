#include "backends/vulkan/pipelines.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include "backends/vulkan/exact_code.h"
#include "backends/vulkan/kept_file.h"
#include "engine/core/log.h"
#include "engine/core/thread_pool.h"

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
  const std::vector<std::byte> kept = read_kept(context.physical(), Kept::pipelines);
  VkPipelineCacheCreateInfo cache{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  cache.initialDataSize = kept.size();
  cache.pInitialData = kept.data();
  INFER_CHECK_R(context.check(
      context.vk().vkCreatePipelineCache(context.device(), &cache, nullptr, &made->cache_),
      "cannot make a pipeline cache"));
  return made;
}

Pipelines::~Pipelines() {
  const VolkDeviceTable& vk = context_.vk();
  try {
    if (!made_.empty()) save();
  } catch (...) {  // no memory, or the file system fails: the shaders are compiled again next time
  }
  for (const auto& [key, pipeline] : made_) {
    vk.vkDestroyPipeline(context_.device(), pipeline, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk.vkDestroyPipelineCache(context_.device(), cache_, nullptr);
  if (layout_ != VK_NULL_HANDLE) vk.vkDestroyPipelineLayout(context_.device(), layout_, nullptr);
}

void Pipelines::save() const {
  const VolkDeviceTable& vk = context_.vk();
  size_t bytes = 0;
  if (vk.vkGetPipelineCacheData(context_.device(), cache_, &bytes, nullptr) != VK_SUCCESS) return;
  std::vector<std::byte> data(bytes);
  if (vk.vkGetPipelineCacheData(context_.device(), cache_, &bytes, data.data()) != VK_SUCCESS)
    return;
  data.resize(bytes);
  if (data == read_kept(context_.physical(), Kept::pipelines)) return;
  const Status written = write_kept(context_.physical(), Kept::pipelines, data);
  if (!written.ok()) log(LogLevel::info, "compiled shaders are not saved: {}", written.message());
}

Result<VkPipeline> Pipelines::get(const std::string& shader, std::span<const uint32_t> constants) {
  Key key(shader, std::vector<uint32_t>(constants.begin(), constants.end()));
  const std::lock_guard lock(mutex_);
  if (const auto it = made_.find(key); it != made_.end()) return it->second;
  INFER_TRY(const VkPipeline made, make(key));
  made_.emplace(std::move(key), made);
  return made;
}

Status Pipelines::prepare(const std::set<Key>& keys) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<const Key*, Result<VkPipeline>>> missing;
  for (const Key& key : keys) {
    if (!made_.contains(key)) missing.emplace_back(&key, VkPipeline{VK_NULL_HANDLE});
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < missing.size(); i = next++) {
      try {
        missing[i].second = make(*missing[i].first);
      } catch (const std::bad_alloc&) {
        missing[i].second =
            fail(StatusCode::out_of_memory, "no memory to compile '{}'", missing[i].first->first);
      }
    }
  };
  const auto useful = std::min(static_cast<size_t>(available_threads()), missing.size());
  std::vector<std::thread> threads;
  threads.reserve(useful);
  try {
    while (threads.size() + 1 < useful) threads.emplace_back(work);
  } catch (const std::system_error&) {  // fewer, then
  }
  work();
  for (std::thread& thread : threads) thread.join();
  Status status;
  for (auto& [key, made] : missing) {
    if (made) {
      made_.emplace(*key, *made);
    } else if (status.ok()) {
      status = made.error();
    }
  }
  return status;
}

Result<VkPipeline> Pipelines::make(const Key& key) {
  const auto& [name, constants] = key;
  const auto all = all_shaders();
  const auto it = std::ranges::find_if(all, [&](const Shader& s) { return name == s.name; });
  if (it == all.end()) {
    return fail(StatusCode::unsupported, "there is no shader '{}' in this build", name);
  }
  const Shader& shader = *it;
  const VolkDeviceTable& vk = context_.vk();
  const std::vector<uint32_t> exact = exact_code(shader.code);
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  code.codeSize = exact.size() * sizeof(uint32_t);
  code.pCode = exact.data();
  VkShaderModule module = VK_NULL_HANDLE;
  INFER_CHECK_R(context_.check(vk.vkCreateShaderModule(context_.device(), &code, nullptr, &module),
                               shader.name));
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo specialisation{static_cast<uint32_t>(entries.size()), entries.data(),
                                            constants.size() * 4, constants.data()};
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  size.requiredSubgroupSize = context_.physical().subgroup;
  VkComputePipelineCreateInfo create{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  create.flags = VK_PIPELINE_CREATE_DISPATCH_BASE;
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
