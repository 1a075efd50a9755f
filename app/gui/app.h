// The window's contents: pages, what they share, and the services behind them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conversations/async_store.h"
#include "gui/fonts.h"
#include "gui/host/engine_host.h"
#include "gui/host/model_library.h"
#include "gui/host/settings_store.h"
#include "gui/host/system_monitor.h"
#include "gui/panes/chat_pane.h"
#include "gui/panes/insight_pane.h"
#include "gui/panes/models_pane.h"
#include "gui/panes/settings_pane.h"
#include "gui/panes/tools_pane.h"
#include "gui/state/chat_state.h"
#include "gui/state/job_state.h"
#include "gui/state/metrics.h"
#include "gui/state/model_state.h"
#include "gui/state/toasts.h"
#include "gui/text/look.h"
#include "gui/window.h"

namespace infer::gui {

struct AppOptions {
  std::string model;     ///< loaded at the start; empty: the one used last, else the built-in one
  std::string built_in;  ///< the model that is small enough for any device; empty: none
  std::string store;     ///< file of the conversations
  std::string settings;  ///< file of the settings; empty: none is kept
  bool scans = true;     ///< looks for models in the folders of other programs
};

/// How models are loaded with these settings.
LoadOptions load_options(const Settings& settings);
/// What new conversations begin with.
ChatSettings chat_settings(const Settings& settings);

enum class Page { chat, models, insight, tools, settings };

class App final : public WindowClient {
 public:
  App(Window& window, AppOptions options);
  ~App() override;

  void poll() override;
  bool prepare(float scale) override;
  void draw() override;
  void drop(const std::vector<std::string>& paths) override;
  bool may_close() override;

  ChatState& chat() { return chat_; }
  ModelState& models() { return models_; }
  SettingsStore& settings() { return settings_; }
  const JobState& jobs() const { return jobs_; }
  const Fonts& fonts() const { return fonts_; }
  const ChatPane& chat_pane() const { return chat_pane_; }
  Toasts& toasts() { return toasts_; }
  void show(Page page) { page_ = page; }

 private:
  void see(const EngineEvent& event);
  void draw_top();
  void draw_model_badge();
  void draw_help();
  void take_shortcuts();
  bool tells_of_loss();
  void follow_settings();
  void choose_device();
  void choose_model();
  void start_model();
  void see_model(const EngineEvent& event);
  Companions companions_of(const std::string& path) const;
  void remember_conversation();
  void remember_window();
  void sample();

  Window& window_;
  AppOptions options_;
  const bool system_is_dark_;
  Toasts toasts_;
  SettingsStore settings_;
  EngineHost engine_;
  conversations::AsyncStore store_;
  ModelLibrary library_;
  SystemMonitor monitor_;
  ChatState chat_;
  ModelState models_;
  JobState jobs_;
  Metrics metrics_;
  Fonts fonts_;
  TextLook look_;  ///< of fields of several lines
  ChatPane chat_pane_;
  ModelsPane models_pane_;
  InsightPane insight_pane_;
  ToolsPane tools_pane_;
  SettingsPane settings_pane_;

  Page page_ = Page::chat;
  Page shown_ = Page::chat;  ///< the page of the last frame
  bool leaves_ = false;      ///< that page, with the last frame
  bool closes_ = false;      ///< after the next frame
  float scale_ = 0;          ///< 0: nothing was drawn yet
  Settings seen_;            ///< the settings that the look follows
  bool device_chosen_ = false;
  bool built_in_failed_ = false;
  std::string waiting_model_;   ///< loaded as soon as the devices are known
  std::string restored_model_;  ///< the last session's, until it is loaded or has failed
  Id seen_conversation_ = 0;    ///< that the settings know
  bool fonts_due_ = false;
  bool help_due_ = false;
  bool popup_was_open_ = false;  ///< in the last frame
  double quit_until_ = 0;  ///< so long the window closes whatever is lost; seconds of the clock
};

}  // namespace infer::gui
