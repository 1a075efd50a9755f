// The C API of what an engine does: counts, histograms, devices in use.
#include "engine/session/c_api.h"

using namespace infer::c;

infer_status infer_engine_statistics(const infer_engine* engine, infer_engine_counts* counts,
                                     size_t counts_size) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (counts == nullptr) return null_argument("counts");
    const infer::EngineStatistics s = engine->engine->statistics();
    write_struct(infer_engine_counts{.seconds = s.seconds,
                                     .sessions = s.sessions,
                                     .calls_running = s.calls_running,
                                     .calls_waiting = s.calls_waiting,
                                     .calls_refused = s.calls_refused,
                                     .pages_total = s.pages.total,
                                     .pages_running = s.pages.running,
                                     .pages_idle = s.pages.idle,
                                     .pages_kept = s.pages.kept,
                                     .pages_free = s.pages.free,
                                     .prompt_tokens_per_s = s.prompt_tokens_per_s,
                                     .generated_tokens_per_s = s.generated_tokens_per_s,
                                     .steps = s.steps,
                                     .last_step_rows = s.last_step_rows,
                                     .prompt_tokens = s.prompt_tokens,
                                     .recomputed_tokens = s.recomputed_tokens,
                                     .generated_tokens = s.generated_tokens,
                                     .prefix_tokens = s.prefix_tokens,
                                     .prefix_tokens_found = s.prefix_tokens_found,
                                     .drafted_tokens = s.drafted_tokens,
                                     .accepted_tokens = s.accepted_tokens},
                 counts, counts_size);
    return {};
  });
}

infer_status infer_engine_histogram(const infer_engine* engine, int32_t which, double* bounds,
                                    int64_t* counts, size_t capacity, size_t* count, double* sum) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (count == nullptr) return null_argument("count");
    if (sum == nullptr) return null_argument("sum");
    const infer::EngineStatistics s = engine->engine->statistics();
    const infer::Histogram* const all[] = {&s.step_rows, &s.first_token_seconds,
                                           &s.next_token_seconds};
    if (which < 0 || which >= static_cast<int32_t>(std::size(all))) {
      return infer::error(StatusCode::invalid_argument, "histogram: expected 0 to {}, found {}",
                          std::size(all) - 1, which);
    }
    const infer::Histogram& h = *all[which];
    std::vector<double> upper = h.bounds;
    upper.push_back(std::numeric_limits<double>::infinity());
    size_t written = 0;
    INFER_CHECK(write_buffer(std::span<const double>(upper), bounds, capacity, &written));
    INFER_CHECK(write_buffer(std::span<const int64_t>(h.counts), counts, capacity, &written));
    *count = written;
    *sum = h.sum;
    return {};
  });
}

infer_status infer_engine_device_list_create(const infer_engine* engine, infer_device_list** list) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (list == nullptr) return null_argument("list");
    auto made = std::make_unique<infer_device_list>();
    list_in_c(engine->engine->devices(), *made);
    const infer::MemoryReport memory = engine->engine->memory();
    for (infer_device& device : made->items) {
      for (const infer::DeviceMemoryReport& used : memory.devices) {
        if (used.device != device.name) continue;
        device.weights = used.weights;
        device.kv = used.kv;
        device.activations = used.activations;
        device.scratch = used.scratch;
        device.other = used.other;
      }
    }
    *list = made.release();
    return {};
  });
}
