#include "gui/host/job_runner.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>

#include "gui/host/guard.h"

namespace infer::gui {
namespace {

/// What a tokenizer takes at once.
constexpr std::streamoff kMostTextBytes = std::streamoff{64} << 20;

Result<std::string> read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size > kMostTextBytes) {
    return tl::unexpected(Status(StatusCode::invalid_argument,
                                 path + ": expected a text of at most 64 MiB; use a part of it"));
  }
  std::string text(static_cast<size_t>(size < 0 ? 0 : size), '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (size < 0 || !file) {
    const int code = errno == 0 ? EIO : errno;
    return tl::unexpected(Status(code == ENOENT ? StatusCode::not_found : StatusCode::io,
                                 path + ": cannot read: " + std::generic_category().message(code)));
  }
  return text;
}

/// Does a job of each kind. `go_on` gets the progress and says whether to go on.
struct Doing {
  const ProgressFn& go_on;
  JobReport& report;

  template <typename T>
  Status keep(Result<T> result) const {
    if (!result) return result.error();
    report = *std::move(result);
    return {};
  }

  Status operator()(BenchJob job) const {
    job.options.progress = go_on;
    job.options.load.progress = [this](double) { return go_on(0); };
    return keep(bench(job.models, job.options));
  }
  Status operator()(SelftestJob job) const {
    job.options.progress = go_on;
    return keep(selftest(job.options, job.only));
  }
  Status operator()(QuantizeJob job) const {
    job.options.progress = go_on;
    return keep(quantize(job.input, job.output, job.options));
  }
  Status operator()(ConvertJob job) const {
    job.options.progress = go_on;
    return keep(convert(job.input, job.output, job.options));
  }
  Status operator()(ImportanceJob job) const {
    const Result<std::string> text = read_text(job.text_file);
    if (!text) return text.error();
    job.options.load.progress = [this](double) { return go_on(0); };
    job.options.on_chunk = [this](int64_t done, int64_t all) {
      return go_on(all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0);
    };
    return keep(measure_importance(job.model, *text, job.output, job.options));
  }
};

Merge merge_progress(EngineEvent& waiting, EngineEvent& next) {
  auto* const before = std::get_if<JobProgress>(&waiting);
  if (before == nullptr) return Merge::look_on;
  const JobProgress& now = std::get<JobProgress>(next);
  if (before->job != now.job) return Merge::no;
  *before = now;
  return Merge::done;
}

}  // namespace

JobRunner::~JobRunner() {
  cancel();
  task_.finish();
}

int64_t JobRunner::start(Job job) {
  int64_t number = 0;
  bool busy = false;
  {
    const std::lock_guard lock(mutex_);
    number = ++last_;
    busy = std::exchange(running_, true);
    if (!busy) cancelled_ = false;
  }
  if (busy) {
    JobEnded ended;
    ended.job = number;
    ended.status = {StatusCode::busy, "another job is running; cancel it, or wait for its end"};
    events_.push(std::move(ended));
    return number;
  }
  task_.submit([this, number, job = std::move(job)] { run(number, job); });
  return number;
}

void JobRunner::run(int64_t number, const Job& job) {
  const auto start = std::chrono::steady_clock::now();
  JobEnded ended;
  ended.job = number;
  const ProgressFn go_on = [&](double done) {
    events_.push(JobProgress{number, done}, merge_progress);
    return !cancelled_;
  };
  ended.status = guarded([&]() -> Status {
    if (!go_on(0)) return {StatusCode::cancelled, "the job was cancelled"};
    if (Status done = std::visit(Doing{go_on, ended.report}, job); !done.ok()) return done;
    const auto* const bench = std::get_if<BenchReport>(&ended.report);
    if (bench == nullptr || bench->trace.empty()) return {};
    Result<Trace> trace = parse_trace(bench->trace);
    if (!trace) return trace.error();
    ended.trace = std::make_shared<const Trace>(*std::move(trace));
    return {};
  });
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  events_.push(std::move(ended));
}

}  // namespace infer::gui
