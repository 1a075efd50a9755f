// The driver for tests with calls that fail.
#pragma once

#include <string>
#include <vector>

#include "tests/cuda_driver.h"

namespace infer::test {

/// The back end finds the driver anew whenever another call is to fail: so its first calls can as
/// well.
class Failing {
 public:
  Failing() { fail_after(-1); }
  ~Failing() { fail_after(-1); }
  void fail_after(int64_t before) {
    cuda_driver().fail_after(before);
    restart_cuda_driver();
  }
  int64_t calls() const { return cuda_driver().calls(); }
  std::vector<int64_t> places(bool last) const { return cuda_driver().places(last); }
  std::string failed() const { return cuda_driver().failed(); }
  int64_t live() const { return cuda_driver().live(); }
};

}  // namespace infer::test
