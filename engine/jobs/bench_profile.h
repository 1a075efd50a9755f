// What recorded steps tell: time by operation beside its work, and a trace for a viewer.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/backend/device.h"
#include "engine/exec/step_recorder.h"
#include "engine/model/builder.h"
#include "infer/jobs.hpp"

namespace infer {

/// The operations that nodes stand for, with the names of their weights without layer and ending:
/// "rms_norm(attn_norm)+matmul(attn_q,attn_k,attn_v)".
std::string phase_label(const Graph& graph, std::span<const int32_t> nodes,
                        const WeightTable& weights);

/// The part of what a second could hold at most that `work` in `seconds` is, and which ceiling
/// binds: weights and cache over the bandwidth, or multiply-accumulates over their rate. Other
/// values count for neither: they stay in the processor's caches.
struct Share {
  double fraction = 0;
  BenchBound bound = BenchBound::none;
};
Share share_of_ceiling(const Work& work, double seconds, const Ceilings& ceilings);

/// Time of thread 0 by phase and, as "host: …", of the rest of the steps; the longest first.
std::vector<BenchOperation> profile_of(std::span<const RecordedStep> steps,
                                       const WeightTable& weights, const Ceilings& ceilings);

/// Trace events as chrome://tracing and Perfetto read them ("Trace Event Format", Duffy & Sinclair
/// 2016): complete events in µs, a process a model, a track a thread.
class TraceWriter {
 public:
  /// Steps of one measurement of the model numbered `process`.
  void add(int32_t process, const std::string& model, const std::string& test,
           std::span<const RecordedStep> steps, const WeightTable& weights);
  /// The whole as JSON.
  std::string finish() const;

 private:
  void complete(const std::string& name, int32_t process, size_t thread, int64_t start,
                int64_t end);
  void name(const char* what, int32_t process, size_t thread, const std::string& name);
  void item(const std::string& json);

  std::string events_;
  int64_t origin_ = -1;
  std::vector<size_t> named_;  ///< threads named so far, by process
};

}  // namespace infer
