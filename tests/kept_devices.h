// Vulkan's devices kept open through a test case that opens them many times.
#pragma once

#ifdef INFER_TEST_VULKAN
#include <memory>
#include <string>

namespace infer::vulkan {
class Instance;
}
#endif

namespace infer::test {

#ifdef INFER_TEST_VULKAN
/// That of the KeptDevices that lives; null if none does.
std::shared_ptr<vulkan::Instance> kept_instance();
/// Fails the test case.
void on_validation_message(const std::string& message);
#endif

/// While it lives a device that is closed goes to the next who opens it, with the pipelines that
/// were made on it: a driver on a processor takes most of a test's time to make them again. What
/// else a device has must be gone when it is closed: the validation layer tells of it at the end.
class KeptDevices {
 public:
#ifdef INFER_TEST_VULKAN
  KeptDevices();
  ~KeptDevices();
#else
  KeptDevices() {}
  ~KeptDevices() {}
#endif
  KeptDevices(const KeptDevices&) = delete;
  KeptDevices& operator=(const KeptDevices&) = delete;
};

}  // namespace infer::test
