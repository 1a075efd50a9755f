// Settings: read, written, kept, and what becomes of files that are wrong.
#include "gui/host/settings.h"

#include <doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "gui/host/settings_store.h"
#include "platform/atomic_file.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

namespace fs = std::filesystem;

void write(const std::string& path, const std::string& text) { write_bytes(path, bytes_of(text)); }

Settings changed() {
  Settings settings;
  settings.theme = "dark";
  settings.font_size = 17.1f;
  settings.width = 1920;
  settings.maximised = true;
  settings.device = "vulkan";
  settings.threads = 3;
  settings.memory_limit = int64_t{5} << 40;
  settings.context = 8192;
  settings.cache_type = "q8_0";
  settings.recent = {"/models/é \"quoted\".gguf", "memory:x"};
  settings.favourites = {"/a\nb"};
  settings.folders = {"/models"};
  settings.last_conversation = 77;
  settings.system_prompt = "Be brief.\n\"\"\"\x01 ünïcode";
  settings.max_tokens = 100;
  choose_for(settings.templates, "/models/a b.gguf", "{{ \"x\" }}\n");
  choose_for(settings.templates, "/models/c.gguf", "chatml");
  settings.temperature = 0.1f;
  settings.top_k = 40;
  return settings;
}

/// Writes a change through a store, whose end waits for the file.
void store(const std::string& path, const Settings& settings) { SettingsStore(path).set(settings); }

int files_in(const fs::path& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

TEST_CASE("settings are read as they were written, whatever is in them") {
  for (const Settings& settings : {Settings(), changed()}) {
    const Result<std::string> text = write_settings(settings, {}, "");
    REQUIRE(text.has_value());
    const Result<ReadSettings> read = parse_settings(*text);
    REQUIRE_MESSAGE(read.has_value(), read.error().message());
    CHECK(read->settings == settings);
    CHECK(read->problems.empty());
  }
  // Numbers as a person writes them, whatever the locale: no 17,1 and no 17.1000003814.
  const std::string text = *write_settings(changed(), {}, "");
  CHECK(text.find("font_size = 17.1\n") != std::string::npos);
  CHECK(text.find("temperature = 0.1\n") != std::string::npos);
}

TEST_CASE("unknown keys stay") {
  const std::string before =
      "later = 1\n[look]\nshadow = [1, 2]\ntheme = 'light'\n[other.deep]\nkey = 2020-01-01\n"
      "[sampling]\ntemperature = 2.0\n";
  Settings settings;
  settings.theme = "dark";
  const Result<std::string> text =
      write_settings(settings, parse_settings(before)->settings, before);
  REQUIRE(text.has_value());
  for (const char* part : {"later = 1", "shadow = [ 1, 2 ]", "key = 2020-01-01", "[other.deep]"}) {
    CHECK_MESSAGE(text->find(part) != std::string::npos, *text);
  }
  CHECK(parse_settings(*text)->settings.theme == "dark");
  CHECK(!parse_settings(*text)->settings.temperature.has_value());
}

TEST_CASE("values that cannot be used are told, and the defaults hold") {
  const Result<ReadSettings> read = parse_settings(
      "look = 7\n[window]\nwidth = 10\nheight = 1e3\nmaximised = 'yes'\n[engine]\nthreads = -1\n"
      "cache_type = 'f64'\nmemory_limit = 99999999999999\n[models]\nrecent = [1]\n"
      "folders = 'x'\n[sampling]\ntemperature = nan\ntop_p = 0.5\ntop_k = 9999999999\n");
  REQUIRE(read.has_value());
  Settings expected;
  expected.memory_limit = 99999999999999;
  expected.top_p = 0.5f;
  CHECK(read->settings == expected);
  REQUIRE(read->problems.size() == 10);
  CHECK(read->problems[0] == "look: expected a section, found 7");
  CHECK(read->problems[1] == "window.width: expected a whole number from 200 to 32768, found 10");
  CHECK(read->problems[5].starts_with("engine.cache_type: expected one of f32, f16"));
}

TEST_CASE("texts that are not TOML are errors with a line") {
  for (const std::string& text :
       {std::string("a = 1\nb = = 2"), std::string("\xff\xfe"), std::string("a = \"\n"),
        "a = " + std::string(100'000, '['), std::string(2 << 20, '#'), std::string("[a]\n[a]")}) {
    const Result<ReadSettings> read = parse_settings(text);
    REQUIRE(!read.has_value());
    CHECK(read.error().code() == StatusCode::bad_file);
    CHECK(!write_settings({}, {}, text).has_value());
  }
  CHECK(parse_settings("a = 1\nb = = 2").error().message().starts_with("line 2: "));
}

TEST_CASE("letters beyond ASCII outside of texts are errors") {
  for (const char* letter :
       {"\u00e9", "\u00a0", "\u0416", "\u2003", "\u3000", "\u4e2d", "\U0001F600"}) {
    for (const std::string& text : {std::string(letter) + " = 1", "look = " + std::string(letter),
                                    "[" + std::string(letter) + "]"}) {
      INFO(text);
      const Result<ReadSettings> read = parse_settings(text);
      if (read) CHECK(read->settings == Settings());
    }
  }
}

TEST_CASE("damaged texts are errors or settings within their bounds") {
  const std::string whole = *write_settings(changed(), {}, "later = [1, {a = 2}]\n");
  std::mt19937 random(1);
  int errors = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (int i = 0; i < 1 + round % 3; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 5); break;
        default: text.insert(at, whole.substr(random() % whole.size(), random() % 9)); break;
      }
    }
    const Result<ReadSettings> read = parse_settings(text);
    if (!read) {
      ++errors;
      CHECK(read.error().code() == StatusCode::bad_file);
      CHECK(!write_settings({}, {}, text).has_value());
      continue;
    }
    const Settings& settings = read->settings;
    CHECK((settings.font_size >= 8 && settings.font_size <= 48));
    CHECK((settings.width >= 200 && settings.height <= 32768));
    CHECK(settings.recent.size() <= kMostRecent);
    const Result<std::string> again = write_settings(settings, settings, text);
    REQUIRE(again.has_value());
    CHECK(parse_settings(*again)->settings == settings);
  }
  CHECK(errors > 100);
  CHECK(errors < 2900);
}

TEST_CASE("a store keeps settings in a file that only the user reads") {
  const TempDir folder;
  const std::string path = folder.path("config/infer/settings.toml");
  CHECK(SettingsStore(path).problems().empty());
  CHECK(!fs::exists(path));
  store(path, changed());
  SettingsStore read(path);
  CHECK(read.get() == changed());
  CHECK(read.problems().empty());
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(files_in(folder.path("config/infer")) == 1);
  // What others wrote meanwhile stays, but for settings.
  write(path, read_text(path) + "\n[mine]\nkey = 'kept'\n");
  Settings settings = read.get();
  settings.font_size = 20;
  store(path, settings);
  CHECK(read_text(path).find("kept") != std::string::npos);
  CHECK(SettingsStore(path).get() == settings);
}

TEST_CASE("two windows keep each other's settings") {
  const TempDir folder;
  const std::string path = folder.path("settings.toml");
  store(path, changed());
  {
    SettingsStore first(path);
    Settings settings = first.get();
    settings.theme = "contrast";
    store(path, settings);  // the second window
    settings = first.get();
    settings.font_size = 20;
    settings.temperature.reset();
    first.set(settings);
  }
  Settings both = changed();
  both.theme = "contrast";
  both.font_size = 20;
  both.temperature.reset();
  CHECK(SettingsStore(path).get() == both);
}

TEST_CASE("a broken file is kept beside, and said so") {
  const TempDir folder;
  const std::string path = folder.path("settings.toml");
  for (int round = 1; round <= 12; ++round) {
    write(path, "broken = " + std::to_string(round) + " =");
    SettingsStore opened(path);
    CHECK(opened.get() == Settings());
    REQUIRE(opened.problems().size() == 1);
    CHECK(opened.problems()[0].find("settings.toml: line 1:") != std::string::npos);
    CHECK(opened.problems()[0].find("renamed to settings.toml.broken") != std::string::npos);
    CHECK(!fs::exists(path));
  }
  CHECK(read_text(path + ".broken") == "broken = 1 =");
  CHECK(read_text(path + ".broken-2") == "broken = 2 =");
  CHECK(files_in(folder.path("")) == 9);
  // Broken by somebody while the window is open: kept, and the change is written.
  SettingsStore opened(path);
  write(path, "= =");
  Settings settings;
  settings.theme = "light";
  opened.set(settings);
  std::vector<Status> told;
  while (told.empty()) opened.poll([&](const Status& status) { told.push_back(status); });
  CHECK(told[0].code() == StatusCode::bad_file);
  CHECK(SettingsStore(path).get() == settings);
}

TEST_CASE("a file that cannot be read or written is told and stays") {
  const TempDir folder;
  const std::string path = folder.path("settings.toml");
  fs::create_directory(path);  // no rights are needed for this, and none help
  SettingsStore opened(path);
  REQUIRE(opened.problems().size() == 1);
  CHECK(opened.problems()[0].find("cannot read") != std::string::npos);
  Settings settings;
  settings.theme = "light";
  opened.set(settings);
  std::vector<Status> told;
  while (told.empty()) opened.poll([&](const Status& status) { told.push_back(status); });
  CHECK(told[0].code() == StatusCode::io);
  CHECK(fs::is_directory(path));
  CHECK(opened.get() == settings);
  // A folder that is a file.
  write(folder.path("file"), "");
  SettingsStore nowhere(folder.path("file/settings.toml"));
  nowhere.set(settings);
  told.clear();
  while (told.empty()) nowhere.poll([&](const Status& status) { told.push_back(status); });
  CHECK(told[0].code() == StatusCode::io);
  // Without a path nothing is kept.
  SettingsStore none("");
  none.set(settings);
  CHECK(none.get() == settings);
}

TEST_CASE("the last of many changes is in the file, which is whole at all times") {
  const TempDir folder;
  const std::string path = folder.path("settings.toml");
  {
    SettingsStore opened(path);
    for (int i = 0; i < 300; ++i) {
      Settings settings = opened.get();
      settings.width = 1000 + i;
      opened.set(settings);
      if (fs::exists(path)) CHECK(parse_settings(read_text(path)).has_value());
    }
  }
  CHECK(SettingsStore(path).get().width == 1299);
  CHECK(files_in(folder.path("")) == 1);
}

TEST_CASE("a link stays a link, and a failure leaves nothing behind") {
  const TempDir folder;
  write(folder.path("target"), "old");
  fs::create_symlink(folder.path("target"), folder.path("link"));
  CHECK(!platform::replace_file(folder.path("link"), "new"));
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(read_text(folder.path("target")) == "new");
  fs::create_directory(folder.path("folder"));
  CHECK(platform::replace_file(folder.path("folder"), "new"));
  CHECK(files_in(folder.path("")) == 3);
}

TEST_CASE("recent models and favourites") {
  Settings settings;
  for (int i = 0; i < 30; ++i) add_recent(settings, std::to_string(i));
  CHECK(settings.recent.size() == kMostRecent);
  CHECK(settings.recent.front() == "29");
  add_recent(settings, "20");
  CHECK(settings.recent.size() == kMostRecent);
  CHECK(settings.recent[0] == "20");
  CHECK(settings.recent[1] == "29");
  toggle_favourite(settings, "a");
  toggle_favourite(settings, "b");
  toggle_favourite(settings, "a");
  CHECK(settings.favourites == std::vector<std::string>{"b"});
}

TEST_CASE("the file's place") {
  const char* const before = std::getenv("XDG_CONFIG_HOME");
  const std::string kept = before == nullptr ? "" : before;
  setenv("XDG_CONFIG_HOME", "/config", 1);
  CHECK(settings_path() == "/config/infer/settings.toml");
  setenv("XDG_CONFIG_HOME", "relative", 1);
  CHECK(settings_path() != fs::path("relative/infer/settings.toml"));
  if (before == nullptr) {
    unsetenv("XDG_CONFIG_HOME");
  } else {
    setenv("XDG_CONFIG_HOME", kept.c_str(), 1);
  }
}
