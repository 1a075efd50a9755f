#include "gui/state/job_state.h"

#include <utility>

namespace infer::gui {

void JobState::start(std::string title, Job job) {
  if (is_running()) return;
  title_ = std::move(title);
  progress_ = 0;
  last_.reset();
  job_ = engine_.start(std::move(job));
}

void JobState::see(const EngineEvent& event) {
  if (const auto* progress = std::get_if<JobProgress>(&event)) {
    if (progress->job == job_) progress_ = progress->done;
  } else if (const auto* ended = std::get_if<JobEnded>(&event)) {
    if (ended->job != job_) return;
    job_ = 0;
    last_ = *ended;
    if (!ended->status.ok()) toasts_.fail(ended->status);
  }
}

}  // namespace infer::gui
