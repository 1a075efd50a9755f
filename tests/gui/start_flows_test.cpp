// The window opens as it was left.
#include <filesystem>
#include <fstream>

#include "gui/host/settings_store.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;

#define NEEDS_WINDOW() \
  if (test::shared_window() == nullptr) return

const std::string kNewConversation = "chat/left/conversations/new";

/// The path of the model that is loaded, or will be soon.
std::string loaded_path(Fixture& f) {
  f.wait_for_model();
  return f.app->models().loaded()->model->path;
}

TEST_CASE("start: the size and the conversation are those of before") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id id = f.app->chat().current();
  f.driver->resize(1000, 700, 1);
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == id; }));
  CHECK(f.shown().size() == 2);
  CHECK(read_settings(f.options.settings).width == 1000);
  CHECK(read_settings(f.options.settings).height == 700);
  CHECK_FALSE(read_settings(f.options.settings).maximised);
  f.driver->resize(1280, 800, 1);
  f.driver->click(kNewConversation);
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.driver->frames(5);
  CHECK(f.app->chat().current() == 0);  // a new one was begun
  f.app->chat().open(id);
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == id; }));
  f.app->chat().remove(id);
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == 0; }));
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().trash().size() == 1; }));
  CHECK(f.app->chat().current() == 0);
  CHECK(f.app->toasts().all().empty());
}

TEST_CASE("start: the model that was used last is loaded again") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{.built_in = demo::model_path()});
  CHECK(loaded_path(f) == demo::model_path());
  const std::string model = f.folder.path("mine.gguf");
  std::filesystem::copy_file(infer::test::data_path("golden/llama-q4_0.gguf"), model);
  f.app->models().load(model, f.app->models().options());
  REQUIRE(f.driver->wait([&] { return f.app->settings().get().last_model == model; }));
  f.restart();
  CHECK(loaded_path(f) == model);
  // The command line names another one.
  f.options.model = demo::model_path();
  f.restart();
  CHECK(loaded_path(f) == demo::model_path());
  f.options.model.clear();
  f.restart();
  CHECK(loaded_path(f) == model);
}

TEST_CASE("start: the built-in model takes the place of one that cannot be loaded") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{.built_in = demo::model_path()});
  f.wait_for_model();
  Settings settings = f.app->settings().get();
  settings.last_model = f.folder.path("mine.gguf");
  f.app->settings().set(settings);
  f.restart();
  CHECK(loaded_path(f) == demo::model_path());
  REQUIRE(f.app->toasts().all().size() == 1);
  CHECK(f.app->toasts().all()[0].text.find("mine.gguf is not there") != std::string::npos);
  std::ofstream(settings.last_model) << "no model";
  f.restart();
  CHECK(loaded_path(f) == demo::model_path());
  REQUIRE(f.app->toasts().all().size() == 1);
  CHECK(f.app->toasts().all()[0].text.find("mine.gguf") != std::string::npos);
  CHECK(f.app->settings().get().last_model == settings.last_model);  // it may be there again later
}

}  // namespace
}  // namespace infer::gui
