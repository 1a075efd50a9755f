// Kernels of recurrent layers, one table for each instruction set.
//
// A column of a state is computed from that column alone, along its rows in ascending order. So it
// makes no difference how columns are shared out.
#pragma once

#include <cstdint>

namespace infer::cpu {

/// One token of a head's scan, for `columns` columns of its state S (graph/params.h: DeltaScan,
/// SsmScan):
///   change = gain·(v − keep·Sᵀwrite), or gain·v;  out = out_old + out_state·Sᵀread + …
struct ScanToken {
  float* state;   ///< S, `rows` rows
  int64_t pitch;  ///< elements from one row of S to the next
  int64_t rows;
  const float* write;   ///< [rows]: what a change is written along
  const float* read;    ///< [rows]
  const float* v;       ///< [columns]
  float* out;           ///< [columns]
  float decay;          ///< of S
  const float* decays;  ///< [rows]: of each row of S, in place of that; or null
  float gain;
  float write_scale;  ///< of what is written
  float read_scale;   ///< of what is read
  float met;          ///< write_scale·read_scale·Σ write·read
  float pass;         ///< of v, added to what is read
  bool corrects;      ///< the change is what v differs by from what S has along `write`
  bool first;         ///< S is zero, whatever its memory holds
  bool met_state;     ///< `sums` hold Sᵀwrite and Sᵀread already
};

/// One token of a scan whose elements have decays of their own (op::SsmScan by element), for
/// columns of a head's state.
struct ScanElements {
  float* state;   ///< S, `rows` rows
  int64_t pitch;  ///< elements from one row of S to the next
  int64_t rows;
  const float* a;      ///< [rows][kScanColumns]
  const float* write;  ///< [rows]
  const float* read;   ///< [rows]
  const float* step;   ///< [columns]: what Δ is made of
  const float* x;      ///< [columns]
  const float* d;      ///< [columns]
  float* out;          ///< [columns]
  bool first;          ///< S is zero, whatever its memory holds
};

/// One token of a causal convolution, for `channels` channels.
struct ConvToken {
  const float* x;
  float* y;
  const float* w;  ///< [taps][pitch]
  int64_t pitch;   ///< elements from one tap's weights to the next one's
  int64_t taps;
  const float* bias;           ///< may be null
  const float* const* before;  ///< by tap but the last: its inputs; null: zero
  float* keep;                 ///< where x is kept; may be the first of `before`
  bool silu;
};

/// Columns of a scan at once.
inline constexpr int64_t kScanColumns = 64;

struct RecurrentOps {
  /// `next`: the token that meets the state next, whose Sᵀwrite and Sᵀread are left in `sums`
  /// [2][kScanColumns] while S is being written; null: another state follows. At most kScanColumns
  /// columns.
  void (*scan)(const ScanToken& token, const ScanToken* next, float* sums, int64_t columns);
  /// At most kScanColumns columns.
  void (*scan_elements)(const ScanElements& token, int64_t columns);
  void (*conv)(const ConvToken& token, int64_t channels);
  /// out[i] = exp(a·softplus(step[i] + bias[i])), or with bound < 0
  /// exp(bound·σ(|a|·(step[i] + bias[i]))).
  void (*decays)(const float* step, const float* bias, float a, float bound, float* out, int64_t n);
  /// Takes x[i] with the weight exp(gate[i]) into the running mean of element i (op::
  /// BlockPool): `run` has the largest exponent, the sum of weights and that of weighted x, `pitch`
  /// apart each. out[i], unless it is null: the mean.
  void (*pool)(float* run, int64_t pitch, const float* gate, const float* x, float* out, int64_t n);
};

}  // namespace infer::cpu
