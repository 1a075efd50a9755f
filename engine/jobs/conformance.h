// Runs the conformance cases of engine/ops on a device against the scalar references: infer
// selftest and tests/ops.
#pragma once

#include <functional>
#include <string>

#include "engine/backend/device.h"
#include "engine/ops/op.h"
#include "infer/jobs.hpp"

namespace infer {

/// Runs one case twice over: a step of all its rows, and where it has a cache or several rows a
/// shorter one that goes on from there. With several sequences the rows of a sequence lie together
/// once and take turns once. Cases of few values are drawn several times and judged together.
/// Where the device has two numeric classes products are run for prompts, too, and for some rows of
/// each. `exact`: the device was opened with DeviceOptions::exact. unsupported: the device says
/// that it cannot, and why. internal: what differs, or which bytes outside of a value were changed.
/// Else: the device failed.
Status run_case(Device& device, const OpDef& op, const OpCase& op_case, bool exact);

using WantedCase = std::function<bool(const OpDef&, const OpCase&)>;

/// All cases that are wanted. Unsupported ones are logged. `progress` gets the share of all cases
/// that are done; if it returns false, the rest is left out.
SelftestReport run_conformance(Device& device, bool exact, const WantedCase& wanted,
                               const ProgressFn& progress = {});
/// Those of one operation (by name) or, if empty, of all.
SelftestReport run_conformance(Device& device, bool exact, const std::string& only = "",
                               const ProgressFn& progress = {});

}  // namespace infer
