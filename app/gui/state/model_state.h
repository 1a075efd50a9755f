// The model that is loaded, and the one that the user is about to load with its plan. No drawing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gui/host/engine_host.h"
#include "gui/state/toasts.h"

namespace infer::gui {

/// Files that go with a model.
struct Companions {
  std::string vision;     ///< what reads images; empty: none
  bool is_found = false;  ///< it was found beside the model, and not chosen
  std::string draft;      ///< a draft model; empty: none
};

class ModelState {
 public:
  ModelState(EngineHost& engine, Toasts& toasts) : engine_(engine), toasts_(toasts) {}

  // ---- What is loaded

  enum class Phase { none, loading, loaded };
  Phase phase() const { return phase_; }
  /// Null unless a model is loaded.
  const Loaded* loaded() const { return loaded_ ? &*loaded_ : nullptr; }
  /// The name that is shown: the file's own, or its path's last part. Empty without a model.
  const std::string& name() const { return name_; }
  const std::string& loading_path() const { return loading_path_; }
  double progress() const { return progress_; }
  bool is_waiting() const { return waiting_; }
  /// Why the last load failed; empty: it did not.
  const std::string& failure() const { return failure_; }
  /// The memory in use, as last asked for.
  const MemoryReport& memory() const { return memory_; }
  /// Bytes that the plan had which the user loaded; 0: it was loaded without one.
  int64_t planned_bytes() const { return planned_bytes_; }

  void load(const std::string& path, const LoadOptions& options);
  /// Loads a model with the files that go with it.
  void load_usual(const std::string& path);
  /// Loads what is planned.
  void load_planned();
  void cancel_load() { engine_.cancel_load(); }
  void unload() { engine_.unload(); }
  void resize_cache(int64_t bytes) { engine_.resize_cache(bytes); }
  /// Asks for the memory in use; memory() has it soon.
  void ask_memory() { engine_.ask_memory(); }

  // ---- The plan

  /// Tells the files that go with a model.
  std::function<Companions(const std::string& path)> companions_of;

  /// The model to plan for; empty: none.
  const std::string& planned_path() const { return plan_path_; }
  LoadOptions& options() { return options_; }
  /// Plans for a device that is not present; see ForecastOptions::on. Empty: for those of
  /// options().
  void plan_on(std::string device);
  const std::string& absent_device() const { return on_; }
  /// Plans with the options as they are now.
  void plan(const std::string& path);
  void plan_again() { plan(plan_path_); }
  void close_plan();
  /// Null until the plan is there. It may be that of options a moment ago.
  const Planned* planned() const { return planned_ ? &*planned_ : nullptr; }
  bool is_planning() const { return !planned_ || planned_->request != plan_request_; }
  void apply(const Alternative& alternative);

  // ---- The machine

  /// Asks for the devices, once: drivers are loaded for it.
  void ask_devices();
  /// Empty until they are known.
  const std::vector<DeviceDescription>& devices() const { return devices_; }
  /// Where models run if nothing else is said: a graphics card if there is one. "cpu" until the
  /// devices are known.
  std::string best_device() const;

  void see(const EngineEvent& event);

 private:
  EngineHost& engine_;
  Toasts& toasts_;
  Phase phase_ = Phase::none;
  std::optional<Loaded> loaded_;
  std::string name_, loading_path_, failure_;
  double progress_ = 0;
  bool waiting_ = false;
  MemoryReport memory_;
  int64_t planned_bytes_ = 0;

  void forget_model();
  bool leave_out_vision(const std::string& path);
  void take_companions(const std::string& path);

  std::string plan_path_;
  LoadOptions options_;
  /// The model whose file for images was found and not chosen, so that it may be left out.
  std::string found_for_;
  std::string on_;
  int64_t plan_request_ = 0;
  std::optional<Planned> planned_;

  bool devices_asked_ = false;
  std::vector<DeviceDescription> devices_;
};

/// What a model is called where there is little room: its own name, else the last part of its path
/// without ".gguf".
std::string short_name(const ModelDescription& model);
std::string short_name(const std::string& path);

}  // namespace infer::gui
