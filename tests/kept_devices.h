// Vulkan's devices kept open through a test case that opens them many times.
#pragma once

namespace infer::test {

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
