// A GPU as the driver describes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/status.h"

namespace infer::cuda {

struct Gpu {
  int32_t index = 0;                  ///< the driver's ordinal
  std::string name;                   ///< "cuda:0"
  std::string description;            ///< "NVIDIA GeForce RTX 4090, compute capability 8.9"
  std::string pci;                    ///< "0000:01:00.0"
  int32_t capability = 0;             ///< ten times the compute capability: 89
  int32_t multiprocessors = 0;        ///< SMs
  int64_t shared_bytes = 0;           ///< of shared memory that a block can ask for
  int64_t multiprocessor_shared = 0;  ///< bytes of shared memory of a multiprocessor
  int64_t memory_total = 0;           ///< bytes
  bool virtual_memory = false;        ///< memory can be mapped to reserved addresses
  std::vector<int32_t> peers;         ///< ordinals of GPUs that it copies to directly
  bool integrated = false;            ///< its memory is the host's
  bool cooperative = false;           ///< can launch grids whose blocks wait for each other
  Status usable;                      ///< unsupported, with what it lacks
};

}  // namespace infer::cuda
