#include "gui/state/job_state.h"

#include <utility>

#include "platform/atomic_file.h"

namespace infer::gui {

void JobState::start(std::string title, Job job) {
  if (is_running()) return;
  title_ = std::move(title);
  progress_ = 0;
  last_.reset();
  job_ = engine_.start(std::move(job));
}

void JobState::save_trace(const std::string& path) {
  const auto* const report = last_ ? std::get_if<BenchReport>(&last_->report) : nullptr;
  if (report == nullptr || report->trace.empty()) return;
  saving_.submit([this, path, trace = report->trace] {
    const std::error_code failed = platform::replace_file(path, trace);
    saved_.push({path, failed ? failed.message() : std::string()});
  });
}

void JobState::poll() {
  for (const Saved& saved : saved_.take()) {
    if (saved.failure.empty()) {
      toasts_.tell(saved.path + " is written; open it at ui.perfetto.dev");
    } else {
      toasts_.fail(saved.path + ": cannot be written: " + saved.failure);
    }
  }
}

void JobState::see(const EngineEvent& event) {
  if (const auto* progress = std::get_if<JobProgress>(&event)) {
    if (progress->job == job_) progress_ = progress->done;
  } else if (std::holds_alternative<Loaded>(event)) {
    if (!is_running()) last_.reset();  // what was measured is of another model
  } else if (const auto* ended = std::get_if<JobEnded>(&event)) {
    if (ended->job != job_) return;
    job_ = 0;
    last_ = *ended;
    if (!ended->status.ok()) toasts_.fail(ended->status);
  }
}

}  // namespace infer::gui
