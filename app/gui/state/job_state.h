// The job that runs beside the chat: a benchmark, a selftest, making a model file. No drawing.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "gui/host/engine_host.h"
#include "gui/host/event_queue.h"
#include "gui/host/latest_task.h"
#include "gui/state/toasts.h"

namespace infer::gui {

class JobState {
 public:
  JobState(EngineHost& engine, Toasts& toasts, WakeFn wake)
      : engine_(engine), toasts_(toasts), saved_(std::move(wake)) {}

  /// `title`: what is shown while it runs, such as "Quantising llama.gguf to q4_k_m".
  void start(std::string title, Job job);
  void cancel() { engine_.cancel_job(); }
  bool is_running() const { return job_ != 0; }
  const std::string& title() const { return title_; }
  double progress() const { return progress_; }
  /// The last job that ended; null before the first.
  const JobEnded* last() const { return last_ ? &*last_ : nullptr; }
  /// Writes the trace of the last job, a benchmark, to a file. A message says what came of it.
  void save_trace(const std::string& path);

  void poll();
  void see(const EngineEvent& event);

 private:
  EngineHost& engine_;
  Toasts& toasts_;
  int64_t job_ = 0;
  std::string title_;
  double progress_ = 0;
  std::optional<JobEnded> last_;
  struct Saved {
    std::string path;
    std::string failure;  ///< empty: there is none
  };
  EventQueue<Saved> saved_;
  LatestTask saving_;  // the last member: it uses the others
};

}  // namespace infer::gui
