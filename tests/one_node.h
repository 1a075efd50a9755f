// Small graphs on a device: what tests of single kernels have in common.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/ops/op.h"

namespace infer::test {

/// Bytes of a graph's weights and inputs by their numbers.
using Stored = std::vector<std::vector<std::byte>>;

/// What a graph makes of them on a device, or why its run failed. `generated`: the first rows,
/// where roles are `both`.
inline Result<std::vector<float>> run_of(Device& on, const Graph& graph, ValueId y, int64_t rows,
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
  const Segment segment{&graph, 0, static_cast<int32_t>(graph.nodes().size()), roles};
  const int64_t bytes = std::max(device->scratch_bytes(segment), device->alignment());
  buffers.push_back(device->alloc(bytes, Purpose::scratch).value());
  const auto program = device->compile({segment, memory, {buffers.back().get(), 0}}).value();
  INFER_CHECK_R(program->run({rows, 0, inputs, {}, nullptr, generated}));
  const TensorDesc& desc = graph.value(y).desc;
  std::vector<float> found(static_cast<size_t>(desc.elements()));
  REQUIRE(
      device->read(memory[static_cast<size_t>(y)], std::as_writable_bytes(std::span(found))).ok());
  return found;
}

/// The same; it does not fail.
inline std::vector<float> computed(Device& on, const Graph& graph, ValueId y, int64_t rows,
                                   const Stored& weights, const Stored& data,
                                   Roles roles = Roles::generated, int64_t generated = 0) {
  auto found = run_of(on, graph, y, rows, weights, data, roles, generated);
  REQUIRE_MESSAGE(found.has_value(), (found ? std::string() : found.error().message()));
  return *std::move(found);
}

inline std::vector<float> computed(Device& on, CaseBuilder& builder, ValueId y, int64_t rows) {
  builder.graph().output(y);
  const Graph graph = builder.finish().value();
  return computed(on, graph, y, rows, builder.weights(), builder.inputs());
}

}  // namespace infer::test
