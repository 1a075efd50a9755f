// Functions of numbers with the same bits on every processor and with every C library, which
// std::exp and its kin do not have: their last bit depends on the version and on the processor.
// What decides logits or tokens uses these. They are within two units in the last place.
//
// The bits follow from IEEE 754 alone: additions, multiplications and divisions in double, in the
// order written, none of them fused (-ffp-contract=off).
#pragma once

namespace infer::portable {

/// e^x. 0 below −745.2, infinite above 709.8.
double exp(double x);
/// The natural logarithm: −∞ of 0, NaN of what is negative.
double log(double x);
/// log(1 + x), also for small x.
double log1p(double x);
double log2(double x);
double exp2(double x);
/// 1/(1 + e^−x).
inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }
/// base^exponent for base ≥ 0. Its relative error grows with |exponent·log base|.
double pow(double base, double exponent);

struct CosSin {
  double cos, sin;
};
/// Of an angle in radians. Beyond 1.6 million the absolute error grows to |x|·10⁻¹⁶.
CosSin cos_sin(double x);

}  // namespace infer::portable
