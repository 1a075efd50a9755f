// The scans of recurrent layers: what DeltaScan and SsmScan share.
#pragma once

#include <span>

#include "backends/gpu/operand.h"

namespace infer::gpu {

/// One head's matrix S has as many rows as `write`, and as many columns as `v`.
struct ScanCall {
  Operand write, read;  ///< [rows, keys, rows of the step]
  Operand v, y;         ///< [columns, heads, rows of the step]
  Operand size;     ///< what the step size is made of, by element [columns, heads, rows]; or none
  Operand gain;     ///< what β is made of; none: S is not corrected (SsmScan)
  Operand a, bias;  ///< or none
  Operand pass;     ///< of v, added to the result; or none
  Operand slots, sequences;
  int32_t kv_layer = 0;
  int64_t at = 0;  ///< element of the state
  float write_scale = 1.0f;
  float read_scale = 1.0f;
  bool tiled = false;
  bool by_channel = false;  ///< of op::DeltaScan
  float bound = 0;          ///< likewise
  float slope = 0;          ///< of op::SsmScan
  bool by_element = false;  ///< likewise
};

/// Of a node with these inputs in its operation's order, and the result y.
ScanCall scan_of(const op::DeltaScan& params, std::span<const Operand> inputs, const Operand& y);
ScanCall scan_of(const op::SsmScan& params, std::span<const Operand> inputs, const Operand& y);

}  // namespace infer::gpu
