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
#include "tests/one_node.h"
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
  tuning.matrix_tile = {32, 64, 16, 32};
  tuning.narrow_tile = {32, 32, 16, 16};
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

using test::computed;
using test::Stored;

}  // namespace infer::vulkan
