// Speed of prefill and decode beside what the machine can do, measured in the same run.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/session/engine_impl.h"

namespace infer {
namespace {

/// What one second of each phase has to be compared with.
struct Limits {
  Ceilings ceilings;
  StepCost cost;
};

/// The only look into the engine. Measured on its own thread, while nothing else computes.
Limits measure_limits(Engine& engine) {
  Engine::Impl& impl = engine.impl();
  Limits limits{{}, impl.cost()};
  impl.call([&] { limits.ceilings = impl.device().measure_ceilings(); });
  return limits;
}

/// Tokens that no prefix of another prompt repeats; they need not make sense.
std::vector<int32_t> random_tokens(int32_t count, int32_t vocabulary) {
  uint64_t state = 1;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

BenchRate summarise(const std::vector<double>& tokens_per_s, int64_t tokens) {
  const auto count = static_cast<double>(tokens_per_s.size());
  BenchRate rate;
  rate.tokens = tokens;
  rate.tokens_per_s = std::accumulate(tokens_per_s.begin(), tokens_per_s.end(), 0.0) / count;
  double squares = 0;
  for (const double x : tokens_per_s) squares += std::pow(x - rate.tokens_per_s, 2);
  if (count > 1) rate.spread = std::sqrt(squares / (count - 1)) / rate.tokens_per_s;
  return rate;
}

/// A prompt in a new session and `steps` decode steps after it.
Result<GenerateResult> measure(Engine& engine, std::span<const int32_t> prompt, int32_t steps) {
  GenerateOptions options;
  options.max_tokens = steps + 1;  // the first token comes with the prompt
  options.ignore_end = true;
  options.sampling.temperature = 0.0f;
  INFER_TRY(const std::unique_ptr<Session> session, engine.open_session());
  return session->generate(prompt, options, [](int32_t, std::string_view) { return true; });
}

double share(double per_second, double of) { return of > 0 ? per_second / of : 0; }

Result<BenchReport> run_bench(const std::string& path, const BenchOptions& options) {
  const int32_t p = options.prompt_tokens;
  const int32_t n = options.generate_tokens;
  if (p < 1 || n < 1 || options.repeats < 1) {
    return fail(StatusCode::invalid_argument,
                "expected at least one prompt token, one token to generate and one repeat");
  }
  LoadOptions load = options.load;
  if (load.context == 0) load.context = int64_t{p} + n + 1;
  INFER_TRY(const std::unique_ptr<Engine> engine, Engine::load(path, load));
  const Limits limits = measure_limits(*engine);
  const std::vector<int32_t> prompt = random_tokens(p, engine->vocabulary_size());
  INFER_TRY(const GenerateResult warm, measure(*engine, prompt, std::min(n, 4)));
  (void)warm;

  std::vector<double> prefill;
  std::vector<double> decode;
  for (int32_t i = 0; i < options.repeats; ++i) {
    INFER_TRY(const GenerateResult result, measure(*engine, prompt, n));
    prefill.push_back(p / result.prompt_seconds);
    decode.push_back(n / result.generate_seconds);
  }

  const DeviceInfo device = engine->impl().device().info();
  BenchReport report;
  report.model = path;
  report.device = device.name;
  report.threads = device.threads;
  report.read_bandwidth_gb_s = limits.ceilings.read_bandwidth_gb_s;
  report.int8_mac_g_s = limits.ceilings.int8_mac_g_s;
  report.weights_bytes = limits.cost.weight_bytes;
  report.prefill = summarise(prefill, p);
  report.decode = summarise(decode, n);
  const double macs = static_cast<double>(limits.cost.macs_per_token) +
                      static_cast<double>(limits.cost.macs_per_output) / p;
  report.prefill.fraction =
      share(report.prefill.tokens_per_s * macs, limits.ceilings.int8_mac_g_s * 1e9);
  // Step i of n reads the keys and values of p + i + 1 tokens.
  const double cached = p + (n + 1) / 2.0;
  const double bytes = static_cast<double>(limits.cost.weight_bytes) +
                       static_cast<double>(limits.cost.kv_bytes_per_token) * cached;
  report.decode.fraction =
      share(report.decode.tokens_per_s * bytes, limits.ceilings.read_bandwidth_gb_s * 1e9);
  return report;
}

}  // namespace

Result<BenchReport> bench(const std::string& path, const BenchOptions& options) {
  return guarded([&] { return run_bench(path, options); });
}

}  // namespace infer
