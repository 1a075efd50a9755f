// NVIDIA's driver as the tests of this program have it: tests/cuda/driver. The back end opens it in
// place of the machine's, so that there are such devices everywhere. A mistake in how it is used
// fails the test case.
#pragma once

#include "tests/cuda/driver/control.h"

namespace infer::test {

/// The driver for tests. Its GPUs are those of the last set_gpus(); one at first.
DriverControl& cuda_driver();

/// Has the back end find the driver's GPUs anew. No device is open.
void restart_cuda_driver();

}  // namespace infer::test
