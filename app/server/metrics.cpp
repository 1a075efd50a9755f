#include "server/metrics.h"

#include <fmt/format.h>

#include <tuple>

namespace infer::server {
namespace {

/// A text as the value of a label.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

struct Sample {
  std::string label;  ///< of the model
  EngineStatistics now;
  MemoryReport memory;
  int64_t refused;  ///< requests
};

/// Lines of the text format, one metric after the other, each of all models.
class Lines {
 public:
  explicit Lines(std::vector<Sample> samples) : samples_(std::move(samples)) {}

  void metric(const char* name, const char* type, const char* help) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void value(std::string_view name, const std::string& labels, double value) {
    text += fmt::format("{}{}{}{} {}\n", name, labels.empty() ? "" : "{", labels,
                        labels.empty() ? "" : "}", value);
  }
  /// `of(sample)`: the value.
  template <typename Of>
  void each(const char* name, const char* type, const char* help, Of of) {
    metric(name, type, help);
    for (const Sample& sample : samples_) {
      value(name, sample.label, static_cast<double>(of(sample)));
    }
  }
  template <typename Of>
  void counter(const char* name, const char* help, Of of) {
    each(name, "counter", help, of);
  }
  template <typename Of>
  void gauge(const char* name, const char* help, Of of) {
    each(name, "gauge", help, of);
  }
  /// `of(sample)`: pairs of a label's value and a number.
  template <typename Of>
  void parts(const char* name, const char* help, const char* label, Of of) {
    metric(name, "gauge", help);
    for (const Sample& sample : samples_) {
      for (const auto& [part, number] : of(sample)) {
        value(name, fmt::format("{},{}=\"{}\"", sample.label, label, quoted(part)),
              static_cast<double>(number));
      }
    }
  }
  void histogram(const char* name, const char* help, Histogram EngineStatistics::*of) {
    metric(name, "histogram", help);
    const std::string base = name;
    for (const Sample& sample : samples_) {
      const Histogram& values = sample.now.*of;
      for (size_t i = 0; i < values.bounds.size(); ++i) {
        value(base + "_bucket", fmt::format("{},le=\"{}\"", sample.label, values.bounds[i]),
              static_cast<double>(values.counts[i]));
      }
      const auto all = static_cast<double>(values.counts.empty() ? 0 : values.counts.back());
      value(base + "_bucket", sample.label + ",le=\"+Inf\"", all);
      value(base + "_sum", sample.label, values.sum);
      value(base + "_count", sample.label, all);
    }
  }

  std::string text;

 private:
  std::vector<Sample> samples_;
};

using Parts = std::vector<std::pair<std::string, int64_t>>;

}  // namespace

void Metrics::count_request(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

std::string Metrics::text(const std::vector<MeasuredModel>& models, const SpanCounts* spans) const {
  const auto label = [](const MeasuredModel& model) {
    return fmt::format("model_name=\"{}\"", quoted(model.name));
  };
  std::vector<Sample> samples;
  for (const MeasuredModel& model : models) {
    if (model.model == nullptr) continue;
    const Engine& engine = model.model->engine();
    samples.push_back({label(model), engine.statistics(), engine.memory(), model.model->refused()});
  }
  Lines lines(std::move(samples));
  lines.metric("infer_http_requests_total", "counter",
               "Requests by path and status; 0: the client went away before the answer");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, count] : requests_) {
      lines.value("infer_http_requests_total",
                  fmt::format("path=\"{}\",status=\"{}\"", quoted(key.first), key.second),
                  static_cast<double>(count));
    }
  }
  lines.metric("infer_unknown_fields_total", "counter",
               "Fields of requests that have no effect here");
  lines.value("infer_unknown_fields_total", "", static_cast<double>(unknown_fields_));
  if (spans != nullptr) {
    lines.metric("infer_trace_spans_exported_total", "counter",
                 "Spans of traces that the collector took");
    lines.value("infer_trace_spans_exported_total", "", static_cast<double>(spans->exported));
    lines.metric("infer_trace_spans_dropped_total", "counter",
                 "Spans of traces that were not sent, or that the collector did not take");
    lines.value("infer_trace_spans_dropped_total", "", static_cast<double>(spans->dropped));
  }
  lines.metric("infer_model_loaded", "gauge", "Whether a model is loaded");
  for (const MeasuredModel& model : models) {
    lines.value("infer_model_loaded", label(model), model.model == nullptr ? 0 : 1);
  }
  lines.gauge("infer_num_requests_running", "Calls whose tokens are in the cache",
              [](const Sample& s) { return s.now.calls_running; });
  lines.gauge("infer_num_requests_waiting", "Calls that wait for a place",
              [](const Sample& s) { return s.now.calls_waiting; });
  lines.counter("infer_requests_refused_total", "Requests refused because too many waited",
                [](const Sample& s) { return s.refused; });
  lines.counter("infer_prompt_tokens_total", "Prompt tokens computed",
                [](const Sample& s) { return s.now.prompt_tokens; });
  lines.counter("infer_generation_tokens_total", "Tokens generated",
                [](const Sample& s) { return s.now.generated_tokens; });
  lines.counter("infer_recomputed_tokens_total", "Tokens computed again",
                [](const Sample& s) { return s.now.recomputed_tokens; });
  lines.counter("infer_prefix_cache_queries_total", "Tokens looked up in the cache",
                [](const Sample& s) { return s.now.prefix_tokens; });
  lines.counter("infer_prefix_cache_hits_total", "Tokens found there",
                [](const Sample& s) { return s.now.prefix_tokens_found; });
  lines.counter("infer_spec_decode_num_draft_tokens_total", "Tokens proposed by drafters",
                [](const Sample& s) { return s.now.drafted_tokens; });
  lines.counter("infer_spec_decode_num_accepted_tokens_total", "Proposed tokens that were right",
                [](const Sample& s) { return s.now.accepted_tokens; });
  lines.counter("infer_steps_total", "Steps computed", [](const Sample& s) { return s.now.steps; });
  lines.gauge("infer_kv_cache_usage_perc", "Share of the cache that sessions hold, 0 to 1",
              [](const Sample& s) {
                const auto used = static_cast<double>(s.now.pages.running + s.now.pages.idle);
                return s.now.pages.total > 0 ? used / static_cast<double>(s.now.pages.total) : 0;
              });
  lines.parts("infer_kv_cache_pages", "Pages of the cache by who holds them", "state",
              [](const Sample& s) {
                return Parts{{"running", s.now.pages.running},
                             {"idle", s.now.pages.idle},
                             {"kept", s.now.pages.kept},
                             {"free", s.now.pages.free}};
              });
  lines.parts("infer_memory_bytes", "Memory by purpose", "purpose", [](const Sample& s) {
    return Parts{{"weights", s.memory.weights},
                 {"kv", s.memory.kv},
                 {"activations", s.memory.activations},
                 {"scratch", s.memory.scratch},
                 {"host", s.memory.host},
                 {"process", s.memory.process},
                 {"draft", s.memory.draft}};
  });
  for (const auto& [name, help, value] :
       {std::tuple{"infer_gpu_busy_ratio",
                   "Share of the time in which a GPU computes, all programs", &GpuTelemetry::busy},
        {"infer_gpu_temperature_celsius", "Temperature of a GPU", &GpuTelemetry::celsius},
        {"infer_gpu_power_watts", "Power that a GPU takes", &GpuTelemetry::watts}}) {
    lines.parts(name, help, "gpu", [value = value](const Sample& s) {
      std::vector<std::pair<std::string, double>> known;
      for (const GpuTelemetry& gpu : s.now.gpus) {
        if (gpu.*value) known.emplace_back(gpu.name, *(gpu.*value));
      }
      return known;
    });
  }
  lines.parts("infer_gpu_memory_used_bytes", "Memory of a GPU in use, all programs", "gpu",
              [](const Sample& s) {
                Parts known;
                for (const GpuTelemetry& gpu : s.now.gpus) {
                  if (gpu.memory_used) known.emplace_back(gpu.name, *gpu.memory_used);
                }
                return known;
              });
  lines.gauge("infer_prompt_tokens_per_second", "Mean of the last 5 seconds",
              [](const Sample& s) { return s.now.prompt_tokens_per_s; });
  lines.gauge("infer_generation_tokens_per_second", "Mean of the last 5 seconds",
              [](const Sample& s) { return s.now.generated_tokens_per_s; });
  lines.histogram("infer_time_to_first_token_seconds", "From a call to its first token",
                  &EngineStatistics::first_token_seconds);
  lines.histogram("infer_time_per_output_token_seconds", "From one token of a call to the next",
                  &EngineStatistics::next_token_seconds);
  lines.histogram("infer_step_rows", "Rows that a step computes", &EngineStatistics::step_rows);
  return lines.text;
}

}  // namespace infer::server
