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
