#include "engine/exec/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Status run_cancelled() { return error(StatusCode::cancelled, "loading was cancelled"); }

std::vector<StreamPlan> streams_of(const MemoryPlan& plan) {
  std::vector<StreamPlan> streams;
  for (const DevicePlan& device : plan.devices) streams.push_back(device.stream);
  return streams;
}

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

void StepBatch::begin_sequence(std::span<const int32_t> all) {
  const size_t count = std::min(all.size(), kTokensBefore);
  before.resize(before.size() + kTokensBefore - count, 0);
  before.insert(before.end(), all.end() - static_cast<ptrdiff_t>(count), all.end());
}

void StepBatch::clear() {
  tokens.clear();
  before.clear();
  block_positions.clear();
  positions.clear();
  slots.clear();
  sequences.clear();
  output_rows.clear();
  output_ends.clear();
  text_begins.clear();
  text_ends.clear();
  token_types.clear();
  images.clear();
  text_tokens.clear();
  last_seen.clear();
  more_output_rows.clear();
  adapters.clear();
  part_begins.clear();
  part_ends.clear();
  hidden.clear();
  own_hidden.clear();
  generated = 0;
  needed = {};
}

Result<CompiledStep*> ProgramCache::get(const StepForm& form) {
  const auto it = programs_.find(form);
  if (it != programs_.end()) return &it->second;
  INFER_TRY(CompiledStep made, make_(form));
  return &programs_.emplace(form, std::move(made)).first->second;
}

void ProgramCache::close() {
  closed_ = std::exchange(programs_, {});
  for (auto& [form, step] : closed_) step.segments.clear();
  make_ = [](const StepForm&) -> Result<CompiledStep> {
    return fail(StatusCode::device, "the device has failed before");
  };
}

Executor::Executor(const Model& model, const WeightTable& weights, std::span<Device* const> devices,
                   const PlanRequest& request, const MemoryPlan& plan)
    : model_(model),
      weights_(weights),
      devices_(devices.begin(), devices.end()),
      request_(request),
      placement_(plan.placement),
      streams_(streams_of(plan)),
      on_(devices.size()),
      running_(devices.size()),
      two_classes_(roles_of_programs(devices, !plan.placement.prompts.empty()).size() > 1),
      spilled_(plan.spilled),
      programs_([this](const StepForm& form) { return compile(form); }) {
  if (model.info().ngrams) ngrams_.emplace(*model.info().ngrams, weights.source());
}

Result<std::unique_ptr<Executor>> Executor::create(const Model& model, const WeightTable& weights,
                                                   std::span<Device* const> devices,
                                                   const PlanRequest& request,
                                                   const MemoryPlan& plan,
                                                   const std::function<bool(double)>& progress,
                                                   const Executor* lender) {
  std::unique_ptr<Executor> executor(new Executor(model, weights, devices, request, plan));
  for (size_t d = 0; d < devices.size(); ++d) {
    for (const Purpose purpose : {Purpose::activations, Purpose::scratch}) {
      const int64_t bytes = plan.devices[d].bytes[static_cast<size_t>(purpose)];
      if (bytes == 0 && d > 0) continue;
      OnDevice& on = executor->on_[d];
      INFER_TRY((purpose == Purpose::scratch ? on.scratch : on.arena),
                devices[d]->alloc(bytes, purpose));
    }
  }
  INFER_CHECK_R(executor->load_weights(plan, progress));
  for (size_t d = 0; lender != nullptr && d < devices.size(); ++d) {
    std::vector<MemoryRef>& own = executor->on_[d].weights;
    const std::vector<MemoryRef>& lent = lender->on_[d].weights;
    for (size_t i = 0; i < own.size(); ++i) {
      if (i < lent.size() && own[i].buffer == nullptr) own[i] = lent[i];
    }
  }
  INFER_CHECK_R(executor->open_streams());
  INFER_CHECK_R(executor->load_ropes(plan.context));
  // The program of single tokens serves every decode step: made now, so that a model that cannot be
  // compiled fails while loading.
  INFER_TRY(const CompiledStep* decode, executor->programs_.get({}));
  executor->decode_graph_ = decode->graph.get();
  return executor;
}

Status Executor::load_weights(const MemoryPlan& plan, const std::function<bool(double)>& progress) {
  const std::span<const Weight> all = weights_.source().weights();
  int64_t total = 0;
  for (size_t d = 0; d < devices_.size(); ++d) {
    on_[d].weights.assign(all.size(), {});
    for (size_t i = 0; i < all.size(); ++i) {
      if (plan.devices[d].weight_places[i].used()) total += all[i].desc.extent_bytes();
    }
    for (const int64_t bytes : plan.devices[d].weight_buffers) {
      INFER_TRY_S(on_[d].weight_buffers.emplace_back(),
                  devices_[d]->alloc(bytes, Purpose::weights));
    }
  }
  // Weight by weight, so that a file is read once from its beginning to its end.
  int64_t done = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      if (!plan.devices[d].weight_places[i].used()) continue;
      if (progress && !progress(static_cast<double>(done) / static_cast<double>(total))) {
        return run_cancelled();
      }
      INFER_CHECK(load_weight(plan.devices[d], d, i));
      done += all[i].desc.extent_bytes();
    }
  }
  if (progress && !progress(1.0)) return run_cancelled();
  return {};
}

Status Executor::load_weight(const DevicePlan& plan, size_t device, size_t weight) {
  const WeightSource& source = weights_.source();
  const Weight& from = source.weights()[weight];
  OnDevice& on = on_[device];
  const WeightPlace& place = plan.weight_places[weight];
  if (place.mapped) {
    INFER_TRY_S(const std::span<const std::byte> mapped,
                source.map(from.place, static_cast<uint64_t>(from.desc.extent_bytes())));
    std::unique_ptr<Buffer> buffer = devices_[device]->adopt(from.desc, mapped);
    if (buffer == nullptr) {
      return error(StatusCode::unsupported, "{} cannot use mapped weights",
                   devices_[device]->info().name);
    }
    on.weights[weight] = {buffer.get(), 0};
    on.weight_buffers.push_back(std::move(buffer));
    return {};
  }
  on.weights[weight] = {on.weight_buffers[static_cast<size_t>(place.buffer)].get(), place.offset};
  const ReadFn read = [&](uint64_t offset, std::span<std::byte> out) {
    return source.read(from.place, offset, out);
  };
  return devices_[device]->load_weight(from.desc, read, on.weights[weight]);
}

Status Executor::open_streams() {
  std::vector<std::span<const std::byte>> host;
  for (const auto& buffer : on_[0].weight_buffers) {
    host.emplace_back(buffer->address(), static_cast<size_t>(buffer->size()));
  }
  for (size_t d = 1; d < devices_.size(); ++d) {
    const StreamPlan& plan = streams_[d];
    if (plan.weights.empty()) continue;
    OnDevice& on = on_[d];
    INFER_TRY_S(on.streamed, devices_[d]->alloc(plan.bytes(), Purpose::weights));
    INFER_TRY_S(on.stream, devices_[d]->open_stream(
                               plan.weights, host,
                               {on.streamed.get(), WeightStream::kPlaces * plan.place_bytes}));
  }
  return {};
}

Status Executor::load_ropes(int64_t context) {
  for (const RopeSpec& spec : model_.info().ropes) {
    const int32_t index = uses_long_factors(spec, context) ? spec.long_factors : spec.factors;
    std::vector<float> factors;
    if (index >= 0) {
      const Weight& weight = weights_.weight(index);
      const std::string& file = weights_.source().metadata().source();
      const int64_t count = int64_t{spec.pairs} + spec.unused_factors;
      if (weight.desc.type != DType::f32 || weight.desc.elements() != count) {
        return error(StatusCode::bad_file, "{}: tensor '{}': expected F32 [{}], found {}", file,
                     weight.name, count, to_string(weight.desc));
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

Result<CompiledStep> Executor::compile(const StepForm& form) {
  const auto& [rows, roles, extras] = form;
  INFER_TRY(Graph graph, build_graph(model_, weights_, rows, std::min(rows, request_.max_outputs),
                                     request_.k_type, request_.v_type, placement_, extras));
  CompiledStep step;
  step.graph = std::make_unique<Graph>(std::move(graph));
  const std::vector<Value>& values = step.graph->values();
  const std::vector<PlacedSegment> segments =
      placed_segments(*step.graph, placement_, request_.observed, roles);
  const StepMemory planned = plan_step(*step.graph, segments, devices_);
  step.pointers.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].kind == Value::Kind::input) step.inputs.push_back(static_cast<ValueId>(i));
  }
  const auto size_of = [](const std::unique_ptr<Buffer>& buffer) {
    return buffer == nullptr ? 0 : buffer->size();
  };
  for (size_t d = 0; d < devices_.size(); ++d) {
    const auto& [arena, scratch] = planned.devices[d];
    const OnDevice& on = on_[d];
    if (arena.bytes > size_of(on.arena) || scratch > size_of(on.scratch)) {
      return fail(StatusCode::internal,
                  "a step of {} rows needs {} + {} bytes on {}, planned were {} + {}", rows,
                  arena.bytes, scratch, devices_[d]->info().name, size_of(on.arena),
                  size_of(on.scratch));
    }
    std::vector<MemoryRef>& memory = step.memory.emplace_back(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].kind == Value::Kind::weight) {
        memory[i] = on.weights[static_cast<size_t>(values[i].index)];
      } else if (arena.offsets[i] >= 0) {
        memory[i] = {on.arena.get(), arena.offsets[i]};
      }
    }
  }
  std::vector<int32_t> maker(values.size(), -1);  // device, by ValueId
  std::vector<size_t> made_by(values.size(), 0);  // segment, by ValueId
  std::vector<std::vector<bool>> there(devices_.size(), std::vector<bool>(values.size(), false));
  for (const PlacedSegment& placed : segments) {
    const auto d = static_cast<size_t>(placed.device);
    const size_t number = step.segments.size();
    CompiledSegment& made = step.segments.emplace_back();
    made.device = placed.device;
    take_streamed(placed, step);
    made.begin = placed.segment.begin;
    bool needs_last = false;
    for (const Node& node : placed.segment.nodes()) {
      for (const ValueId id : node.inputs) {
        if (id == kNoValue) continue;
        const ValueId storage = step.graph->storage(id);
        const int32_t from = maker[static_cast<size_t>(storage)];
        if (from < 0 || from == placed.device || there[d][static_cast<size_t>(storage)]) continue;
        there[d][static_cast<size_t>(storage)] = true;
        needs_last = needs_last || made_by[static_cast<size_t>(storage)] + 1 == number;
        made.arrivals.push_back({storage, from});
      }
      for (const ValueId id : node.outputs) {
        maker[static_cast<size_t>(id)] = placed.device;
        made_by[static_cast<size_t>(id)] = number;
      }
    }
    if (number > 0 && !needs_last && !request_.observed) {
      CompiledSegment& last = step.segments[number - 1];
      const auto asynchronous = [&](const CompiledSegment& segment) {
        return devices_[static_cast<size_t>(segment.device)]->asynchronous();
      };
      last.next_goes_first =
          last.device != made.device && !asynchronous(last) && asynchronous(made);
    }
    INFER_TRY(made.program,
              devices_[d]->compile(
                  {placed.segment, step.memory[d], {on_[d].scratch.get(), 0}, spilled_ && d == 0}));
  }
  for (const ValueId id : step.graph->outputs()) {
    step.output_devices.push_back(maker[static_cast<size_t>(step.graph->storage(id))]);
  }
  return step;
}

Executor::~Executor() { close_streams(); }

/// Before the host's memory that they copy from is freed.
void Executor::close_streams() {
  for (OnDevice& on : on_) on.stream.reset();
}

void Executor::release() {
  last_ = nullptr;
  close_streams();
  programs_.close();
  on_.clear();
  devices_.clear();
}

/// What its device gets for the step's last segment: weights go to the places in turns.
void Executor::take_streamed(const PlacedSegment& placed, CompiledStep& step) const {
  const auto d = static_cast<size_t>(placed.device);
  if (placed.segment.roles != Roles::prompt) return;
  const std::vector<StreamPlan::Load> loads = streams_[d].loads(placed.segment, *devices_[d]);
  if (loads.empty()) return;
  const auto number = static_cast<int32_t>(step.segments.size()) - 1;
  CompiledSegment& made = step.segments.back();
  std::vector<int32_t> before;  // of this device
  for (int32_t s = 0; s < number; ++s) {
    const CompiledSegment& other = step.segments[static_cast<size_t>(s)];
    if (other.device == placed.device && !other.streamed.empty()) before.push_back(s);
  }
  if (before.size() < WeightStream::kPlaces) {
    made.place = static_cast<int32_t>(before.size());
    step.brought_first.push_back(number);
  } else {
    CompiledSegment& last =
        step.segments[static_cast<size_t>(*(before.end() - WeightStream::kPlaces))];
    last.brings = number;
    made.place = last.place;
  }
  for (const auto& [value, offset] : loads) {
    const Value& weight = placed.segment.graph->value(value);
    MemoryRef& to = step.memory[d][static_cast<size_t>(value)];
    to = {on_[d].streamed.get(), made.place * streams_[d].place_bytes + offset};
    const MemoryRef& from = on_[0].weights[static_cast<size_t>(weight.index)];
    made.streamed.push_back({weight.desc, *devices_[0]->host_layout(weight.desc),
                             from.buffer->address() + from.offset, to});
  }
}

Status Executor::bring_weights(const CompiledStep& step, int32_t segment) {
  const CompiledSegment& of = step.segments[static_cast<size_t>(segment)];
  return on_[static_cast<size_t>(of.device)].stream->bring(of.streamed, of.place);
}

Status Executor::submit(const CompiledStep& step, CompiledSegment& segment,
                        const Bindings& bindings) {
  const auto d = static_cast<size_t>(segment.device);
  if (!segment.streamed.empty()) INFER_CHECK(on_[d].stream->await(segment.place));
  INFER_CHECK(segment.program->submit(bindings));
  running_[d].push_back(segment.program.get());
  return segment.brings < 0 ? Status() : bring_weights(step, segment.brings);
}

/// Waits for all programs of a device; returns the first failure.
Status Executor::finish(int32_t device) {
  Status first;
  for (Program* program : running_[static_cast<size_t>(device)]) {
    if (Status status = program->wait(); first.ok()) first = std::move(status);
  }
  running_[static_cast<size_t>(device)].clear();
  return first;
}

Status Executor::finish_all() {
  Status first;
  for (size_t d = 0; d < running_.size(); ++d) {
    if (Status status = finish(static_cast<int32_t>(d)); first.ok()) first = std::move(status);
  }
  return first;
}

Status Executor::run_segments(CompiledStep& step, const Bindings& bindings) {
  const bool observed = request_.observed && observer_;
  for (const int32_t segment : step.brought_first) INFER_CHECK(bring_weights(step, segment));
  for (size_t s = 0; s < step.segments.size(); ++s) {
    CompiledSegment& segment = step.segments[s];
    // Before the next one runs: its results may lie where these values do.
    INFER_CHECK(bring(step, segment, bindings));
    if (segment.next_goes_first) {
      CompiledSegment& next = step.segments[++s];
      INFER_CHECK(bring(step, next, bindings));
      INFER_CHECK(submit(step, next, bindings));
    }
    if (observed) INFER_CHECK(show(step, segment, bindings));
    INFER_CHECK(submit(step, segment, bindings));
  }
  return finish_all();
}

/// Copies what other devices made for a segment: the rows of this step.
Status Executor::bring(const CompiledStep& step, const CompiledSegment& segment,
                       const Bindings& bindings) {
  for (const auto& [id, from] : segment.arrivals) {
    const Value& value = step.graph->value(id);
    TensorDesc desc = value.desc;
    if (value.rows == Rows::outputs) desc.shape[2] = bindings.outputs;
    if (value.rows == Rows::tokens) desc.shape[2] = bindings.rows;
    if (desc.elements() == 0) continue;
    const auto bytes = static_cast<size_t>(desc.extent_bytes());
    INFER_CHECK(finish(from));
    INFER_CHECK(finish(segment.device));
    Device& source = *devices_[static_cast<size_t>(from)];
    Device& target = *devices_[static_cast<size_t>(segment.device)];
    const MemoryRef& at = step.memory[static_cast<size_t>(from)][static_cast<size_t>(id)];
    const MemoryRef& to = step.memory[static_cast<size_t>(segment.device)][static_cast<size_t>(id)];
    if (target.reaches(source)) {
      INFER_CHECK(target.copy_from(source, at, to, static_cast<int64_t>(bytes)));
    } else if (const std::byte* seen = source.view(at); seen != nullptr) {
      INFER_CHECK(target.write({seen, bytes}, to));
    } else if (const std::byte* place = target.view(to); place != nullptr) {
      // Nothing else looks at what is being written.
      INFER_CHECK(source.read(at, {const_cast<std::byte*>(place), bytes}));
    } else {
      constexpr size_t kPiece = size_t{1} << 20;  // so little that no plan has to count it
      for (size_t done = 0; done < bytes; done += moved_.size()) {
        moved_.resize(std::min(bytes - done, kPiece));
        const auto offset = static_cast<int64_t>(done);
        INFER_CHECK(source.read({at.buffer, at.offset + offset}, moved_));
        INFER_CHECK(target.write(moved_, {to.buffer, to.offset + offset}));
      }
    }
  }
  return {};
}

Status Executor::show(const CompiledStep& step, const CompiledSegment& segment,
                      const Bindings& bindings) {
  const Node& node = step.graph->nodes()[static_cast<size_t>(segment.begin)];
  const OpId op = node.op();
  if (op != OpId::Matmul && op != OpId::MoeMatmul && op != OpId::HeadMatmul) return {};
  const Value& weight = step.graph->value(step.graph->storage(node.inputs[1]));
  if (weight.kind != Value::Kind::weight) return {};
  ObservedProduct product{op, weight.index, {}, {}};
  INFER_TRY_S(product.activations, fetch(step, segment.device, node.inputs[0], bindings, shown_));
  if (product.op == OpId::MoeMatmul) {
    INFER_TRY_S(product.experts,
                fetch(step, segment.device, node.inputs[2], bindings, shown_experts_));
  }
  return observer_(product);
}

/// A result of the step as the host sees it, until the next node runs.
Result<TensorRef> Executor::fetch(const CompiledStep& step, int32_t device, ValueId id,
                                  const Bindings& bindings, std::vector<std::byte>& copy) {
  const Value& value = step.graph->value(id);
  TensorRef ref{value.desc, nullptr};
  ref.desc.shape[2] = value.rows == Rows::outputs ? bindings.outputs : bindings.rows;
  MemoryRef at =
      step.memory[static_cast<size_t>(device)][static_cast<size_t>(step.graph->storage(id))];
  at.offset += value.offset;
  Device& source = *devices_[static_cast<size_t>(device)];
  if (const std::byte* seen = source.view(at); seen != nullptr) {
    ref.data = const_cast<std::byte*>(seen);  // only read; TensorRef serves results as well
    return ref;
  }
  copy.resize(static_cast<size_t>(ref.desc.extent_bytes()));
  INFER_CHECK_R(source.read(at, copy));
  ref.data = copy.data();
  return ref;
}

void Executor::fill_rope_tables(const StepBatch& batch) {
  for (size_t kind = 0; kind < ropes_.size(); ++kind) {
    const size_t width = ropes_[kind].pairs() * 2;
    std::vector<float>& table = rope_tables_[kind];
    table.resize(width * batch.positions.size());
    const int32_t block = info().ropes[kind].block;
    float* row = table.data();
    for (size_t r = 0; r < batch.positions.size(); ++r) {
      if (block == 1) {
        ropes_[kind].fill(batch.positions[r], row);
      } else if (batch.block_positions.empty()) {
        ropes_[kind].fill(batch.slots[r] - batch.slots[r] % block, row);
      } else {
        ropes_[kind].fill(batch.block_positions[r], row);
      }
      row += width;
    }
  }
}

void Executor::fill_places(const CompiledStep& step, const StepBatch& batch) {
  for (const ValueId id : step.inputs) {
    const Value& value = step.graph->value(id);
    if (value.input != StepInput::places) continue;
    std::vector<int32_t>& places = places_[value.index];
    places = batch.slots;
    for (int32_t& place : places) place %= value.index;
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
      case StepInput::places: pointer = bytes_of(places_.at(value.index)); break;
      case StepInput::sequences: pointer = bytes_of(batch.sequences); break;
      case StepInput::output_rows:
        pointer = bytes_of(value.index == 0
                               ? batch.output_rows
                               : batch.more_output_rows[static_cast<size_t>(value.index) - 1]);
        break;
      case StepInput::output_ends: pointer = bytes_of(batch.output_ends); break;
      case StepInput::text_begins:
        pointer = bytes_of(value.index == 0 ? batch.text_begins : batch.part_begins);
        break;
      case StepInput::text_ends:
        pointer = bytes_of(value.index == 0 ? batch.text_ends : batch.part_ends);
        break;
      case StepInput::text_tokens: pointer = bytes_of(batch.text_tokens); break;
      case StepInput::last_seen: pointer = bytes_of(batch.last_seen); break;
      case StepInput::token_types: pointer = bytes_of(batch.token_types); break;
      case StepInput::rope_table:
        pointer = bytes_of(rope_tables_[static_cast<size_t>(value.index)]);
        break;
      case StepInput::image:
        pointer = bytes_of(batch.images[static_cast<size_t>(value.index)]);
        break;
      case StepInput::adapter:
        pointer = bytes_of(batch.adapters[static_cast<size_t>(value.index)]);
        break;
      case StepInput::hidden:
        pointer = bytes_of(value.index == 0 ? batch.hidden : batch.own_hidden);
        break;
      case StepInput::ngrams: pointer = bytes_of(ngrams_->values()); break;
      case StepInput::data: break;
    }
  }
}

Roles Executor::roles_of(const StepBatch& batch) const {
  if (!two_classes_ || batch.generated == batch.rows()) return Roles::generated;
  return batch.generated == 0 ? Roles::prompt : Roles::both;
}

/// Whether what images give to rows, and the lists of rows, are as long as the model reads them.
Status Executor::check_images(const StepBatch& batch) const {
  const std::vector<int64_t>& widths = info().takes_images;
  bool fits = batch.images.empty() || batch.images.size() == widths.size();
  for (size_t i = 0; fits && i < batch.images.size(); ++i) {
    fits = std::ssize(batch.images[i]) == batch.rows() * widths[i];
  }
  fits = fits && std::ssize(batch.more_output_rows) == info().more_output_rows;
  if (!info().embeds && !batch.images.empty()) {
    fits = fits && batch.text_tokens.size() == batch.tokens.size();
  }
  const bool of_images = info().sight != ImageSight::causal && !batch.images.empty();
  if (of_images || (info().block && !info().block->causal)) {
    fits = fits && batch.last_seen.size() == batch.tokens.size();
  }
  if (info().parted) {
    fits = fits && batch.part_begins.size() == batch.tokens.size() &&
           batch.part_ends.size() == batch.tokens.size();
  }
  for (const std::vector<int32_t>& rows : batch.more_output_rows) {
    fits = fits && rows.size() == batch.output_rows.size();
  }
  if (fits) return {};
  return error(StatusCode::internal,
               "a step of {} rows whose images are not as the model reads them", batch.rows());
}

Status Executor::check_adapters(const StepBatch& batch) const {
  const auto whole = [&](const auto& factors) { return std::ssize(factors) == batch.rows(); };
  if (batch.adapters.empty() || (batch.adapters.size() == info().adapter_alphas.size() &&
                                 std::ranges::all_of(batch.adapters, whole))) {
    return {};
  }
  return error(StatusCode::internal, "a step of {} rows with factors of {} adapters, expected {}",
               batch.rows(), batch.adapters.size(), info().adapter_alphas.size());
}

Result<std::span<const float>> Executor::run(const StepBatch& batch, StepRecorder* recorder) {
  const auto outputs = static_cast<int64_t>(batch.output_rows.size());
  if (batch.rows() < 1 || batch.rows() > request_.max_rows || outputs > request_.max_outputs) {
    return fail(StatusCode::internal, "a step of {} rows and {} outputs, planned were {} and {}",
                batch.rows(), outputs, request_.max_rows, request_.max_outputs);
  }
  if (model_.info().embeds && (batch.text_begins.size() != batch.tokens.size() ||
                               batch.text_ends.size() != batch.tokens.size())) {
    return fail(StatusCode::internal, "a step of texts that does not say where they begin and end");
  }
  if (std::ssize(batch.hidden) != batch.rows() * info().takes_hidden ||
      std::ssize(batch.own_hidden) != batch.rows() * info().takes_own) {
    return fail(StatusCode::internal, "a step of {} rows with {} and {} elements of hidden states",
                batch.rows(), batch.hidden.size(), batch.own_hidden.size());
  }
  INFER_CHECK_R(check_images(batch));
  INFER_CHECK_R(check_adapters(batch));
  last_ = nullptr;
  INFER_TRY(CompiledStep * step, programs_.get({row_bucket(batch.rows(), request_.max_rows),
                                                roles_of(batch),
                                                {!batch.images.empty(), !batch.adapters.empty()}}));
  fill_rope_tables(batch);
  fill_places(*step, batch);
  if (ngrams_) INFER_CHECK_R(ngrams_->read(batch, threads()));
  point_to_inputs(*step, batch);
  if (recorder != nullptr) {
    recorder->describe(*step->graph, batch.shape());
    recorder->end_part(StepPart::inputs);
  }
  const Bindings bindings{batch.rows(), outputs,  step->pointers,
                          batch.pages,  recorder, batch.generated};
  if (Status status = run_segments(*step, bindings); !status.ok()) {
    // Nothing may still read the inputs.
    static_cast<void>(finish_all());
    return tl::unexpected(std::move(status));
  }
  if (recorder != nullptr) recorder->end_part(StepPart::compute);
  INFER_TRY(const std::span<const float> logits, read_logits(*step, outputs, batch.needed));
  if (recorder != nullptr) recorder->end_part(StepPart::results);
  last_ = step;
  return logits;
}

Result<std::span<const float>> Executor::hidden(int64_t begin, int64_t count) {
  const ValueId id = last_ == nullptr ? kNoValue : last_->graph->output("hidden");
  if (id == kNoValue) return fail(StatusCode::internal, "the step has no hidden states");
  const std::vector<ValueId>& all = last_->graph->outputs();
  const auto d = static_cast<size_t>(
      last_->output_devices[static_cast<size_t>(std::ranges::find(all, id) - all.begin())]);
  const int64_t width = last_->graph->value(id).desc.shape[0];
  MemoryRef at = last_->memory[d][static_cast<size_t>(id)];
  at.offset += begin * width * int64_t{sizeof(float)};
  const auto elements = static_cast<size_t>(count * width);
  if (const std::byte* seen = devices_[d]->view(at); seen != nullptr) {
    return std::span(reinterpret_cast<const float*>(seen), elements);
  }
  hidden_.resize(elements);
  INFER_CHECK_R(devices_[d]->read(at, std::as_writable_bytes(std::span(hidden_))));
  return std::span<const float>(hidden_);
}

Result<std::span<const float>> Executor::read_logits(const CompiledStep& step, int64_t outputs,
                                                     const LogitsNeeded& needed) {
  const ValueId id = step.graph->output(model_.info().embeds ? "embeddings" : "logits");
  const std::vector<ValueId>& all = step.graph->outputs();
  const auto d = static_cast<size_t>(
      step.output_devices[static_cast<size_t>(std::ranges::find(all, id) - all.begin())]);
  return reader_.read(*devices_[d], step.memory[d][static_cast<size_t>(id)],
                      step.graph->value(id).desc.shape[0], outputs, needed);
}

}  // namespace infer
