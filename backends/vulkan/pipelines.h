// The shaders embedded in the program, and the pipelines made from them.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/vulkan/context.h"

namespace infer::vulkan {

struct Shader {
  const char* name;  ///< "rms_norm", "product_q4_0"
  std::span<const uint32_t> code;
};

/// Generated from the shaders in this folder.
std::span<const Shader> all_shaders();

/// All pipelines have the same layout: no descriptors, and this many bytes of push constants, the
/// number that every device supports.
inline constexpr uint32_t kPushBytes = 128;

/// Pipelines are made at the first request and kept. The code compiled by the driver is saved for
/// later runs (kept_file.h). Thread-safe.
class Pipelines {
 public:
  /// A shader with its specialisation constants 0, 1, …
  using Key = std::pair<std::string, std::vector<uint32_t>>;

  static Result<std::unique_ptr<Pipelines>> create(Context& context);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  VkPipelineLayout layout() const { return layout_; }
  Result<VkPipeline> get(const std::string& shader, std::span<const uint32_t> constants);
  /// Makes the missing pipelines of `keys`, on several threads.
  Status prepare(const std::set<Key>& keys);

 private:
  explicit Pipelines(Context& context) : context_(context) {}
  Result<VkPipeline> make(const Key& key);
  void save() const;

  Context& context_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  std::map<Key, VkPipeline> made_;
};

}  // namespace infer::vulkan
