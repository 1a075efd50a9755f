// The window's contents: pages, what they share, and the services behind them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conversations/async_store.h"
#include "gui/fonts.h"
#include "gui/host/engine_host.h"
#include "gui/panes/chat_pane.h"
#include "gui/state/chat_state.h"
#include "gui/state/model_state.h"
#include "gui/state/toasts.h"
#include "gui/window.h"

namespace infer::gui {

struct AppOptions {
  std::string model;  ///< loaded at the start
  LoadOptions load;
  std::string store;  ///< file of the conversations
};

enum class Page { chat, models, insight, tools, settings };

class App final : public WindowClient {
 public:
  App(Window& window, AppOptions options);
  ~App() override;

  void set_scale(float scale) override;
  void poll() override;
  bool prepare() override;
  void draw() override;
  void drop(const std::vector<std::string>& paths) override;
  bool may_close() override;

  ChatState& chat() { return chat_; }
  ModelState& models() { return models_; }
  void show(Page page) { page_ = page; }

 private:
  void see(const EngineEvent& event);
  void draw_top();
  void draw_model_badge();
  void draw_help();
  void draw_startup_notice();
  void take_shortcuts();
  void rebuild_fonts();

  Window& window_;
  AppOptions options_;
  Toasts toasts_;
  EngineHost engine_;
  conversations::AsyncStore store_;
  ChatState chat_;
  ModelState models_;
  Fonts fonts_;
  ChatPane chat_pane_;

  Page page_ = Page::chat;
  float scale_ = 1;
  float font_size_ = 15;  ///< in units
  bool fonts_due_ = false;
  bool help_due_ = false;
};

}  // namespace infer::gui
