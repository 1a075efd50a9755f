#include "gui/state/model_state.h"

#include <utility>

#include "gui/text/sanitise.h"

namespace infer::gui {
namespace {

constexpr size_t kShortNameBytes = 120;

}  // namespace

std::string short_name(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (const size_t slash = name.find_last_of("/:"); slash != std::string::npos) {
    name.erase(0, slash + 1);
  }
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return one_line(name, kShortNameBytes);
}

std::string short_name(const ModelDescription& model) {
  return model.name.empty() ? short_name(model.path) : one_line(model.name, kShortNameBytes);
}

void ModelState::load(const std::string& path, const LoadOptions& options) {
  failure_.clear();
  loading_path_ = path;
  progress_ = 0;
  planned_bytes_ = 0;
  phase_ = Phase::loading;
  engine_.load(path, options);
}

void ModelState::load_usual(const std::string& path) {
  take_companions(path);
  load(path, options_);
}

void ModelState::load_planned() {
  if (plan_path_.empty()) return;
  load(plan_path_, options_);
  if (!is_planning() && planned_->status.ok()) planned_bytes_ = planned_->plan.total;
}

void ModelState::plan(const std::string& path) {
  if (path.empty()) return;
  if (path != plan_path_) {
    planned_.reset();
    take_companions(path);
    engine_.ask_devices();  // what other programs use changes
  }
  plan_path_ = path;
  PlanRequest request;
  request.request = ++plan_request_;
  request.path = path;
  request.options = options_;
  request.on = on_;
  engine_.plan(std::move(request));
}

void ModelState::plan_on(std::string device) {
  on_ = std::move(device);
  plan_again();
}

void ModelState::ask_devices() {
  if (!std::exchange(devices_asked_, true)) engine_.ask_devices();
}

std::string ModelState::best_device() const {
  for (const DeviceDescription& device : devices_) {
    if (device.own_memory && device.unusable.empty()) return device.name;
  }
  return "cpu";
}

void ModelState::close_plan() {
  engine_.cancel_plan();
  plan_path_.clear();
  forget_model();
  on_.clear();
  planned_.reset();
}

/// What was chosen for one model is nothing to the next.
void ModelState::forget_model() {
  const LoadOptions usual;
  options_.spill = usual.spill;
  options_.gpu_layers = usual.gpu_layers;
  options_.vision = usual.vision;
  options_.draft_model = usual.draft_model;
  found_for_.clear();
}

/// A file that happens to be there may be for another model, or of a kind that is not known.
bool ModelState::leave_out_vision(const std::string& path) {
  if (found_for_.empty() || found_for_ != path) return false;
  found_for_.clear();
  options_.vision.clear();
  return true;
}

void ModelState::take_companions(const std::string& path) {
  forget_model();
  if (!companions_of) return;
  Companions with = companions_of(path);
  options_.vision = std::move(with.vision);
  options_.draft_model = std::move(with.draft);
  found_for_ = with.is_found ? path : "";
}

void ModelState::apply(const Alternative& alternative) {
  ProgressFn none;
  options_ = alternative.options;
  options_.progress = none;
  plan_again();
}

void ModelState::see(const EngineEvent& event) {
  if (const auto* progress = std::get_if<LoadProgress>(&event)) {
    phase_ = Phase::loading;
    loading_path_ = progress->path;
    progress_ = progress->done;
    waiting_ = progress->waiting;
  } else if (const auto* loaded = std::get_if<Loaded>(&event)) {
    phase_ = Phase::loaded;
    loaded_ = *loaded;
    memory_ = loaded->memory;
    name_ = short_name(*loaded->model);
    loading_path_.clear();
    waiting_ = false;
    if (loaded->model->path == plan_path_) close_plan();  // what is used takes its place
  } else if (const auto* failed = std::get_if<LoadFailed>(&event)) {
    phase_ = loaded_ ? Phase::loaded : Phase::none;
    loading_path_.clear();
    waiting_ = false;
    const bool cancelled = failed->status.code() == StatusCode::cancelled;
    if (!cancelled && leave_out_vision(failed->path)) {
      toasts_.tell("Images are not read: " + failed->status.message());
      return load(failed->path, options_);
    }
    if (!cancelled) {
      failure_ = failed->status.message();
      toasts_.fail(short_name(failed->path) + " was not loaded: " + failure_);
    }
  } else if (std::get_if<Unloaded>(&event) != nullptr) {
    loaded_.reset();
    name_.clear();
    if (phase_ == Phase::loaded) phase_ = Phase::none;
  } else if (const auto* planned = std::get_if<Planned>(&event)) {
    if (planned->request != plan_request_ || planned->path != plan_path_) return;
    if (!planned->status.ok() && leave_out_vision(planned->path)) return plan_again();
    planned_ = *planned;
  } else if (const auto* memory = std::get_if<Memory>(&event)) {
    const bool gone = phase_ != Phase::loaded;  // the question was asked before
    if (!memory->status.ok() && !gone) toasts_.fail(memory->status);
    if (gone || memory->devices.empty()) return;
    memory_ = memory->memory;
    loaded_->memory = memory->memory;
    loaded_->devices = memory->devices;
  } else if (const auto* machine = std::get_if<Devices>(&event)) {
    devices_ = machine->devices;
    if (!machine->status.ok()) toasts_.fail(machine->status);
  }
}

}  // namespace infer::gui
