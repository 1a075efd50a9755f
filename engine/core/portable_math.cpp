#include "engine/core/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace infer::portable {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Adding this to |x| < 2^51 leaves a whole number in the lowest bits, the nearest to x.
constexpr double kWhole = 0x1.8p52;

/// ln 2 in two parts. The first has 32 bits: its products with small whole numbers are exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// v·2^n for −1100 < n < 1100, rounded once.
double scaled(double v, int64_t n) {
  const auto power = [](int64_t e) {
    return std::bit_cast<double>(static_cast<uint64_t>(e + 1023) << 52);
  };
  return v * power(n / 2) * power(n - n / 2);
}

// The kernels and their constants are those of Sun's fdlibm (1993), for |x| ≤ π/4 with `rest`, what
// x lacks of the reduced argument.

double sin_kernel(double x, double rest) {
  constexpr double kS[] = {-1.66666666666666324348e-01, 8.33333333332248946124e-03,
                           -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                           -2.50507602534068634195e-08, 1.58969099521155010221e-10};
  const double z = x * x;
  const double v = z * x;
  const double r = kS[1] + z * (kS[2] + z * (kS[3] + z * (kS[4] + z * kS[5])));
  return x - ((z * (0.5 * rest - v * r) - rest) - v * kS[0]);
}

double cos_kernel(double x, double rest) {
  constexpr double kC[] = {4.16666666666666019037e-02, -1.38888888888741095749e-03,
                           2.48015872894767294178e-05, -2.75573143513906633035e-07,
                           2.08757232129817482790e-09, -1.13596475577881948265e-11};
  const double z = x * x;
  const double r = z * (kC[0] + z * (kC[1] + z * (kC[2] + z * (kC[3] + z * (kC[4] + z * kC[5])))));
  const double half = 0.5 * z;
  const double w = 1 - half;
  return w + (((1 - w) - half) + (z * r - x * rest));
}

}  // namespace

/// 2^(n/8)·e^r with |r| ≤ ln 2/16, and the Taylor series of e^r to the eighth power.
double exp(double x) {
  static constexpr double kEighths[8] = {
      0x1.0000000000000p+0, 0x1.172b83c7d517bp+0, 0x1.306fe0a31b715p+0, 0x1.4bfdad5362a27p+0,
      0x1.6a09e667f3bcdp+0, 0x1.8ace5422aa0dbp+0, 0x1.ae89f995ad3adp+0, 0x1.d5818dcfba487p+0};
  if (!(x > -746.0)) return std::isnan(x) ? x : 0.0;
  if (x > 710.0) return kInfinity;
  const double shifted = x * (8 * std::numbers::log2e) + kWhole;
  const double n = shifted - kWhole;
  const auto whole = static_cast<int64_t>(n);
  const double r = (x - n * (kLn2High / 8)) - n * (kLn2Low / 8);
  const double r2 = r * r;
  const double p = (1.0 / 2 + r * (1.0 / 6)) + r2 * (1.0 / 24 + r * (1.0 / 120)) +
                   r2 * r2 * (1.0 / 720 + r * (1.0 / 5040) + r2 * (1.0 / 40320));
  const double base = kEighths[whole & 7];
  return scaled(base + base * (r + r2 * p), whole >> 3);
}

/// As fdlibm: x = 2^n·(1 + f) with 1 + f from √½ to √2, and log(1 + f) by powers of f/(2 + f).
double log(double x) {
  constexpr double kL[] = {6.666666666666735130e-01, 3.999999999940941908e-01,
                           2.857142874366239149e-01, 2.222219843214978396e-01,
                           1.818357216161805012e-01, 1.531383769920937332e-01,
                           1.479819860511658591e-01};
  if (!(x > 0)) return x == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
  if (x == kInfinity) return x;
  double n = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    n = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  n += static_cast<double>(static_cast<int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0xfffffffffffff) | (uint64_t{1023} << 52));
  if (m > std::numbers::sqrt2) {
    m *= 0.5;
    n += 1;
  }
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  const double w = z * z;
  const double even = w * (kL[1] + w * (kL[3] + w * kL[5]));
  const double odd = z * (kL[0] + w * (kL[2] + w * (kL[4] + w * kL[6])));
  const double half = 0.5 * f * f;
  // Of these two parts, 33 and 53 bits of ln 2, the products with n are exact and rounded once.
  constexpr double kHigh = 6.93147180369123816490e-01;
  constexpr double kLow = 1.90821492927058770002e-10;
  return n * kHigh - ((half - (s * (half + (even + odd)) + n * kLow)) - f);
}

/// log(1 + x) = log(u)·x/(u − 1) with u = 1 + x as it is rounded (Kahan).
double log1p(double x) {
  const double u = 1 + x;
  if (u == 1) return x;
  if (!(u < kInfinity)) return log(u);
  return u > 0 ? log(u) * (x / (u - 1)) : log(u);
}

double log2(double x) { return log(x) * std::numbers::log2e; }

double exp2(double x) {
  // A whole power has no other bits.
  const double whole = std::floor(x);
  if (!(whole > -1080 && whole < 1030)) return exp(x * std::numbers::ln2);
  return scaled(exp((x - whole) * std::numbers::ln2), static_cast<int64_t>(whole));
}

double pow(double base, double exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (exponent == 1) return base;
  if (base == 0) return exponent > 0 ? 0 : kInfinity;
  return exp(exponent * log(base));
}

CosSin cos_sin(double x) {
  // π/2 in parts of 33 bits, then the rest: products of the first two with n < 2^20 are exact.
  constexpr double kFirst = 1.57079632673412561417e+00;
  constexpr double kSecond = 6.07710050630396597660e-11;
  constexpr double kRest = 2.02226624879595063154e-21;
  constexpr double kMost = 0x1p20 * 1.5;
  if (!(std::fabs(x) < kInfinity)) return {x - x, x - x};
  if (std::fabs(x) > kMost) x = std::fmod(x, 2 * std::numbers::pi);  // which is exact
  const double n = (x * (2 / std::numbers::pi) + kWhole) - kWhole;
  const double first = x - n * kFirst;
  const double second = n * kSecond;
  const double high = first - second;
  const double low = n * kRest - ((first - high) - second);
  const double reduced = high - low;
  const double rest = (high - reduced) - low;
  const double c = cos_kernel(reduced, rest);
  const double s = sin_kernel(reduced, rest);
  switch (static_cast<int64_t>(n) & 3) {
    case 0: return {c, s};
    case 1: return {-s, c};
    case 2: return {-c, -s};
    default: return {s, -c};
  }
}

}  // namespace infer::portable
