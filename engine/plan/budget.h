// How much of which memory may be used.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/device.h"

namespace infer {

/// Memory that one or several devices allocate from.
struct MemoryBudget {
  std::string name;              ///< of the device that it belongs to
  std::vector<int32_t> devices;  ///< by number
  int64_t available = 0;         ///< bytes that may be used
  int64_t reserve = 0;           ///< bytes of what is free, left alone
};

/// What is asked of them.
struct BudgetRequest {
  int64_t limit = 0;            ///< bytes of each memory; 0: what it has free, less the reserve
  bool pretend = false;         ///< the limit may exceed what is free
  int64_t reserve = -1;         ///< bytes of what is free to leave alone; −1: default_reserve()
  std::vector<int64_t> others;  ///< by device: bytes planned for something else
  int64_t process = 0;          ///< bytes: the process's own line
};

/// A twentieth of what is free, at least 256 MiB, at most half: room for what else the machine
/// does.
int64_t default_reserve(int64_t memory_free);

/// The first device's memory, which the others that have none of their own use as well, then that
/// of each other device; one that is named several times has one memory. Integrated graphics are in
/// two budgets.
std::vector<MemoryBudget> memory_budgets(std::span<const DeviceInfo> devices,
                                         const BudgetRequest& request);

}  // namespace infer
