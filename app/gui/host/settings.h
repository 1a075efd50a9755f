// The settings of the window: plain data, and a TOML text of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/status.hpp"

namespace infer::gui {

struct Settings {
  // How it looks.
  std::string theme = "system";  ///< system, light, dark, contrast
  float font_size = 15;          ///< points, 8 to 48
  int32_t width = 1280;          ///< of the window, in its units
  int32_t height = 800;
  bool maximised = false;

  // How models are loaded. See LoadOptions.
  std::string device;  ///< empty: the best one
  int32_t threads = 0;
  int64_t memory_limit = 0;
  int64_t reserve = -1;
  int64_t context = 0;
  std::string cache_type = "f16";  ///< f32, f16, q8_0, q4_0, auto

  // Models. Paths; the last used one first.
  std::vector<std::string> recent;
  std::vector<std::string> favourites;
  std::vector<std::string> folders;  ///< that are looked through for models
  /// By the path of a model: what reads images for it, and its draft model. One that is found
  /// beside the model is not named; empty: none, though one would be found.
  std::map<std::string, std::string> visions, drafts;
  std::string last_model;  ///< path of the one that was loaded last; empty: none

  // Conversations.
  int64_t last_conversation = 0;  ///< 0: none
  std::string system_prompt;      ///< of new conversations
  int32_t max_tokens = -1;        ///< of an answer; −1: until its end
  /// By the path of a model: the chat template that was chosen for it (ChatSettings).
  std::map<std::string, std::string> templates;
  // Sampling of new conversations; unset: as the model says. See SamplingOptions.
  std::optional<float> temperature, top_p, min_p, repeat_penalty;
  std::optional<int32_t> top_k;

  bool operator==(const Settings&) const = default;
};

inline constexpr size_t kMostRecent = 20;
inline constexpr int32_t kMostThreads = 64;  ///< that the engine takes
inline constexpr size_t kMostPaths = 1000;
inline constexpr size_t kMostChosen = 100;

/// Puts a model before all others of the recent ones.
void add_recent(Settings& settings, const std::string& path);
/// Adds a favourite, or removes it.
void toggle_favourite(Settings& settings, const std::string& path);
/// Remembers what was chosen for a model, or that it is the usual again.
void choose_for(std::map<std::string, std::string>& all, const std::string& path,
                const std::string& chosen, const std::string& usual = {});

struct ReadSettings {
  Settings settings;
  /// Values that cannot be used; the settings have the defaults instead. "look.font_size: expected
  /// …, found …".
  std::vector<std::string> problems;
};

/// Reads a TOML text. Unknown keys are ignored. bad_file: it is not TOML; the message names the
/// line.
Result<ReadSettings> parse_settings(std::string_view text);

/// `text` with those settings in it that differ from `before` or that it lacks. Its other keys
/// stay; its comments do not. bad_file: `text` is not TOML.
Result<std::string> write_settings(const Settings& settings, const Settings& before,
                                   std::string_view text);

}  // namespace infer::gui
