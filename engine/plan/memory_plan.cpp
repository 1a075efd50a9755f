// Sums of a plan.
#include <algorithm>

#include "engine/plan/planner.h"

namespace infer {

int64_t DevicePlan::total() const {
  int64_t sum = drafters + grammars;
  for (const int64_t b : bytes) sum += b;
  return sum;
}

int64_t MemoryPlan::bytes(Purpose purpose) const {
  int64_t sum = 0;
  for (const DevicePlan& device : devices) sum += device.of(purpose);
  return sum;
}

int64_t MemoryPlan::total() const {
  int64_t sum = 0;
  for (const DevicePlan& device : devices) sum += device.total();
  return sum;
}

int64_t MemoryPlan::available() const {
  int64_t sum = 0;
  for (const MemoryBudget& budget : budgets) {
    // What is in the first as well is counted there.
    const bool counted =
        &budget != budgets.data() &&
        std::ranges::find(budgets[0].devices, budget.devices[0]) != budgets[0].devices.end();
    if (!counted) sum += budget.available;
  }
  return sum;
}

int64_t MemoryPlan::used(const MemoryBudget& budget) const {
  int64_t sum = 0;
  for (const int32_t device : budget.devices) sum += devices[static_cast<size_t>(device)].total();
  return sum;
}

int64_t MemoryPlan::used(const MemoryBudget& budget, Purpose purpose) const {
  int64_t sum = 0;
  for (const int32_t device : budget.devices) {
    sum += devices[static_cast<size_t>(device)].of(purpose);
  }
  return sum;
}

}  // namespace infer
