// The scans of recurrent layers: DeltaScan and SsmScan by one kernel.
#pragma once

#include "backends/cuda/op.h"
#include "backends/gpu/scan_call.h"

namespace infer::cuda {

/// Sequences that kernels of recurrent layers compute beside each other, at most.
inline constexpr int64_t kSequencesAtOnce = 16;

void record_scan(const NodeCall& call, const gpu::ScanCall& scan);

/// Fails (unsupported) if `rows` of S are more than a block has registers for. `by_element`: as in
/// op::SsmScan.
Status scan_supports(int64_t rows, bool by_element = false);

}  // namespace infer::cuda
