// Functions that drivers may compute coarsely, to within two units in the last place or so.

// e^x: x = n·ln 2 + r, |r| ≤ ln 2 / 2, and the series of e^r (to r^7 / 7!: below 2^-27 of it).
float exp_of(float x) {
  precise float c = clamp(x, -104.0, 89.0);
  precise float n = roundEven(c * 1.44269504088896341);
  precise float r = fma(n, -0.693145751953125, c);  // the upper bits of ln 2: n times them is exact
  r = fma(n, -1.42860682030941723e-6, r);
  precise float p = 1.0 / 5040.0;
  p = fma(p, r, 1.0 / 720.0);
  p = fma(p, r, 1.0 / 120.0);
  p = fma(p, r, 1.0 / 24.0);
  p = fma(p, r, 1.0 / 6.0);
  p = fma(p, r, 0.5);
  p = fma(p, r, 1.0);
  p = fma(p, r, 1.0);
  // 2^n in two factors, so that neither leaves the normal numbers.
  const int whole = int(n);
  const int lower = whole / 2;
  precise float y = p * intBitsToFloat((lower + 127) << 23);
  y = y * intBitsToFloat((whole - lower + 127) << 23);
  return isnan(x) ? x : y;
}

float sigmoid_of(float x) { return 1.0 / (1.0 + exp_of(-x)); }

float tanh_of(float x) {
  const float a = abs(x);
  if (a < 0.25) {  // the quotient below would lose what the subtraction cancels
    const float s = x * x;
    float p = 62.0 / 2835.0 - s * (1382.0 / 155925.0);
    p = -17.0 / 315.0 + s * p;
    p = 2.0 / 15.0 + s * p;
    p = -1.0 / 3.0 + s * p;
    return x + x * s * p;
  }
  const float y = 1.0 - 2.0 / (exp_of(2.0 * min(a, 20.0)) + 1.0);
  return isnan(x) ? x : (x < 0.0 ? -y : y);
}

// log(1 + e^x) = max(x, 0) + log(1 + t) with t = e^−|x|. log(1 + t) = 2·artanh(t / (2 + t)), and the
// series of artanh(s) (to s^15 / 15: below 2^-28 of it, since s ≤ 1/3).
float softplus_of(float x) {
  precise float t = exp_of(-abs(x));
  precise float s = t / (2.0 + t);
  precise float q = s * s;
  precise float p = 1.0 / 15.0;
  p = fma(p, q, 1.0 / 13.0);
  p = fma(p, q, 1.0 / 11.0);
  p = fma(p, q, 1.0 / 9.0);
  p = fma(p, q, 1.0 / 7.0);
  p = fma(p, q, 1.0 / 5.0);
  p = fma(p, q, 1.0 / 3.0);
  p = fma(p, q, 1.0);
  precise float y = fma(2.0 * s, p, max(x, 0.0));
  return isnan(x) ? x : y;
}

// (1 + tanh(z)) / 2 is the sigmoid of 2z.
float gelu_tanh(float x) {
  const precise float inner = 0.79788456080286536 * fma(0.044715 * x * x, x, x);
  const precise float y = x * sigmoid_of(2.0 * inner);
  return y;
}

// x·Φ(x) = max(x, 0) − |x|·Φ(−|x|). The tail is Φ(−a) = e^(−a²/2)·t·p(t) with t = 1 / (1 + 0.35·a); p
// is the Chebyshev fit of degree 8 for 0 ≤ a ≤ 13.5, within 4·10⁻⁸ of it (relative).
float gelu_of(float x) {
  const float a = abs(x);
  precise float t = 1.0 / fma(a, 0.35, 1.0);
  precise float p = -0.028900336;
  p = fma(p, t, 0.14286495);
  p = fma(p, t, -0.25362146);
  p = fma(p, t, 0.15701607);
  p = fma(p, t, -0.021789605);
  p = fma(p, t, 0.10501996);
  p = fma(p, t, 0.11993886);
  p = fma(p, t, 0.13984953);
  p = fma(p, t, 0.13962199);
  precise float tail = exp_of(-0.5 * a * a) * t * p;
  return a > 1e18 ? max(x, 0.0) : max(x, 0.0) - a * tail;
}
