// Devices that are used in a way of the test's choice, and graphs of one node on them.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "backends/vulkan/tuning.h"
#include "engine/backend/device.h"
#include "engine/ops/op.h"
#include "tests/support.h"
#include "tests/validation.h"

namespace infer::vulkan {

/// The best device, used so.
inline Result<std::unique_ptr<Device>> open_tuned(const Tuning& tuning, bool exact = false) {
  return test::opener({.tuning = tuning})("vulkan", {.exact = exact});
}

inline Result<std::unique_ptr<Engine>> load_tuned(const std::string& path,
                                                  const LoadOptions& options,
                                                  const Tuning& tuning) {
  return Engine::Impl::open(path, options, test::opener({.tuning = tuning}));
}

inline bool present() {
  const Result<std::unique_ptr<Device>> device = test::open_watched("vulkan");
  if (!device) test::skipped("vulkan: " + device.error().message());
  return device.has_value();
}

/// Prompts by matrices, in workgroups that suit short subgroups.
inline Tuning with_matrices(Tuning tuning) {
  tuning.matrices = true;
  tuning.matrix_tile = 32;
  tuning.matrix_own_rows = tuning.matrix_own_columns = 16;
  return tuning;
}

/// Whether the device can; a SKIPPED line where not.
inline bool has_matrices() {
  if (!present()) return false;
  const std::shared_ptr<Instance> instance = test::watched_instance().value();
  const bool can = with_matrices(Tuning()).can_use_matrices(instance->devices().front());
  if (!can) test::skipped("vulkan: no cooperative matrices of a shape that shaders have");
  return can;
}

/// Bytes of a graph's weights and inputs by their numbers.
using Stored = std::vector<std::vector<std::byte>>;

/// What a graph of one node makes of them on a device. `generated`: the first rows, where roles are
/// `both`.
inline std::vector<float> computed(Device& on, const Graph& graph, ValueId y, int64_t rows,
                                   const Stored& weights, const Stored& data,
                                   Roles roles = Roles::generated, int64_t generated = 0) {
  Device* const device = &on;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<MemoryRef> memory(graph.values().size());
  std::vector<const std::byte*> inputs(graph.values().size(), nullptr);
  for (size_t id = 0; id < memory.size(); ++id) {
    const Value& value = graph.values()[id];
    if (value.kind == Value::Kind::input) {
      inputs[id] = data[static_cast<size_t>(value.index)].data();
      continue;
    }
    const bool weight = value.kind == Value::Kind::weight;
    buffers.push_back(
        device
            ->alloc(weight ? device->packed_bytes(value.desc) : value.desc.extent_bytes(),
                    Purpose::weights)
            .value());
    memory[id] = {buffers.back().get(), 0};
    if (!weight) continue;
    const ReadFn read = [&](uint64_t offset, std::span<std::byte> out) {
      const auto& stored = weights[static_cast<size_t>(value.index)];
      std::memcpy(out.data(), stored.data() + offset, out.size());
      return Status();
    };
    REQUIRE(device->load_weight(value.desc, read, memory[id]).ok());
  }
  const Segment segment{&graph, 0, 1, roles};
  const int64_t bytes = std::max(device->scratch_bytes(segment), device->alignment());
  buffers.push_back(device->alloc(bytes, Purpose::scratch).value());
  const auto program = device->compile({segment, memory, {buffers.back().get(), 0}}).value();
  REQUIRE(program->run({rows, 0, inputs, {}, nullptr, generated}).ok());
  const TensorDesc& desc = graph.value(y).desc;
  std::vector<float> found(static_cast<size_t>(desc.elements()));
  REQUIRE(
      device->read(memory[static_cast<size_t>(y)], std::as_writable_bytes(std::span(found))).ok());
  return found;
}

inline std::vector<float> computed(Device& on, CaseBuilder& builder, ValueId y, int64_t rows) {
  builder.graph().output(y);
  const Graph graph = builder.finish().value();
  return computed(on, graph, y, rows, builder.weights(), builder.inputs());
}

}  // namespace infer::vulkan
