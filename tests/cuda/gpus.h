// The driver's GPUs in a test case.
#pragma once

#include <vector>

#include "tests/cuda_driver.h"

namespace infer::test {

class Gpus {
 public:
  explicit Gpus(std::vector<TestGpu> gpus) {
    cuda_driver().set_gpus(std::move(gpus));
    restart_cuda_driver();
  }
  ~Gpus() {
    cuda_driver().set_gpus({TestGpu()});
    restart_cuda_driver();
  }
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;
};

}  // namespace infer::test
