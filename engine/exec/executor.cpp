#include "engine/exec/executor.h"

#include <algorithm>
#include <cstring>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Status run_cancelled() { return error(StatusCode::cancelled, "loading was cancelled"); }

}  // namespace

StepShape StepBatch::shape() const {
  StepShape shape;
  shape.outputs = static_cast<int64_t>(output_rows.size());
  for (size_t r = 0; r < tokens.size(); ++r) {
    if (r > 0 && sequences[r] == sequences[r - 1] && slots[r] == slots[r - 1] + 1) {
      ++shape.parts.back().count;
    } else {
      shape.parts.push_back({slots[r], 1});
    }
  }
  return shape;
}

void StepBatch::clear() {
  tokens.clear();
  positions.clear();
  slots.clear();
  sequences.clear();
  output_rows.clear();
}

Result<CompiledStep*> ProgramCache::get(int64_t rows) {
  const auto it = programs_.find(rows);
  if (it != programs_.end()) return &it->second;
  INFER_TRY(CompiledStep made, make_(rows));
  return &programs_.emplace(rows, std::move(made)).first->second;
}

Executor::Executor(const Model& model, const WeightTable& weights, Device& device,
                   const PlanRequest& request)
    : model_(model),
      weights_(weights),
      device_(device),
      request_(request),
      programs_([this](int64_t rows) { return compile(rows); }) {}

Result<std::unique_ptr<Executor>> Executor::create(const Model& model, const WeightTable& weights,
                                                   Device& device, const PlanRequest& request,
                                                   const MemoryPlan& plan,
                                                   const std::function<bool(double)>& progress) {
  std::unique_ptr<Executor> executor(new Executor(model, weights, device, request));
  const auto bytes = [&](Purpose purpose) { return plan.bytes[static_cast<size_t>(purpose)]; };
  INFER_TRY(executor->arena_, device.alloc(bytes(Purpose::activations), Purpose::activations));
  INFER_TRY(executor->scratch_, device.alloc(bytes(Purpose::scratch), Purpose::scratch));
  executor->spilled_ = plan.spilled;
  INFER_CHECK_R(executor->load_weights(plan, progress));
  INFER_CHECK_R(executor->load_ropes(plan.context));
  // The program of single tokens serves every decode step: made now, so that a model that cannot be
  // compiled fails while loading.
  INFER_TRY(const CompiledStep* decode, executor->programs_.get(1));
  executor->decode_graph_ = decode->graph.get();
  return executor;
}

Status Executor::load_weights(const MemoryPlan& plan, const std::function<bool(double)>& progress) {
  const WeightSource& source = weights_.source();
  const std::span<const Weight> all = source.weights();
  weight_memory_.assign(all.size(), {});
  int64_t total = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (plan.weight_places[i].buffer >= 0) total += all[i].desc.extent_bytes();
  }
  if (!request_.weights_mapped) {
    for (const int64_t bytes : plan.weight_buffers) {
      INFER_TRY_S(weight_buffers_.emplace_back(), device_.alloc(bytes, Purpose::weights));
    }
  }
  int64_t done = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const WeightPlace& place = plan.weight_places[i];
    if (place.buffer < 0) continue;
    const Weight& weight = all[i];
    if (progress && !progress(static_cast<double>(done) / static_cast<double>(total))) {
      return run_cancelled();
    }
    const auto bytes = weight.desc.extent_bytes();
    if (request_.weights_mapped) {
      INFER_TRY_S(const std::span<const std::byte> mapped,
                  source.map(weight.place, static_cast<uint64_t>(bytes)));
      std::unique_ptr<Buffer> buffer = device_.adopt(weight.desc, mapped);
      if (buffer == nullptr) {
        return error(StatusCode::unsupported, "{} cannot use mapped weights", device_.info().name);
      }
      weight_memory_[i] = {buffer.get(), 0};
      weight_buffers_.push_back(std::move(buffer));
    } else {
      weight_memory_[i] = {weight_buffers_[static_cast<size_t>(place.buffer)].get(), place.offset};
      const ReadFn read = [&](uint64_t offset, std::span<std::byte> out) {
        return source.read(weight.place, offset, out);
      };
      INFER_CHECK(device_.load_weight(weight.desc, read, weight_memory_[i]));
    }
    done += bytes;
  }
  if (progress && !progress(1.0)) return run_cancelled();
  return {};
}

Status Executor::load_ropes(int64_t context) {
  for (const RopeSpec& spec : model_.info().ropes) {
    const int32_t index = uses_long_factors(spec, context) ? spec.long_factors : spec.factors;
    std::vector<float> factors;
    if (index >= 0) {
      const Weight& weight = weights_.weight(index);
      const std::string& file = weights_.source().metadata().source();
      if (weight.desc.type != DType::f32 || weight.desc.elements() != spec.pairs) {
        return error(StatusCode::bad_file, "{}: tensor '{}': expected F32 [{}], found {}", file,
                     weight.name, spec.pairs, to_string(weight.desc));
      }
      factors.resize(static_cast<size_t>(spec.pairs));
      INFER_CHECK(
          weights_.source().read(weight.place, 0, std::as_writable_bytes(std::span(factors))));
      for (const float factor : factors) {
        if (!(factor > 0)) {
          return error(StatusCode::bad_file, "{}: tensor '{}': expected values above 0, found {}",
                       file, weight.name, factor);
        }
      }
    }
    ropes_.emplace_back(spec, factors);
  }
  rope_tables_.resize(ropes_.size());
  for (size_t kind = 0; kind < ropes_.size(); ++kind) {
    rope_tables_[kind].reserve(ropes_[kind].pairs() * 2 * static_cast<size_t>(request_.max_rows));
  }
  return {};
}

Result<CompiledStep> Executor::compile(int64_t rows) {
  INFER_TRY(Graph graph, build_graph(model_, weights_, rows, std::min(rows, request_.max_outputs),
                                     request_.k_type, request_.v_type));
  CompiledStep step;
  step.graph = std::make_unique<Graph>(std::move(graph));
  const auto [arena, scratch] = plan_step(*step.graph, device_, request_.observed);
  if (arena.bytes > arena_->size() || scratch > scratch_->size()) {
    return fail(StatusCode::internal, "a step of {} rows needs {} + {} bytes, planned were {} + {}",
                rows, arena.bytes, scratch, arena_->size(), scratch_->size());
  }
  step.memory.resize(step.graph->values().size());
  step.pointers.resize(step.memory.size());
  for (size_t i = 0; i < step.memory.size(); ++i) {
    const Value& value = step.graph->values()[i];
    if (value.kind == Value::Kind::input) step.inputs.push_back(static_cast<ValueId>(i));
    if (value.kind == Value::Kind::weight) {
      step.memory[i] = weight_memory_[static_cast<size_t>(value.index)];
    } else if (arena.offsets[i] >= 0) {
      step.memory[i] = {arena_.get(), arena.offsets[i]};
    }
  }
  const auto nodes = static_cast<int32_t>(step.graph->nodes().size());
  const auto compile = [&](int32_t begin, int32_t end) {
    return device_.compile(
        {{step.graph.get(), begin, end}, step.memory, {scratch_.get(), 0}, spilled_});
  };
  if (!request_.observed) {
    INFER_TRY(step.program, compile(0, nodes));
    return step;
  }
  for (int32_t n = 0; n < nodes; ++n) {
    INFER_TRY(step.node_programs.emplace_back(), compile(n, n + 1));
  }
  return step;
}

Status Executor::run_observed(CompiledStep& step, const Bindings& bindings) {
  for (size_t n = 0; n < step.node_programs.size(); ++n) {
    const Node& node = step.graph->nodes()[n];
    const OpId op = node.op();
    const bool product = op == OpId::Matmul || op == OpId::MoeMatmul || op == OpId::HeadMatmul;
    if (product && observer_) INFER_CHECK(show(step, node, bindings));
    INFER_CHECK(step.node_programs[n]->run(bindings));
  }
  return {};
}

Status Executor::show(const CompiledStep& step, const Node& node, const Bindings& bindings) {
  const Value& weight = step.graph->value(step.graph->storage(node.inputs[1]));
  if (weight.kind != Value::Kind::weight) return {};
  ObservedProduct product{node.op(), weight.index, {}, {}};
  INFER_TRY_S(product.activations, fetch(step, node.inputs[0], bindings, shown_));
  if (product.op == OpId::MoeMatmul) {
    INFER_TRY_S(product.experts, fetch(step, node.inputs[2], bindings, shown_experts_));
  }
  return observer_(product);
}

/// A result of the step as the host sees it, until the next node runs.
Result<TensorRef> Executor::fetch(const CompiledStep& step, ValueId id, const Bindings& bindings,
                                  std::vector<std::byte>& copy) {
  const Value& value = step.graph->value(id);
  TensorRef ref{value.desc, nullptr};
  ref.desc.shape[2] = value.rows == Rows::outputs ? bindings.outputs : bindings.rows;
  MemoryRef at = step.memory[static_cast<size_t>(step.graph->storage(id))];
  at.offset += value.offset;
  if (const std::byte* seen = device_.view(at); seen != nullptr) {
    ref.data = const_cast<std::byte*>(seen);  // only read; TensorRef serves results as well
    return ref;
  }
  copy.resize(static_cast<size_t>(ref.desc.extent_bytes()));
  INFER_CHECK_R(device_.read(at, copy));
  ref.data = copy.data();
  return ref;
}

void Executor::fill_rope_tables(const StepBatch& batch) {
  for (size_t kind = 0; kind < ropes_.size(); ++kind) {
    const size_t width = ropes_[kind].pairs() * 2;
    std::vector<float>& table = rope_tables_[kind];
    table.resize(width * batch.positions.size());
    float* row = table.data();
    for (const int32_t position : batch.positions) {
      ropes_[kind].fill(position, row);
      row += width;
    }
  }
}

void Executor::point_to_inputs(CompiledStep& step, const StepBatch& batch) const {
  const auto bytes_of = [](const auto& vector) {
    return reinterpret_cast<const std::byte*>(vector.data());
  };
  for (const ValueId id : step.inputs) {
    const Value& value = step.graph->value(id);
    const std::byte*& pointer = step.pointers[static_cast<size_t>(id)];
    switch (value.input) {
      case StepInput::tokens: pointer = bytes_of(batch.tokens); break;
      case StepInput::slots: pointer = bytes_of(batch.slots); break;
      case StepInput::sequences: pointer = bytes_of(batch.sequences); break;
      case StepInput::output_rows: pointer = bytes_of(batch.output_rows); break;
      case StepInput::rope_table:
        pointer = bytes_of(rope_tables_[static_cast<size_t>(value.index)]);
        break;
      case StepInput::data: break;
    }
  }
}

Result<std::span<const float>> Executor::run(const StepBatch& batch, StepRecorder* recorder) {
  const auto outputs = static_cast<int64_t>(batch.output_rows.size());
  if (batch.rows() < 1 || batch.rows() > request_.max_rows || outputs > request_.max_outputs) {
    return fail(StatusCode::internal, "a step of {} rows and {} outputs, planned were {} and {}",
                batch.rows(), outputs, request_.max_rows, request_.max_outputs);
  }
  INFER_TRY(CompiledStep * step, programs_.get(row_bucket(batch.rows(), request_.max_rows)));
  fill_rope_tables(batch);
  point_to_inputs(*step, batch);
  if (recorder != nullptr) {
    recorder->describe(*step->graph, batch.shape());
    recorder->end_part(StepPart::inputs);
  }
  const Bindings bindings{batch.rows(), outputs, step->pointers, batch.pages, recorder};
  INFER_CHECK_R(request_.observed ? run_observed(*step, bindings) : step->program->run(bindings));
  if (recorder != nullptr) recorder->end_part(StepPart::compute);
  INFER_TRY(const std::span<const float> logits, read_logits(*step, outputs));
  if (recorder != nullptr) recorder->end_part(StepPart::results);
  return logits;
}

Result<std::span<const float>> Executor::read_logits(const CompiledStep& step, int64_t outputs) {
  const auto count = static_cast<size_t>(outputs * model_.info().vocabulary);
  if (count == 0) return std::span<const float>();
  const MemoryRef& at = step.memory[static_cast<size_t>(step.graph->outputs().front())];
  if (const std::byte* seen = device_.view(at); seen != nullptr) {
    return std::span(reinterpret_cast<const float*>(seen), count);
  }
  logits_.resize(count);
  INFER_CHECK_R(device_.read(at, std::as_writable_bytes(std::span(logits_))));
  return std::span<const float>(logits_);
}

}  // namespace infer
