#include "gui/app.h"

#include <imgui/imgui.h>
#include <imgui/imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "chat/image_marks.h"
#include "gui/host/system_theme.h"
#include "gui/keys.h"
#include "gui/panes/text_style.h"
#include "gui/panes/toast_view.h"
#include "gui/state/text_file.h"
#include "gui/theme.h"
#include "gui/ui/tab_order.h"
#include "gui/ui/text_area.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

constexpr float kLeastFont = 8;  // as the settings' file allows
constexpr float kLargestFont = 48;

const std::vector<std::string>& page_names() {
  static const std::vector<std::string> names{"Chat", "Models", "Insight", "Tools", "Settings"};
  return names;
}

std::string percent(double share) {
  return std::to_string(static_cast<int>(std::lround(share * 100))) + " %";
}

}  // namespace

LoadOptions load_options(const Settings& settings) {
  LoadOptions options;
  if (!settings.device.empty()) options.device = settings.device;
  options.threads = settings.threads;
  options.memory_limit = settings.memory_limit;
  options.reserve = settings.reserve;
  options.context = settings.context;
  options.cache_type_k = options.cache_type_v = settings.cache_type;
  return options;
}

ChatSettings chat_settings(const Settings& settings) {
  ChatSettings chat;
  chat.max_tokens = settings.max_tokens;
  chat.sampling.temperature = settings.temperature;
  chat.sampling.top_k = settings.top_k;
  chat.sampling.top_p = settings.top_p;
  chat.sampling.min_p = settings.min_p;
  chat.sampling.repeat_penalty = settings.repeat_penalty;
  return chat;
}

App::App(Window& window, AppOptions options)
    : window_(window),
      options_(std::move(options)),
      system_is_dark_(system_prefers_dark()),
      settings_(options_.settings, [this] { window_.wake(); }),
      engine_([this] { window_.wake(); }),
      store_(options_.store,
             {.open = {},
              .opened =
                  [this](const Status& status, const conversations::OpenReport& report) {
                    if (!status.ok()) {
                      toasts_.fail(status);
                      chat_.set_unsaved(status.message());
                    }
                    if (!report.set_aside.empty()) {
                      toasts_.fail("The file of the conversations was damaged (" + report.damage +
                                   "). It was moved to " + report.set_aside + "; " +
                                   std::to_string(report.recovered_conversations) +
                                   " conversations were recovered.");
                    }
                    chat_.refresh();
                    if (const Id last = settings_.get().last_conversation; last != 0) {
                      chat_.reopen(last);
                    }
                  },
              .written_anew =
                  [this] {
                    toasts_.tell("The file of the conversations was gone, and was written again: " +
                                 options_.store);
                  },
              .save_failed = [this](const Status& status) { toasts_.fail(status); },
              .wake = [this] { window_.wake(); },
              .in_memory_otherwise = true}),
      library_([this] { window_.wake(); }),
      monitor_([this] { window_.wake(); }),
      chat_(store_, engine_, toasts_),
      models_(engine_, toasts_),
      jobs_(engine_, toasts_, [this] { window_.wake(); }),
      chat_pane_(chat_, fonts_, [this] { window_.wake(); }),
      models_pane_(library_, models_, settings_, options_.built_in, [this] { window_.wake(); }),
      insight_pane_(engine_, models_, chat_, jobs_, metrics_),
      tools_pane_(jobs_, models_),
      settings_pane_(settings_, models_, chat_) {
  ui::set_text_hook([this](std::string_view text) { fonts_.need(text); });
  ui::set_text_look(&look_);
  for (const std::string& problem : settings_.problems()) toasts_.fail(problem);
  seen_ = settings_.get();
  models_.options() = load_options(seen_);
  chat_.set_defaults(seen_.system_prompt, chat_settings(seen_));
  chat_.on_template = [this](const std::string& chosen) {
    if (models_.loaded() == nullptr) return;
    Settings settings = settings_.get();
    choose_for(settings.templates, models_.loaded()->model->path, chosen);
    settings_.set(std::move(settings));
  };
  models_.companions_of = [this](const std::string& path) { return companions_of(path); };
  library_.set_favourites(seen_.favourites);
  if (options_.scans) library_.scan(seen_.folders);
  choose_model();
  if (!options_.model.empty()) start_model();
}

App::~App() {
  remember_window();
  chat_pane_.leave();
  ui::set_text_hook({});
  ui::set_text_look(nullptr);
}

bool App::prepare(float scale) {
  follow_settings();
  if (scale != scale_) {
    scale_ = scale;
    fonts_due_ = true;
  }
  if (!fonts_due_ && !fonts_.finds_more(ImGui::GetTime())) return false;
  fonts_due_ = false;
  apply_theme(theme_of(seen_.theme, system_is_dark_), scale_);
  fonts_.build(std::round(seen_.font_size * scale_));
  style_text(look_, fonts_);
  chat_pane_.restyle();
  return true;
}

/// The look follows the settings at once; loading does so with the next model.
void App::follow_settings() {
  const Settings& now = settings_.get();
  if (now == seen_) return;
  if (now.theme != seen_.theme || now.font_size != seen_.font_size) fonts_due_ = true;
  const LoadOptions before = load_options(seen_);
  const LoadOptions changed = load_options(now);
  LoadOptions& next = models_.options();
  bool replan = false;
  // What the user has chosen for a plan stays where the settings have not changed.
  const auto follow = [&](auto LoadOptions::*option) {
    if (before.*option == changed.*option) return;
    next.*option = changed.*option;
    replan = true;
  };
  follow(&LoadOptions::threads);
  follow(&LoadOptions::memory_limit);
  follow(&LoadOptions::reserve);
  follow(&LoadOptions::context);
  follow(&LoadOptions::cache_type_k);
  follow(&LoadOptions::cache_type_v);
  if (now.device != seen_.device) {
    next.device = now.device.empty() ? models_.best_device() : now.device;
    replan = true;
  }
  seen_ = now;
  chat_.set_defaults(seen_.system_prompt, chat_settings(seen_));
  if (replan) models_.plan_again();
}

void App::poll() {
  toasts_.set_time(ImGui::GetTime());
  store_.poll();
  engine_.poll([this](const EngineEvent& event) { see(event); });
  settings_.poll([this](const Status& status) { toasts_.fail(status); });
  library_.poll();
  models_pane_.poll();
  jobs_.poll();
  monitor_.poll([this](const SystemSample& sample) { insight_pane_.add(sample); });
  remember_conversation();
}

void App::see(const EngineEvent& event) {
  models_.see(event);
  chat_.see(event);
  jobs_.see(event);
  insight_pane_.see(event);
  if (std::holds_alternative<Loaded>(event)) {
    const auto chosen = seen_.templates.find(models_.loaded()->model->path);
    chat_.set_model(models_.name(), models_.loaded()->model->path,
                    chosen == seen_.templates.end() ? "" : chosen->second);
    metrics_.clear();
  }
  see_model(event);
  if (std::holds_alternative<Unloaded>(event)) chat_.set_model({}, {}, {});
  if (std::holds_alternative<Devices>(event)) choose_device();
}

/// While the insight is seen, and while something runs, a sample a second.
void App::sample() {
  const std::optional<EngineStatistics> statistics = engine_.statistics();
  const bool seen = page_ == Page::insight;
  monitor_.run(seen);
  if (!statistics) return;
  const double now = ImGui::GetTime();
  const bool busy = statistics->calls_running > 0;
  if (metrics_.is_due(now) && (seen || busy)) {
    metrics_.add(now, *statistics, models_.memory());
    if (seen) models_.ask_memory();
  }
  if (seen) window_.redraw_within(Metrics::kInterval);
}

void App::drop(const std::vector<std::string>& paths) {
  // Conversations are imported, images and texts go into the message, models are planned.
  std::vector<std::string> models;
  for (const std::string& path : paths) {
    const bool image = chat::names_image(path);
    const Result<std::optional<std::string>> text =
        image ? std::optional<std::string>() : read_text_file(path);
    const bool json = path.ends_with(".json");
    if (json && (!text || (*text && looks_like_conversations(**text)))) {
      chat_.import(path);
    } else if (!text) {
      toasts_.fail(text.error());
    } else if (image || *text) {
      page_ = Page::chat;
      chat_pane_.attach(image ? chat::image_mark(path) : quoted_file(path, **text));
    } else {
      models.push_back(path);
    }
  }
  if (models.empty()) return;
  page_ = Page::models;
  models_.plan(models.front());
  if (models.size() == 1) return;
  std::string others;
  for (size_t i = 1; i < models.size(); ++i) others += (i > 1 ? ", " : "") + short_name(models[i]);
  toasts_.tell("Only one model is planned at a time: " + short_name(models.front()) +
               ". Drop again: " + others + ".");
}

/// Ctrl+Q is close to other keys, as the button of a window is to others: what would be lost is
/// told first. What was typed into a field counts when the field is left, which it is in one more
/// frame.
bool App::may_close() {
  if (!closes_ && tells_of_loss()) return false;
  if (closes_ || window_.is_hidden() || !ImGui::IsAnyItemActive()) return true;
  closes_ = true;
  window_.redraw_within(0);
  return false;
}

/// Whether closing the window would lose something that the user was not told of.
bool App::tells_of_loss() {
  const double now = ImGui::GetTime();
  const bool draft = chat_pane_.has_draft();
  const bool unsaved = !chat_.waits_for_disk().ok();
  const bool imports = chat_.importing().has_value();
  if ((!draft && !unsaved && !imports && !jobs_.is_running()) || now < quit_until_) return false;
  quit_until_ = now + Toasts::kSeconds;
  if (window_.is_hidden()) window_.raise();
  toasts_.tell(std::string(unsaved ? "An answer is not saved yet."
                           : draft ? "A message is not sent yet."
                           : imports
                               ? "Conversations are still being imported: nothing of that is kept."
                               : "A tool is still running.") +
               " Ctrl+Q again quits, or closing the window again.");
  window_.redraw_within(0);
  return true;
}

void App::take_shortcuts() {
  const float step = is_pressed(Shortcut::larger_font)    ? 1.0f
                     : is_pressed(Shortcut::smaller_font) ? -1.0f
                                                          : 0.0f;
  if (step != 0) {
    Settings settings = settings_.get();
    settings.font_size = std::clamp(settings.font_size + step, kLeastFont, kLargestFont);
    settings_.set(std::move(settings));
  }
  if (is_pressed(Shortcut::quit)) window_.close();
  // What is open has the keys; Escape closes some of it before this is called.
  if (popup_was_open_ || ui::is_popup_open()) return;
  const std::pair<Shortcut, Page> pages[] = {{Shortcut::page_chat, Page::chat},
                                             {Shortcut::page_models, Page::models},
                                             {Shortcut::page_insight, Page::insight},
                                             {Shortcut::page_tools, Page::tools},
                                             {Shortcut::page_settings, Page::settings}};
  for (const auto& [shortcut, page] : pages) {
    if (is_pressed(shortcut)) page_ = page;
  }
  if (is_pressed(Shortcut::open_model)) {
    page_ = Page::models;
    models_pane_.focus();
  }
  if (is_pressed(Shortcut::help)) help_due_ = true;
  if (page_ != Page::chat) return;
  chat_pane_.take_shortcuts();
}

void App::draw() {
  ui::take_tab_and_enter();
  take_shortcuts();
  sample();
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
  ImGui::Begin("infer", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoBringToFrontOnFocus |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
  draw_top();
  // A field that is being typed into is left on its own page, and the other one comes next.
  leaves_ = !leaves_ && (closes_ || page_ != shown_) && ImGui::IsAnyItemActive();
  if (leaves_) {
    ImGui::ClearActiveID();
    window_.redraw_within(0);
  } else {
    if (shown_ == Page::chat && page_ != Page::chat) chat_pane_.leave();
    if (shown_ != Page::chat && page_ == Page::chat) chat_pane_.enter();
    shown_ = page_;
  }
  static constexpr const char* kNames[] = {"chat", "models", "insight", "tools", "settings"};
  if (ui::Area area(kNames[static_cast<size_t>(shown_)], 0, 0); area) {
    switch (shown_) {
      case Page::chat: chat_pane_.draw(); break;
      case Page::models: models_pane_.draw(); break;
      case Page::insight: insight_pane_.draw(); break;
      case Page::tools: tools_pane_.draw(); break;
      case Page::settings: settings_pane_.draw(); break;
    }
  }
  draw_help();
  ImGui::End();
  // What is typed and sent stays in reach, and the settings that a message may speak of.
  const bool chat = page_ == Page::chat;
  draw_toasts(toasts_, chat ? chat_pane_.options_width() : 0,
              chat ? chat_pane_.composer_height() : 0);
  if (const double next = toasts_.next_end(); next > 0) window_.redraw_within(next);
  constexpr double kProgressSeconds = 0.2;
  if (chat_.importing()) window_.redraw_within(kProgressSeconds);
  if (page_ == Page::chat && !chat_pane_.is_settled()) window_.redraw_within(0);
  if (const double wait = fonts_.seconds_until_due(ImGui::GetTime()); std::isfinite(wait)) {
    window_.redraw_within(wait);
  }
  popup_was_open_ = ui::is_popup_open();
  if (closes_) window_.close();
}

void App::draw_top() {
  const ui::Scope scope("top");
  auto page = static_cast<size_t>(page_);
  if (ui::segments("page", page, page_names())) page_ = static_cast<Page>(page);
  ImGui::SameLine();
  draw_model_badge();
  ImGui::Separator();
}

void App::draw_model_badge() {
  std::string label;
  switch (models_.phase()) {
    case ModelState::Phase::none: label = "No model is loaded"; break;
    case ModelState::Phase::loaded: label = models_.name(); break;
    case ModelState::Phase::loading:
      label = short_name(models_.loading_path()) +
              (models_.is_waiting() ? ": waits for answers"
                                    : ": loading " + percent(models_.progress()));
      break;
  }
  const float width = ui::ShownText(label).width() + ImGui::GetStyle().FramePadding.x * 2 + 2;
  const float room = ImGui::GetContentRegionAvail().x;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, room - width));
  if (ui::button("model", label, ui::Tone::quiet, std::min(width, room))) page_ = Page::models;
}

void App::draw_help() {
  if (std::exchange(help_due_, false)) ui::open_dialog("help");
  if (ui::Dialog dialog("help", "Keys", ImGui::GetFontSize() * 30); dialog) {
    if (ImGui::BeginTable("keys", 2)) {
      for (const ShortcutHelp& help : shortcuts()) {
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        ui::text(help.keys);
        ImGui::TableNextColumn();
        ui::text(help.does, help.keys);
      }
      ImGui::EndTable();
    }
    if (ui::button("close", "Close", ui::Tone::primary)) ui::Dialog::close();
  }
}

}  // namespace infer::gui
