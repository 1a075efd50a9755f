// How much of each memory may be used.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/device.h"

namespace infer {

/// A memory, and the devices that allocate from it.
struct MemoryBudget {
  std::string name;              ///< name of the device that the memory belongs to
  std::vector<int32_t> devices;  ///< numbers of all devices that use it
  int64_t available = 0;         ///< bytes that may be used
  int64_t reserve = 0;           ///< bytes of free memory left unused
};

/// The limits for each memory.
struct BudgetRequest {
  int64_t limit = 0;            ///< bytes of each memory; 0: its free memory minus the reserve
  bool pretend = false;         ///< the limit may exceed the free memory
  int64_t reserve = -1;         ///< bytes of free memory left unused; −1: default_reserve()
  std::vector<int64_t> others;  ///< by device: bytes already planned for other models
  int64_t process = 0;          ///< bytes planned for the process itself (Purpose::process)
};

/// A twentieth of the free memory, but at least 256 MiB and at most half of it. It leaves room for
/// other programs.
int64_t default_reserve(int64_t memory_free);

/// The budgets: first the memory of the first device, then that of each further device with memory
/// or a limit of its own. Devices without own memory are in the first budget, integrated graphics
/// in the first and in their own. A device listed several times has one budget.
std::vector<MemoryBudget> memory_budgets(std::span<const DeviceInfo> devices,
                                         const BudgetRequest& request);

}  // namespace infer
