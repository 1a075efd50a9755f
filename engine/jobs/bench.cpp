// Speed of prefill and decode beside what the machine can do, measured in the same run.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>

#include "engine/core/checked.h"
#include "engine/core/platform/large_pages.h"
#include "engine/jobs/bench_profile.h"
#include "engine/jobs/known_ceilings.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/energy.hpp"
#include "infer/jobs.hpp"

namespace infer {
namespace {

/// Steps of a generation that are recorded, at most: a trace of more is of no use to anybody.
constexpr int32_t kRecordedTokens = 64;

/// What is measured, of every model alike.
struct Test {
  bool prefill;
  int32_t tokens;
  int32_t depth;
  int32_t batch;

  std::string name() const {
    return fmt::format("{} {}", prefill ? "prefill" : "decode", tokens) +
           (depth > 0 ? fmt::format(" at {}", depth) : "");
  }
};

std::vector<Test> tests_of(const BenchOptions& options) {
  std::vector<Test> tests;
  for (const int32_t depth : options.depths) {
    for (const int32_t p : options.prompt_tokens) tests.push_back({true, p, depth, 1});
    for (const int32_t batch : options.batches) {
      for (const int32_t n : options.generate_tokens) tests.push_back({false, n, depth, batch});
    }
  }
  return tests;
}

/// Tokens of a text that makes no sense, another for each session: sequences that are alike would
/// choose the same experts.
std::vector<int32_t> random_tokens(int64_t count, int32_t vocabulary, int32_t session) {
  uint64_t state = static_cast<uint64_t>(session) * 0x9e3779b97f4a7c15u + 1;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    tokens.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

/// No steps while it lives.
class Hold {
 public:
  explicit Hold(Engine::Impl& engine) : engine_(engine) { engine_.thread->hold(true); }
  ~Hold() { engine_.thread->hold(false); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Engine::Impl& engine_;
};

/// Hands the steps of an engine to a recorder while it lives.
class Recording {
 public:
  Recording(Engine::Impl& engine, StepRecorder& recorder) : engine_(engine) { set(&recorder); }
  ~Recording() { set(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  void set(StepRecorder* recorder) {
    engine_.thread->call([&] { engine_.scheduler->set_recorder(recorder); });
  }
  Engine::Impl& engine_;
};

/// One loaded model with the sequences that are measured.
class Bench {
 public:
  static Result<Bench> load(const std::string& path, const LoadOptions& options, int32_t batch) {
    Bench bench;
    INFER_TRY(bench.engine_, Engine::load(path, options));
    if (bench.embeds()) return bench;
    for (int32_t i = 0; i < batch; ++i) {
      INFER_TRY(std::unique_ptr<Session> session, bench.engine_->open_session());
      bench.sessions_.push_back(std::move(session));
    }
    return bench;
  }

  /// What is done once before a test's repetitions: the context is computed, memory is touched.
  Status prepare(const Test& test) {
    for (int32_t i = 0; !embeds() && i < test.batch; ++i) INFER_CHECK(hold(i, context(test)));
    // Computing a context has warmed up the programs of prompts.
    if (test.prefill && test.depth > 0) return {};
    Test short_one = test;
    if (!test.prefill) short_one.tokens = std::min(test.tokens, 4);
    const Result<double> warm = measure(short_one);
    return warm ? Status() : warm.error();
  }

  /// Tokens per second of one repetition.
  Result<double> measure(const Test& test) {
    if (embeds()) return embed(test);
    for (int32_t i = 0; i < test.batch; ++i) INFER_CHECK_R(hold(i, context(test)));
    if (!test.prefill) return decode(test);
    INFER_TRY(const GenerateResult result, generate(0, test.tokens, 0));
    return test.tokens / result.prompt_seconds;
  }

  /// Ends what is measured now. Any thread.
  void cancel() {
    for (const std::unique_ptr<Session>& session : sessions_) session->cancel();
  }

  Engine::Impl& engine() { return EngineAccess::impl(*engine_); }
  /// Whether the model makes vectors of texts: then a prompt is a text, and nothing is generated.
  bool embeds() const { return engine_->makes_embeddings(); }
  const WeightTable& weights() { return *engine().opened.weights; }

 private:
  /// A decode begins with the step of one more token.
  static int64_t context(const Test& test) {
    return test.prefill ? test.depth : std::max(test.depth, 1) - 1;
  }

  Result<double> embed(const Test& test) {
    const auto begin = std::chrono::steady_clock::now();
    INFER_CHECK_R(
        done(engine().embed_tokens(random_tokens(test.tokens, engine_->vocabulary_size(), 0))));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return test.tokens / seconds.count();
  }
  static Status done(const Result<Embeddings>& made) { return made ? Status() : made.error(); }

  /// Makes a session hold so many tokens.
  Status hold(int32_t session, int64_t tokens) {
    Session& s = *sessions_[static_cast<size_t>(session)];
    if (s.length() > tokens) return s.truncate(tokens);
    if (s.length() == tokens) return {};
    const Result<GenerateResult> filled = generate(session, tokens - s.length(), 0);
    return filled ? Status() : filled.error();
  }

  Result<GenerateResult> generate(int32_t session, int64_t prompt, int32_t tokens) {
    GenerateOptions options;
    options.max_tokens = tokens;
    options.ignore_end = true;
    options.sampling.temperature = 0.0f;
    const std::vector<int32_t> text = random_tokens(prompt, engine_->vocabulary_size(), session);
    INFER_TRY(const GenerateResult result,
              sessions_[static_cast<size_t>(session)]->generate(
                  text, options, [](int32_t, std::string_view) { return true; }));
    if (result.reason == FinishReason::cancelled) {
      return fail(StatusCode::cancelled, "the benchmark was cancelled");
    }
    if (result.generated_tokens < tokens) {
      return fail(StatusCode::does_not_fit, "the context was full after {} of {} tokens",
                  result.generated_tokens, tokens);
    }
    return result;
  }

  /// All sequences begin in the same step, so that each of the `tokens` steps after it has a row of
  /// every one.
  Result<double> decode(const Test& test) {
    std::vector<Result<GenerateResult>> results(static_cast<size_t>(test.batch), GenerateResult());
    std::atomic<int32_t> ended{0};
    {
      std::vector<std::jthread> callers;
      callers.reserve(results.size());
      const Hold hold(engine());
      for (int32_t i = 0; i < test.batch; ++i) {
        callers.emplace_back([&, i] {
          results[static_cast<size_t>(i)] = generate(i, 1, test.tokens + 1);
          ++ended;
        });
      }
      for (int32_t waiting = 0; waiting + ended < test.batch;) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        engine().thread->call(
            [&] { waiting = static_cast<int32_t>(engine().scheduler->active()); });
      }
    }
    double longest = 0;
    for (const Result<GenerateResult>& result : results) {
      if (!result) return tl::unexpected(result.error());
      longest = std::max(longest, result->generate_seconds);
    }
    return static_cast<double>(test.batch) * test.tokens / longest;
  }

  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

/// Tells how far a benchmark is, and cancels it, without a call in what is measured.
class Watch {
 public:
  Watch(const ProgressFn& progress, std::vector<Bench>& benches, size_t measurements)
      : progress_(progress), benches_(benches), measurements_(measurements) {
    if (!progress_) return;
    ask();  // at least once, however short the benchmark is
    thread_ = std::jthread([this](const std::stop_token& end) { run(end); });
  }

  /// Called after each measurement.
  Status next() {
    ++done_;
    if (cancelled_) return error(StatusCode::cancelled, "the benchmark was cancelled");
    return {};
  }
  /// How the benchmark ended: by what the callback threw, if that cancelled it.
  Status ended(Status status) const {
    return status.code() == StatusCode::cancelled && !thrown_.ok() ? thrown_ : std::move(status);
  }

 private:
  void ask() {
    if (!call_back(thrown_, [&] { return progress_(share()); })) cancelled_ = true;
  }

  void run(const std::stop_token& end) {
    while (!end.stop_requested()) {
      if (!cancelled_) ask();
      // A cancel between two calls has no effect, hence again.
      if (cancelled_) {
        for (Bench& bench : benches_) bench.cancel();
      }
      std::this_thread::sleep_for(kWatched);
    }
  }

  double share() const {
    return std::min(static_cast<double>(done_) / static_cast<double>(measurements_), 1.0);
  }

  static constexpr std::chrono::milliseconds kWatched{50};
  const ProgressFn& progress_;
  std::vector<Bench>& benches_;
  const size_t measurements_;
  std::atomic<size_t> done_{0};
  Status thrown_;  ///< written before `cancelled_` is set
  std::atomic<bool> cancelled_{false};
  std::jthread thread_;  // the last member: it uses the others
};

Status check(const std::vector<std::string>& paths, const BenchOptions& options) {
  const auto good = [](const std::vector<int32_t>& counts, int32_t least) {
    return counts.empty() || std::ranges::min(counts) >= least;
  };
  if (!paths.empty() && options.repeats >= 1 && good(options.prompt_tokens, 1) &&
      good(options.generate_tokens, 1) && good(options.batches, 1) && good(options.depths, 0) &&
      !tests_of(options).empty()) {
    return {};
  }
  return error(StatusCode::invalid_argument,
               "expected at least one model, and lists of at least one prompt token or one token "
               "to generate, one sequence and a depth of 0, with one repeat");
}

/// Room for what every session may hold at once.
LoadOptions load_options(const BenchOptions& options) {
  const auto most = [](const std::vector<int32_t>& counts) {
    return counts.empty() ? int64_t{0} : int64_t{std::ranges::max(counts)};
  };
  LoadOptions load = options.load;
  load.prefix_reuse = false;  // every repetition computes all
  const int64_t batch = most(options.batches);
  load.output_rows = static_cast<int32_t>(std::max<int64_t>(load.output_rows, batch));
  load.batch_rows = std::max(load.batch_rows, load.output_rows);
  load.parallel = std::max(load.parallel, static_cast<int32_t>(batch));
  if (load.context == 0) {
    const int64_t decoded = most(options.generate_tokens) + 1;
    const auto pages = [&](int64_t tokens) {
      return round_up<int64_t>(most(options.depths) + tokens, kPageTokens);
    };
    load.context =
        pages(std::max(most(options.prompt_tokens), decoded)) + (batch - 1) * pages(decoded);
  }
  return load;
}

/// The larger of both, each on its own.
void raise(Ceilings& ceilings, const Ceilings& other) {
  ceilings.read_bandwidth_gb_s = std::max(ceilings.read_bandwidth_gb_s, other.read_bandwidth_gb_s);
  ceilings.int8_mac_g_s = std::max(ceilings.int8_mac_g_s, other.int8_mac_g_s);
  ceilings.prompt_mac_g_s = std::max(ceilings.prompt_mac_g_s, other.prompt_mac_g_s);
}

void raise(Ceilings& ceilings, Bench& bench) {
  Engine::Impl& engine = bench.engine();
  engine.thread->call([&] { raise(ceilings, engine.device().measure_ceilings()); });
}

/// For `infer plan`, which measures less. A folder that cannot be written is no failure.
void keep(Ceilings ceilings, const DeviceInfo& device, bool exact) {
  const std::string key = ceilings_key(device, exact);
  const std::string file = ceilings_file();
  // The highest rates seen are the ceilings.
  raise(ceilings, known_ceilings(file, key).value_or(Ceilings()));
  static_cast<void>(keep_ceilings(file, key, ceilings));
}

/// A prompt's arithmetic is that of its class.
Ceilings ceilings_of(const Test& test, Ceilings ceilings) {
  if (test.prefill && ceilings.prompt_mac_g_s > 0) ceilings.int8_mac_g_s = ceilings.prompt_mac_g_s;
  return ceilings;
}

struct Spread {
  double mean = 0;
  double relative = 0;  ///< standard deviation over the mean
};

Spread spread_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Spread spread{std::accumulate(values.begin(), values.end(), 0.0) / count, 0};
  double squares = 0;
  for (const double x : values) squares += std::pow(x - spread.mean, 2);
  if (count > 1) spread.relative = std::sqrt(squares / (count - 1)) / spread.mean;
  return spread;
}

/// What a test's tokens need at least; of a decode, what its middle step does.
Share fraction_of(const Test& test, double tokens_per_s, Bench& bench, const Ceilings& ceilings) {
  StepShape shape;
  shape.outputs = test.batch;
  if (test.prefill) {
    shape.parts = {{test.depth, test.tokens}};
  } else {
    const int64_t depth = std::max(test.depth, 1);
    shape.parts.assign(static_cast<size_t>(test.batch), {depth + (test.tokens - 1) / 2, 1});
  }
  Work work = bench.engine().executor->work(shape);
  const double seconds = static_cast<double>(shape.rows()) / tokens_per_s;
  work.attention_macs = 0;
  if (test.prefill) work.weight_bytes = work.cache_bytes = 0;
  // One sequence's decode is held against the bandwidth, whatever else it needs.
  if (!test.prefill && test.batch == 1) work.weight_macs = 0;
  return share_of_ceiling(work, seconds, ceilings);
}

/// The energy of a test's repetitions of one model.
class TestEnergy {
 public:
  void add(const EnergyMeter& meter, const EnergyMeter::Reading& from,
           const EnergyMeter::Reading& to) {
    const std::optional<double> joules = meter.joules(from, to);
    told_ = told_ && joules.has_value();
    joules_ += joules.value_or(0);
    seconds_ += std::chrono::duration<double>(to.at - from.at).count();
  }
  /// 0: not told, or for too short a time: RAPL counts once in a millisecond.
  double watts() const {
    constexpr double kLeastSeconds = 0.05;
    return told_ && seconds_ >= kLeastSeconds ? joules_ / seconds_ : 0;
  }

 private:
  bool told_ = true;
  double joules_ = 0;
  double seconds_ = 0;
};

/// One test of all models in turns. Ceilings are not known yet: fractions follow later.
Status run_test(const Test& test, const BenchOptions& options, const EnergyMeter& meter,
                std::vector<Bench>& benches, std::vector<BenchResult>& results, Watch& watch) {
  std::vector<std::vector<double>> rates(benches.size());
  std::vector<TestEnergy> energy(benches.size());
  for (Bench& bench : benches) {
    INFER_CHECK(bench.prepare(test));
    INFER_CHECK(watch.next());
  }
  for (int32_t r = 0; r < options.repeats; ++r) {
    for (size_t m = 0; m < benches.size(); ++m) {
      const EnergyMeter::Reading before = meter.read();
      INFER_TRY_S(const double rate, benches[m].measure(test));
      energy[m].add(meter, before, meter.read());
      rates[m].push_back(rate);
      INFER_CHECK(watch.next());
    }
  }
  for (size_t m = 0; m < benches.size(); ++m) {
    const Spread spread = spread_of(rates[m]);
    BenchResult& result = results.emplace_back();
    result.model = benches[m].engine().description.path;
    result.prefill = test.prefill;
    result.tokens = test.tokens;
    result.depth = test.depth;
    result.batch = test.batch;
    result.tokens_per_s = spread.mean;
    result.spread = spread.relative;
    result.watts = energy[m].watts();
    result.joules_per_token = result.watts / spread.mean;
  }
  return {};
}

/// One repetition more, with every step recorded. The context is there from those before.
Result<StepRecorder> record(Test test, Bench& bench) {
  // A device without threads of its own tells everything as one.
  int32_t threads = 1;
  const OpenedModel& opened = bench.engine().opened;
  for (size_t d = 0; d < opened.devices.size(); ++d) {
    const bool computes = opened.plan.devices[d].bytes[static_cast<size_t>(Purpose::weights)] > 0;
    if (computes) threads = std::max(threads, opened.devices[d]->info().threads);
  }
  StepRecorder recorder(threads);
  if (!test.prefill) test.tokens = std::min(test.tokens, kRecordedTokens);
  Result<double> rate = 0.0;
  {
    // A caller is told before the last step has quite ended; taking the recorder back waits for it.
    const Recording recording(bench.engine(), recorder);
    rate = bench.measure(test);
  }
  if (!rate) return tl::unexpected(rate.error());
  return recorder;
}

Result<BenchReport> run_bench(const std::vector<std::string>& paths, const BenchOptions& options) {
  INFER_CHECK_R(check(paths, options));
  const LoadOptions load = load_options(options);
  std::vector<Bench> benches;
  for (const std::string& path : paths) {
    INFER_TRY(Bench bench, Bench::load(path, load, std::ranges::max(options.batches)));
    benches.push_back(std::move(bench));
  }
  Ceilings ceilings;
  raise(ceilings, benches.front());
  std::vector<Test> tests = tests_of(options);
  if (std::ranges::any_of(benches, &Bench::embeds)) {
    std::erase_if(tests, [](const Test& test) { return !test.prefill || test.depth > 0; });
    if (tests.empty() || options.profile || options.trace) {
      return fail(StatusCode::unsupported,
                  "a model that makes vectors of texts has only prompts (-p) to measure, without a "
                  "context (-d), a profile or a trace");
    }
  }
  BenchReport report;
  const DeviceInfo device = benches.front().engine().device().info();
  const EnergyMeter meter({.gpus = device.isa.empty()});
  report.energy_sources = meter.sources();
  report.energy_unknown = meter.refused();
  std::vector<StepRecorder> recorders;
  TraceWriter trace;
  const size_t measurements =
      tests.size() * benches.size() * (static_cast<size_t>(options.repeats) + 1);
  Watch watch(options.progress, benches, measurements);
  for (const Test& test : tests) {
    INFER_CHECK_R(watch.ended(run_test(test, options, meter, benches, report.results, watch)));
    if (!options.profile && !options.trace) continue;
    for (size_t m = 0; m < benches.size(); ++m) {
      INFER_TRY(StepRecorder recorder, record(test, benches[m]));
      if (options.trace) {
        trace.add(static_cast<int32_t>(m), paths[m], test.name(), recorder.steps(),
                  benches[m].weights());
      }
      if (options.profile) recorders.push_back(std::move(recorder));
    }
  }
  raise(ceilings, benches.front());
  keep(ceilings, device, benches.front().engine().opened.exact);

  report.device = device.name;
  report.threads = device.threads;
  report.read_bandwidth_gb_s = ceilings.read_bandwidth_gb_s;
  report.streams = device.streams;
  report.large_page_bytes = os::large_page_bytes_held();
  report.int8_mac_g_s = ceilings.int8_mac_g_s;
  report.prompt_mac_g_s = ceilings.prompt_mac_g_s;
  for (size_t m = 0; m < benches.size(); ++m) {
    const Work token = benches[m].engine().executor->work(StepShape{{RowRange{}}, 1});
    report.models.push_back({paths[m], static_cast<int64_t>(token.weight_bytes)});
  }
  for (size_t i = 0; i < report.results.size(); ++i) {
    BenchResult& result = report.results[i];
    Bench& bench = benches[i % benches.size()];
    const Test& test = tests[i / benches.size()];
    const Ceilings own = ceilings_of(test, ceilings);
    const Share share = fraction_of(test, result.tokens_per_s, bench, own);
    result.fraction = share.fraction;
    result.bound = share.bound;
    if (!options.profile) continue;
    result.profile = profile_of(recorders[i].steps(), bench.weights(), own);
    result.profiled_steps = static_cast<int64_t>(recorders[i].steps().size());
  }
  if (options.trace) report.trace = trace.finish();
  return report;
}

}  // namespace

Result<BenchReport> bench(const std::vector<std::string>& paths, const BenchOptions& options) {
  return guarded([&] { return run_bench(paths, options); });
}

}  // namespace infer
