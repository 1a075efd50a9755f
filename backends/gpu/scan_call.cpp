#include "backends/gpu/scan_call.h"

namespace infer::gpu {

ScanCall scan_of(const op::DeltaScan& p, std::span<const Operand> inputs, const Operand& y) {
  return {.write = inputs[1],
          .read = inputs[0],
          .v = inputs[2],
          .y = y,
          .size = inputs[3],
          .gain = inputs[4],
          .a = inputs[5],
          .bias = inputs[6],
          .pass = {},
          .slots = inputs[7],
          .sequences = inputs[8],
          .kv_layer = p.kv_layer,
          .at = p.at,
          .write_scale = p.k_scale,
          .read_scale = p.q_scale,
          .tiled = p.tiled,
          .by_channel = p.by_channel,
          .bound = p.bound};
}

ScanCall scan_of(const op::SsmScan& p, std::span<const Operand> inputs, const Operand& y) {
  return {.write = inputs[1],
          .read = inputs[2],
          .v = inputs[0],
          .y = y,
          .size = inputs[3],
          .gain = {},
          .a = inputs[4],
          .bias = inputs[5],
          .pass = inputs[6],
          .slots = inputs[7],
          .sequences = inputs[8],
          .kv_layer = p.kv_layer,
          .at = p.at,
          .slope = p.slope,
          .by_element = p.by_element};
}

}  // namespace infer::gpu
