// The scans of recurrent layers: DeltaScan and SsmScan by one shader.
#pragma once

#include "backends/gpu/scan_call.h"
#include "backends/vulkan/op.h"

namespace infer::vulkan {

void record_scan(const NodeCall& call, const gpu::ScanCall& scan);

/// Fails (unsupported) if `rows` of S are more than the shader has registers for, or if the device
/// has no workgroups as large.
Status scan_supports(const NodeView& node, int64_t rows);

}  // namespace infer::vulkan
