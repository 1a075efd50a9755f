// The models on this machine, and the plan of the one that is chosen.
#pragma once

#include <string>
#include <utility>

#include "gui/host/model_library.h"
#include "gui/host/settings_store.h"
#include "gui/panes/folder_browser.h"
#include "gui/panes/plan_view.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class ModelsPane {
 public:
  /// `built_in`: the path of a model that comes along; empty: none.
  ModelsPane(ModelLibrary& library, ModelState& models, SettingsStore& settings,
             std::string built_in, WakeFn wake)
      : library_(library),
        models_(models),
        settings_(settings),
        built_in_(std::move(built_in)),
        browser_(std::move(wake)),
        plan_(models) {}
  void draw();
  /// The filter gets the keyboard.
  void focus() { focus_ = true; }
  void poll() { browser_.poll(); }

 private:
  void draw_filters();
  void draw_list();
  void draw_model(const LibraryModel& model);
  void draw_recent();
  void draw_built_in();
  void draw_folders();
  void choose(const std::string& path);

  ModelLibrary& library_;
  ModelState& models_;
  SettingsStore& settings_;
  const std::string built_in_;
  FolderBrowser browser_;
  PlanView plan_;
  LibraryFilter filter_;
  size_t architecture_ = 0;
  bool browsing_ = false;
  bool focus_ = false;
  std::string new_folder_;
};

}  // namespace infer::gui
