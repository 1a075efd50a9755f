// What belongs to one model, one conversation or one file stays with it.
#include <GLFW/glfw3.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "conversations/store.h"
#include "gui/host/settings_store.h"
#include "tests/conversations/helpers.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;
namespace fs = std::filesystem;

const std::string kSettings = "chat/right/options/";
const std::string kGolden = infer::test::data_path("golden/llama-q4_0.gguf");

TEST_CASE("tools: a file that is there is replaced only if the user says so") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string output = f.folder.path("thesis.gguf");
  std::ofstream(output) << "my thesis";
  f.driver->click("top/page/Tools");
  f.driver->click("tools/tool/Quantise");
  f.driver->fill("tools/form/model", infer::test::data_path("golden/llama-f32.gguf"));
  f.driver->fill("tools/form/output", output);
  f.driver->click("tools/form/start");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("tools/form/exists"); }));
  f.driver->frames(10);
  CHECK(fs::file_size(output) == 9);
  f.driver->click("tools/form/start");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("tools/form/report/title"); }, 60));
  CHECK(fs::file_size(output) > 9);
  CHECK_FALSE(f.driver->shows("tools/form/exists"));
}

TEST_CASE("models: what reads images is found beside a model, kept for it and for no other") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{.built_in = demo::model_path()});
  const std::string model = f.folder.path("tiny.gguf");
  const std::string vision = f.folder.path("mmproj-tiny.gguf");
  fs::copy_file(infer::test::data_path("vision/tiny.gguf"), model);
  fs::copy_file(infer::test::data_path("vision/tiny-mmproj.gguf"), vision);
  f.wait_for_model();
  const auto plan = [&](const std::string& path) {
    f.app->drop({path});
    REQUIRE(f.driver->wait([&] {
      const ModelState& models = f.app->models();
      return models.planned() != nullptr && !models.is_planning() && models.planned()->status.ok();
    }));
  };
  const auto load = [&](const std::string& path) {
    f.app->models().load_planned();
    REQUIRE(f.driver->wait([&] {
      return f.app->models().loaded() != nullptr && f.app->models().loaded()->model->path == path &&
             f.app->models().phase() == ModelState::Phase::loaded;
    }));
  };
  plan(model);
  CHECK(f.app->models().options().vision == vision);
  load(model);
  plan(kGolden);
  CHECK(f.app->models().options().vision.empty());
  // The user wants none, and is asked no more.
  plan(model);
  f.app->models().options().vision.clear();
  f.app->models().plan_again();
  load(model);
  f.restart();
  f.wait_for_model();
  CHECK(f.app->models().loaded()->model->path == model);
  CHECK(f.app->models().loaded()->options.vision.empty());
  // One of another place.
  const std::string other = f.folder.path("other.gguf");
  fs::rename(vision, other);
  plan(model);
  f.app->models().options().vision = other;
  f.app->models().plan_again();
  load(model);
  f.restart();
  f.wait_for_model();
  CHECK(f.app->models().loaded()->options.vision == other);
}

TEST_CASE("models: a file beside a model that does not go with it is left out") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string model = f.folder.path("mine.gguf");
  fs::copy_file(kGolden, model);
  fs::copy_file(infer::test::data_path("vision/tiny-mmproj.gguf"), f.folder.path("mmproj.gguf"));
  f.app->drop({model});
  REQUIRE(f.driver->wait([&] {
    const ModelState& models = f.app->models();
    return models.planned() != nullptr && !models.is_planning() && models.planned()->status.ok();
  }));
  CHECK(f.app->models().options().vision.empty());
  // Also where it is loaded without a plan.
  f.options.model = model;
  f.restart();
  f.wait_for_model();
  CHECK(f.app->models().loaded()->model->path == model);
  CHECK(f.app->models().loaded()->options.vision.empty());
}

TEST_CASE("models: the built-in model is among them, and a narrow window shows the plan alone") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{.model = kGolden, .built_in = demo::model_path()});
  f.wait_for_model();
  f.driver->resize(640, 480, 1);
  Settings settings = f.app->settings().get();
  settings.font_size = 30;
  f.app->settings().set(settings);
  f.driver->click("top/page/Models");
  f.driver->frames(3);
  const std::string row = "models/left/list/built in";
  f.driver->scroll_to(row, "models/left/list/folders");
  f.driver->click(row);
  REQUIRE(f.driver->wait([&] { return f.driver->shows("models/plan/title"); }));
  CHECK_FALSE(f.driver->shows(row));
  REQUIRE(f.driver->wait([&] { return f.driver->has("models/plan/load"); }));
  f.driver->scroll_to("models/plan/load", "models/plan/title");
  f.driver->click("models/plan/load");
  REQUIRE(f.driver->wait([&] {
    return f.app->models().loaded() != nullptr &&
           f.app->models().loaded()->model->path == demo::model_path();
  }));
  f.driver->resize(1280, 800, 1);
}

TEST_CASE("chat: a template that was chosen for one model is not that of another") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const auto load = [&](const std::string& path) {
    f.app->models().load(path, f.app->models().options());
    REQUIRE(f.driver->wait([&] {
      const Loaded* const loaded = f.app->models().loaded();
      return loaded != nullptr && loaded->model->path == path &&
             f.app->models().phase() == ModelState::Phase::loaded;
    }));
    f.driver->frames(2);
  };
  const auto chosen = [&] { return f.app->chat().settings().chat_template; };
  load(kGolden);
  ChatSettings settings = f.app->chat().settings();
  settings.chat_template = "chatml";
  settings.max_tokens = 3;
  f.app->chat().configure(0, "", settings);
  f.ask("Hello!");
  const Id id = f.app->chat().current();
  load(demo::model_path());
  CHECK(chosen().empty());
  // Also where the conversation is opened or configured with the other model.
  settings = f.app->chat().settings();
  settings.max_tokens = 4;
  f.app->chat().configure(id, "", settings);
  f.restart();
  f.wait_for_model();
  f.app->chat().open(id);
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == id; }));
  CHECK(chosen().empty());
  load(kGolden);
  CHECK(chosen() == "chatml");
}

TEST_CASE("chat: an answer that fills the context is continued without the oldest messages") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->models().options().context = 128;
  f.app->models().load(demo::model_path(), f.app->models().options());
  f.wait_for_model();
  ChatSettings settings = f.app->chat().settings();
  settings.max_tokens = 8;
  f.app->chat().configure(0, "", settings);
  f.ask("Hello!");
  f.answer_without_end();
  settings = f.app->chat().settings();
  settings.max_tokens = -1;
  f.app->chat().configure(f.app->chat().current(), "", settings);
  f.ask("And now?");
  REQUIRE(f.shown().size() == 4);
  const Id answer = f.shown()[3].message->id;
  const std::string text = f.shown()[3].text();
  REQUIRE(f.app->chat().filled_context(answer));
  f.driver->click(f.message(3, "continue"));
  REQUIRE(f.driver->wait([&] { return f.app->chat().full().has_value(); }));
  CHECK(f.app->chat().full()->continued == answer);
  CHECK(f.app->chat().filled_context(answer));
  settings.max_tokens = 8;
  f.app->chat().configure(f.app->chat().current(), "", settings);
  f.driver->click("chat/middle/composer/full context/drop");
  REQUIRE(f.driver->wait([&] {
    return !f.app->chat().is_answering() && f.shown().size() == 4 &&
           f.shown()[3].text().size() > text.size();
  }));
  CHECK(f.shown()[3].message->id == answer);
  CHECK(f.shown()[3].text().starts_with(text));
  CHECK(f.app->chat().siblings(answer).size() == 1);
}

TEST_CASE("chat: a question that is deleted while it is being answered ends the answer") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.answer_without_end();
  f.begin("And now?");
  const Id question = f.shown()[2].message->id;
  f.app->chat().remove_message(question);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2 && f.app->chat().can_send(); }));
  CHECK_FALSE(f.app->chat().is_answering());
  REQUIRE(f.driver->wait([&] { return f.app->chat().trashed_messages().size() == 1; }));
  CHECK(f.app->chat().trashed_messages()[0].id == question);
}

TEST_CASE("chat: an edit and the result of a call stay with their conversations") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id first = f.app->chat().current();
  f.driver->click(f.message(0, "edit"));
  f.driver->fill(f.message(0, "editor/text"), "my carefully typed edit");
  f.driver->click("chat/left/conversations/new");
  f.driver->frames(3);
  f.app->chat().open(first);
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == first; }));
  f.driver->frames(3);
  CHECK(f.driver->text(f.message(0, "editor/text")) == "my carefully typed edit");
  f.driver->click(f.message(0, "editor/cancel"));
  f.driver->frames(2);
  CHECK_FALSE(f.driver->shows(f.message(0, "editor/text")));
}

TEST_CASE("chat: what is typed while the first message is being stored stays in the field") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const auto other = conversations::test::open_store(f.options.store);
  conversations::test::must(other->together([&]() -> Status {  // the file is locked
    f.driver->fill(kMessage, "Hello!");
    f.driver->click("chat/middle/composer/send");
    f.driver->frames(3);
    f.driver->fill(kMessage, "and a follow-up");
    CHECK(f.app->chat().current() == 0);
    return {};
  }));
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() != 0; }));
  f.driver->frames(3);
  CHECK(f.driver->text(kMessage) == "and a follow-up");
  f.wait_for_answer();
}

TEST_CASE("chat: a decimal comma is a point, and a seed that cannot be kept is told") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->fill(kSettings + "temperature", "0,7");
  f.driver->key(GLFW_KEY_ENTER);
  CHECK(*f.app->chat().settings().sampling.temperature == doctest::Approx(0.7));
  f.driver->fill(kSettings + "seed", "1234567890123456789");
  f.driver->key(GLFW_KEY_ENTER);
  CHECK_FALSE(f.app->chat().settings().sampling.seed.has_value());
  CHECK(f.driver->text(kSettings + "problem").find("9007199254740992") != std::string::npos);
}

TEST_CASE("settings: a path may begin with the home folder") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const char* const before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  setenv("HOME", f.folder.path("").c_str(), 1);
  f.driver->click("top/page/Settings");
  f.driver->frames(2);
  f.driver->scroll_to("settings/all/export/path", "settings/all/device");
  f.driver->fill("settings/all/export/path", "~/chats.json");
  f.driver->click("settings/all/export/do");
  const std::string written = f.folder.path("chats.json");
  CHECK(f.driver->wait([&] { return fs::exists(written); }));
  // A file that is there is replaced with the second press.
  std::ofstream(written) << "my thesis";
  f.driver->click("settings/all/export/do");
  REQUIRE(f.driver->wait([&] { return f.driver->has("settings/all/exists"); }));
  CHECK(fs::file_size(written) == 9);
  f.driver->click("settings/all/export/do");
  CHECK(f.driver->wait([&] { return fs::file_size(written) > 9; }));
  setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace infer::gui
