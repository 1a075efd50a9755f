// The table of recurrent_kernels.h, written once over the vector F of an instruction set.
#pragma once

#include "backends/cpu/recurrent_kernels.h"
#include "backends/cpu/simd/clean.h"
#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

/// N vectors of columns at once; the last one may have fewer than kW that count. A sum over rows
/// has one order, whether it is made on its own or while the token before writes.
template <int N, bool kCorrects, bool kByRow>
void scan_columns(const ScanToken& t, const ScanToken* next, float* sums, int64_t at,
                  int64_t count) {
  float* const state = t.state + at;
  F found[N];   // Sᵀwrite
  F result[N];  // Sᵀread
  for (int n = 0; n < N; ++n) found[n] = result[n] = F::zero();
  const auto meet = [&](F s, F w, F r, int n) {
    if constexpr (kCorrects) found[n] = fma(w, s, found[n]);
    result[n] = fma(r, s, result[n]);
  };
  // With a decay for each row, what meets S has it as a factor.
  const auto met_by = [](const ScanToken& token, const float* x, int64_t i) {
    return F::set(kByRow ? x[i] * token.decays[i] : x[i]);
  };
  if (t.met_state) {
    for (int n = 0; n < N; ++n) {
      found[n] = F::load(sums + at + n * kW);
      result[n] = F::load(sums + kScanColumns + at + n * kW);
    }
  } else if (!t.first) {
    for (int64_t i = 0; i < t.rows; ++i) {
      const F w = met_by(t, t.write, i);
      const F r = met_by(t, t.read, i);
      for (int n = 0; n < N; ++n) meet(F::load(state + i * t.pitch + n * kW), w, r, n);
    }
  }
  const F gain = F::set(t.gain);
  const float whole = kByRow ? 1.0f : t.decay;
  const F correction = F::set(-whole * t.write_scale);
  F change[N];
  for (int n = 0; n < N; ++n) {
    const int64_t left = count - n * kW;
    const float* const from = t.v + at + n * kW;
    const F v = left < kW ? load_part(from, left) : F::load(from);
    change[n] = gain * (kCorrects ? fma(correction, found[n], v) : v);
    F out = fma(F::set(t.met), change[n], result[n] * F::set(whole * t.read_scale));
    out = fma(F::set(t.pass), v, out);
    float* const to = t.out + at + n * kW;
    if (left < kW) {
      store_part(to, out, left);
    } else {
      out.store(to);
    }
    change[n] = change[n] * F::set(t.write_scale);
  }
  const auto written = [&](int64_t i, F w, int n) {
    const F decay = F::set(kByRow ? t.decays[i] : t.decay);
    float* const place = state + i * t.pitch + n * kW;
    const F s = fma(w, change[n], t.first ? F::zero() : F::load(place) * decay);
    s.store(place);
    return s;
  };
  if (next == nullptr) {
    for (int64_t i = 0; i < t.rows; ++i) {
      const F w = F::set(t.write[i]);
      for (int n = 0; n < N; ++n) written(i, w, n);
    }
    return;
  }
  for (int n = 0; n < N; ++n) found[n] = result[n] = F::zero();
  for (int64_t i = 0; i < t.rows; ++i) {
    const F w = F::set(t.write[i]);
    const F next_write = met_by(*next, next->write, i);
    const F next_read = met_by(*next, next->read, i);
    for (int n = 0; n < N; ++n) meet(written(i, w, n), next_write, next_read, n);
  }
  for (int n = 0; n < N; ++n) {
    found[n].store(sums + at + n * kW);
    result[n].store(sums + kScanColumns + at + n * kW);
  }
}

template <bool kCorrects, bool kByRow>
void scan_all(const ScanToken& t, const ScanToken* next, float* sums, int64_t columns) {
  constexpr int kMost = kW == 16 ? 4 : 2;
  int64_t at = 0;
  for (; columns - at > (kMost - 1) * kW; at += kMost * kW) {
    scan_columns<kMost, kCorrects, kByRow>(t, next, sums, at, columns - at);
  }
  for (; at < columns; at += kW) {
    scan_columns<1, kCorrects, kByRow>(t, next, sums, at, columns - at);
  }
}

void scan(const ScanToken& t, const ScanToken* next, float* sums, int64_t columns) {
  if (!t.corrects) return scan_all<false, false>(t, next, sums, columns);
  t.decays == nullptr ? scan_all<true, false>(t, next, sums, columns)
                      : scan_all<true, true>(t, next, sums, columns);
}

void scan_elements(const ScanElements& t, int64_t columns) {
  for (int64_t at = 0; at < columns; at += kW) {
    const int64_t left = columns - at;
    const auto load = [&](const float* p) {
      return left < kW ? load_part(p + at, left) : F::load(p + at);
    };
    const F step = softplus(load(t.step));
    const F x = load(t.x);
    const F change = step * x;
    F out = load(t.d) * x;
    for (int64_t i = 0; i < t.rows; ++i) {
      float* const place = t.state + i * t.pitch + at;
      F s = F::set(t.write[i]) * change;
      if (!t.first) s = fma(exp(F::load(t.a + i * kScanColumns + at) * step), F::load(place), s);
      s.store(place);
      out = fma(F::set(t.read[i]), s, out);
    }
    if (left < kW) {
      store_part(t.out + at, out, left);
    } else {
      out.store(t.out + at);
    }
  }
}

void decays(const float* step, const float* bias, float a, float bound, float* out, int64_t n) {
  const auto of = [&](F x) {
    if (bound < 0) return exp(F::set(bound) * sigmoid(F::set(a < 0 ? -a : a) * x));
    return exp(F::set(a) * softplus(x));
  };
  int64_t i = 0;
  for (; i + kW <= n; i += kW) of(F::load(step + i) + F::load(bias + i)).store(out + i);
  if (i == n) return;
  store_part(out + i, of(load_part(step + i, n - i) + load_part(bias + i, n - i)), n - i);
}

void pool(float* run, int64_t pitch, const float* gate, const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += kW) {
    const int64_t left = n - i;
    const auto load = [&](const float* p) {
      return left < kW ? load_part(p + i, left) : F::load(p + i);
    };
    const auto store = [&](F value, float* p) {
      left < kW ? store_part(p + i, value, left) : value.store(p + i);
    };
    const F exponent = load(gate);
    const F before = load(run);
    const F best = F::max(before, exponent);
    const F keep = exp(before - best);
    const F share = exp(exponent - best);
    const F sum = fma(load(run + pitch), keep, share);
    const F mix = fma(load(run + 2 * pitch), keep, share * load(x));
    store(best, run);
    store(sum, run + pitch);
    store(mix, run + 2 * pitch);
    if (out != nullptr) store(mix / sum, out);
  }
}

F conv_sum(const ConvToken& t, int64_t i, F x, F bias, int64_t count) {
  const auto load = [&](const float* p) { return count < kW ? load_part(p, count) : F::load(p); };
  F sum = bias;
  for (int64_t j = 0; j + 1 < t.taps; ++j) {
    if (t.before[j] == nullptr) continue;
    sum = fma(load(t.w + j * t.pitch + i), load(t.before[j] + i), sum);
  }
  sum = fma(load(t.w + (t.taps - 1) * t.pitch + i), x, sum);
  return t.silu ? sum * sigmoid(sum) : sum;
}

void conv(const ConvToken& t, int64_t channels) {
  int64_t i = 0;
  for (; i + kW <= channels; i += kW) {
    const F x = F::load(t.x + i);
    const F bias = t.bias == nullptr ? F::zero() : F::load(t.bias + i);
    conv_sum(t, i, x, bias, kW).store(t.y + i);
    x.store(t.keep + i);
  }
  if (i == channels) return;
  const int64_t left = channels - i;
  const F x = load_part(t.x + i, left);
  const F bias = t.bias == nullptr ? F::zero() : load_part(t.bias + i, left);
  store_part(t.y + i, conv_sum(t, i, x, bias, left), left);
  store_part(t.keep + i, x, left);
}

constexpr RecurrentOps kRecurrentOps{clean<scan>, clean<scan_elements>, clean<conv>, clean<decays>,
                                     clean<pool>};

}  // namespace
}  // namespace infer::cpu
