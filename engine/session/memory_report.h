// The public report of a plan.
#pragma once

#include "engine/session/opened_model.h"

namespace infer {

/// What plan_model() returns for these models.
MemoryReport memory_report(const OpenedModels& models);

}  // namespace infer
