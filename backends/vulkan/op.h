// An operation of this back end: whether it is supported, and its dispatches.
// Each backends/vulkan/ops/<op>.cpp defines  const VulkanOp& <op>_vulkan().
//
// Each row is summed in an order that depends on that row alone. So batch size and chunking change
// no bit.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "backends/gpu/operand.h"
#include "backends/vulkan/constants.h"
#include "backends/vulkan/instance.h"
#include "backends/vulkan/pipelines.h"
#include "backends/vulkan/tuning.h"
#include "engine/backend/op_table.h"
#include "engine/graph/graph.h"

namespace infer::vulkan {

/// A node as an operation's checks see it.
struct NodeView {
  const Graph& graph;
  const Node& node;
  const PhysicalDevice& device;

  const Value* input(size_t i) const {
    return node.inputs[i] == kNoValue ? nullptr : &graph.value(node.inputs[i]);
  }
};

using gpu::CacheUse;
using gpu::elements_of;
using gpu::Groups;
using gpu::Operand;
using gpu::shape_of;
using gpu::ShapePush;
using gpu::StridePush;
using gpu::strides_of;
using gpu::whole_rows;

/// Whether a dispatch that takes too long for one submission may be divided between workgroups
/// along y. If so, its shader does not ask how many there are (gl_NumWorkGroups.y), and none of
/// them needs another.
enum class Parts : uint8_t { one, along_y };

/// Receives the dispatches of a program in their order.
class Recorder {
 public:
  virtual ~Recorder() = default;

  /// `push`: the shader's push constants. `constants`: its specialisation constants, a struct of
  /// constants.h.
  template <typename Constants, typename Push>
  void dispatch(const std::string& shader, const Constants& constants, const Push& push,
                const Groups& groups, Parts parts = Parts::one) {
    static_assert(std::is_trivially_copyable_v<Push> && sizeof(Push) <= kPushBytes);
    add(shader, by_id(constants), {reinterpret_cast<const std::byte*>(&push), sizeof(Push)}, groups,
        parts);
  }
  template <typename Push>
  void dispatch(const std::string& shader, const Push& push, const Groups& groups) {
    dispatch(shader, NoConstants(), push, groups);
  }

  /// A barrier between two dispatches of one node: the second one sees what the first one wrote.
  virtual void barrier() = 0;
  /// Keeps data as long as the program lives. Shaders read it at the returned address.
  virtual VkDeviceAddress keep(std::span<const std::byte> data) = 0;

 private:
  virtual void add(const std::string& shader, std::span<const uint32_t> constants,
                   std::span<const std::byte> push, const Groups& groups, Parts parts) = 0;
};

/// A node to be recorded.
struct NodeCall {
  const Graph& graph;
  const Node& node;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  const KvLayout& kv_layout;
  const PhysicalDevice& device;
  const Tuning& tuning;
  VkDeviceAddress step;     ///< glsl/common.glsl: Step
  VkDeviceAddress scratch;  ///< work space of the program
  Roles roles;              ///< of the step's tokens
  Recorder& recorder;

  template <typename Params>
  const Params& params() const {
    return std::get<Params>(node.params);
  }
};

struct VulkanOp {
  OpId id;
  /// Ok, or unsupported with the reason.
  Status (*supports)(const NodeView& node);
  void (*record)(const NodeCall& call);
  /// Bytes of work space. A node that needs none returns 0. Null: none of them needs any.
  int64_t (*scratch)(const NodeView& node, const Tuning& tuning, Roles roles) = nullptr;
  CacheUse cache = CacheUse::none;
};

std::span<const VulkanOp* const> all_vulkan_ops();
const OpTable<VulkanOp>& vulkan_ops();

/// What segments are compiled for.
struct Target {
  const PhysicalDevice& device;
  const Tuning& tuning;
  const OpTable<VulkanOp>& ops;

  // Both return 0 or none if there is no operation for the node.
  /// Bytes of work space of one node.
  int64_t scratch_bytes(const Graph& graph, const Node& node, Roles roles) const;
  CacheUse cache_use(const Node& node) const;
};

inline Status always_supported(const NodeView&) { return {}; }

}  // namespace infer::vulkan
