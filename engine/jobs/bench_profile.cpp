#include "engine/jobs/bench_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/ops/op.h"

namespace infer {
namespace {

/// "attn_q" of "blk.7.attn_q.weight".
std::string short_name(const std::string& name) {
  size_t begin = 0;
  if (name.starts_with("blk.")) {
    const size_t dot = name.find('.', 4);
    if (dot != std::string::npos) begin = dot + 1;
  }
  constexpr std::string_view kEnding = ".weight";
  const size_t end = name.ends_with(kEnding) ? name.size() - kEnding.size() : name.size();
  return begin < end ? name.substr(begin, end - begin) : name;
}

/// The first weight of a node, which for products is the matrix; empty if it has none.
std::string weight_name(const Graph& graph, const Node& node, const WeightTable& weights) {
  for (const ValueId id : node.inputs) {
    if (id == kNoValue || graph.value(id).kind != Value::Kind::weight) continue;
    return short_name(weights.weight(graph.value(id).index).name);
  }
  return {};
}

std::string quoted(const std::string& text) {
  // Names come from files: not always UTF-8.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

struct Sum {
  int64_t calls = 0;
  int64_t ns = 0;
  int64_t dispatches = 0;
  int64_t barriers = 0;
  Work work;
};

}  // namespace

std::string phase_label(const Graph& graph, std::span<const int32_t> nodes,
                        const WeightTable& weights) {
  std::string label;
  std::string names;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.nodes()[static_cast<size_t>(nodes[i])];
    const std::string name = weight_name(graph, node, weights);
    if (!name.empty()) names.append(names.empty() ? "" : ",").append(name);
    const bool more =
        i + 1 < nodes.size() && graph.nodes()[static_cast<size_t>(nodes[i + 1])].op() == node.op();
    if (more) continue;
    label.append(label.empty() ? "" : "+").append(op_def(node.op()).name);
    if (!names.empty()) label.append("(").append(names).append(")");
    names.clear();
  }
  return label;
}

Share share_of_ceiling(const Work& work, double seconds, const Ceilings& ceilings) {
  const auto share = [seconds](double amount, double per_second) {
    return seconds > 0 && per_second > 0 ? amount / seconds / (per_second * 1e9) : 0;
  };
  const double bytes = share(work.weight_bytes + work.cache_bytes, ceilings.read_bandwidth_gb_s);
  const double macs = share(work.macs(), ceilings.int8_mac_g_s);
  if (bytes == 0 && macs == 0) return {};
  return bytes >= macs ? Share{bytes, BenchBound::bandwidth} : Share{macs, BenchBound::arithmetic};
}

std::vector<BenchOperation> profile_of(std::span<const RecordedStep> steps,
                                       const WeightTable& weights, const Ceilings& ceilings) {
  std::map<std::string, Sum> sums;
  int64_t total = 0;
  for (const RecordedStep& step : steps) {
    total += step.end() - step.start_ns;
    int64_t in_phases = 0;
    for (const PhaseEvent& event : step.phases.front()) {
      Sum& sum = sums[phase_label(*step.graph, event.nodes, weights)];
      ++sum.calls;
      sum.ns += event.end_ns - event.start_ns;
      sum.dispatches += event.dispatches;
      sum.barriers += event.barriers;
      in_phases += event.end_ns - event.start_ns;
      for (const int32_t node : event.nodes) {
        sum.work +=
            node_work(*step.graph, step.graph->nodes()[static_cast<size_t>(node)], step.shape);
      }
    }
    for (int i = 0; i < kStepParts; ++i) {
      const auto part = static_cast<StepPart>(i);
      Sum& sum = sums[std::string("host: ") + step_part_name(part)];
      ++sum.calls;
      sum.ns += step.end(part) - step.start(part) - (part == StepPart::compute ? in_phases : 0);
    }
  }
  std::vector<BenchOperation> operations;
  for (const auto& [name, sum] : sums) {
    const Share share = share_of_ceiling(sum.work, seconds(sum.ns), ceilings);
    operations.push_back({name, sum.calls, seconds(sum.ns),
                          total > 0 ? static_cast<double>(sum.ns) / static_cast<double>(total) : 0,
                          sum.work.bytes(), sum.work.macs(), sum.dispatches, sum.barriers,
                          share.fraction, share.bound});
  }
  std::ranges::stable_sort(operations, std::greater<>(), &BenchOperation::seconds);
  return operations;
}

void TraceWriter::item(const std::string& json) {
  events_.append(events_.empty() ? "" : ",\n").append(json);
}

void TraceWriter::complete(const std::string& name, int32_t process, size_t thread, int64_t start,
                           int64_t end) {
  item(fmt::format(R"({{"name":{},"ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{}}})",
                   quoted(name), static_cast<double>(start - origin_) * 1e-3,
                   static_cast<double>(end - start) * 1e-3, process, thread));
}

void TraceWriter::name(const char* what, int32_t process, size_t thread, const std::string& name) {
  item(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what,
                   process, thread, quoted(name)));
}

void TraceWriter::add(int32_t process, const std::string& model, const std::string& test,
                      std::span<const RecordedStep> steps, const WeightTable& weights) {
  if (steps.empty()) return;
  if (origin_ < 0) origin_ = steps.front().start_ns;
  const auto p = static_cast<size_t>(process);
  if (named_.size() <= p) named_.resize(p + 1);
  if (named_[p] == 0) name("process_name", process, 0, model);
  for (; named_[p] < steps.front().phases.size(); ++named_[p]) {
    name("thread_name", process, named_[p], fmt::format("thread {}", named_[p]));
  }
  for (const RecordedStep& step : steps) {
    complete(fmt::format("{}: {} rows", test, step.shape.rows()), process, 0, step.start_ns,
             step.end());
    for (int i = 0; i < kStepParts; ++i) {
      const auto part = static_cast<StepPart>(i);
      complete(step_part_name(part), process, 0, step.start(part), step.end(part));
    }
    for (size_t thread = 0; thread < step.phases.size(); ++thread) {
      for (const PhaseEvent& event : step.phases[thread]) {
        complete(phase_label(*step.graph, event.nodes, weights), process, thread, event.start_ns,
                 event.worked_ns);
        complete("wait", process, thread, event.worked_ns, event.end_ns);
      }
    }
  }
}

std::string TraceWriter::finish() const {
  return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events_ + "\n]}\n";
}

}  // namespace infer
