// Whether the desktop is dark, by what its files say.
#include "gui/host/system_theme.h"

#include <doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support.h"

using namespace infer::gui;

namespace {

namespace fs = std::filesystem;

class Config {
 public:
  void put(const std::string& file, const std::string& text) const {
    const fs::path path = folder_.path(file);
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<bool> dark(const char* variable = "") const {
    return prefers_dark(folder_.path(""), variable);
  }

 private:
  infer::test::TempDir folder_;
};

}  // namespace

TEST_CASE("the desktop's colours: the variable, then KDE, then GTK") {
  const Config config;
  CHECK(!config.dark().has_value());
  CHECK(config.dark("Adwaita:dark") == true);
  CHECK(config.dark("Adwaita") == false);
  config.put("gtk-3.0/settings.ini", "[Settings]\ngtk-theme-name = Yaru-Dark\n");
  CHECK(config.dark() == true);
  config.put("gtk-4.0/settings.ini", "[Settings]\ngtk-application-prefer-dark-theme=false\n");
  CHECK(config.dark() == false);
  config.put("gtk-4.0/settings.ini",
             "[Settings]\ngtk-theme-name=Adwaita\ngtk-application-prefer-dark-theme=1\n");
  CHECK(config.dark() == true);
  config.put("kdeglobals", "[General]\nColorScheme=BreezeLight\n");
  CHECK(config.dark() == false);
}

TEST_CASE("the desktop's colours: files that say nothing") {
  const Config config;
  config.put("kdeglobals", "no equals sign\n=\n" + std::string(100'000, 'x'));
  config.put("gtk-3.0/settings.ini", std::string(1000, '='));
  CHECK(!config.dark().has_value());
}
