// Devices and engines as tests open them: those of Vulkan under the validation layer, if it is
// installed. What it says fails the test case.
#pragma once

#include <memory>
#include <string>

#include "engine/session/engine_impl.h"
#include "infer/infer.hpp"

#ifdef INFER_TEST_VULKAN
#include "backends/vulkan/device.h"
#endif

namespace infer::test {

#ifdef INFER_TEST_VULKAN
/// An instance under the validation layer, shared by all that is open.
Result<std::shared_ptr<vulkan::Instance>> watched_instance();
/// Opens devices by their names, those of Vulkan with these options.
OpenDevice opener(const vulkan::VulkanOptions& own = {});
#else
inline OpenDevice opener() { return open_device; }
#endif

inline Result<std::unique_ptr<Device>> open_watched(const std::string& name,
                                                    const DeviceOptions& options = {}) {
  return opener()(name, options);
}
inline Result<std::unique_ptr<Engine>> load_watched(const std::string& path,
                                                    const LoadOptions& options) {
  return Engine::Impl::open(path, options, opener());
}

}  // namespace infer::test
