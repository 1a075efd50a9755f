#include "engine/plan/budget.h"

#include <algorithm>

namespace infer {
namespace {

/// What may be used in all. What the process has taken already was free before and is planned for,
/// as far as it is the process's own line.
int64_t available(const DeviceInfo& info, const MemoryBudget& budget,
                  const BudgetRequest& request) {
  int64_t others = 0;
  for (const int32_t device : budget.devices) {
    const auto d = static_cast<size_t>(device);
    if (d < request.others.size()) others += request.others[d];
  }
  if (request.limit > 0 && request.pretend) return request.limit - others;
  const int64_t free = std::max<int64_t>(0, info.memory_free - budget.reserve) +
                       std::min(info.memory_held, request.process);
  return (request.limit > 0 ? std::min(request.limit, free) : free) - others;
}

}  // namespace

int64_t default_reserve(int64_t memory_free) {
  constexpr int64_t kLeast = int64_t{256} << 20;
  return std::min(std::max(memory_free / 20, kLeast), memory_free / 2);
}

std::vector<MemoryBudget> memory_budgets(std::span<const DeviceInfo> devices,
                                         const BudgetRequest& request) {
  std::vector<MemoryBudget> budgets;
  std::vector<size_t> owner;  // device
  for (size_t d = 0; d < devices.size(); ++d) {
    const auto number = static_cast<int32_t>(d);
    if (d > 0 && devices[d].memory != MemoryKind::own) budgets[0].devices.push_back(number);
    if (d > 0 && devices[d].memory == MemoryKind::host) continue;
    const auto found = std::ranges::find(budgets, devices[d].name, &MemoryBudget::name);
    if (found != budgets.end()) {
      found->devices.push_back(number);
      continue;
    }
    budgets.push_back({devices[d].name, {number}, 0, 0});
    owner.push_back(d);
  }
  for (size_t m = 0; m < budgets.size(); ++m) {
    const DeviceInfo& info = devices[owner[m]];
    MemoryBudget& budget = budgets[m];
    budget.reserve = request.reserve >= 0 ? request.reserve : default_reserve(info.memory_free);
    budget.available = available(info, budget, request);
  }
  return budgets;
}

}  // namespace infer
