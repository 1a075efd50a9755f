// What loading a model would use, before it is loaded: memory of every device by purpose, the
// options that change it, and what would fit if it does not.
#pragma once

#include <string>
#include <vector>

#include "gui/state/model_state.h"

namespace infer::gui {

class PlanView {
 public:
  explicit PlanView(ModelState& models) : models_(models) {}
  void draw();

 private:
  void draw_facts(const ModelDescription& model);
  bool draw_options();
  bool draw_device();
  void draw_alternatives(const Planned& planned);
  void draw_loading();
  void draw_loaded();

  ModelState& models_;
  std::string draft_, vision_;
  std::string absent_;       ///< as it is typed
  bool plans_away_ = false;  ///< for a device that is not present
};

/// A bar for each device, with the name of what is on it and what other programs use. `devices`:
/// as they are now, with `loaded`, the model that is loaded and may be null. `scope`: names the
/// bars for tests.
void draw_memory_bars(const MemoryReport& memory, const std::vector<DeviceDescription>& devices,
                      const MemoryReport* loaded, const char* scope);

}  // namespace infer::gui
