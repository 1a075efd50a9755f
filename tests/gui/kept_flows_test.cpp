// What a person has typed or chosen is not lost, whatever happens next.
#include <GLFW/glfw3.h>
#include <imgui/imgui.h>

#include <filesystem>
#include <fstream>

#include "gui/host/settings_store.h"
#include "tests/conversations/full_disk.h"
#include "tests/conversations/helpers.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;
const std::string kOptions = "chat/right/options/";

TEST_CASE("chat: a message that cannot be stored stays where it was typed") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const auto other = conversations::test::open_store(f.options.store);
  conversations::test::must(other->together([&]() -> Status {  // the file is locked
    f.driver->fill(kMessage, "Do not lose this");
    f.driver->click("chat/middle/composer/send");
    REQUIRE(f.driver->wait([&] { return f.driver->names("toasts/").size() > 0; }));
    CHECK(f.driver->text(kMessage) == "Do not lose this");
    return {};
  }));
  CHECK(f.shown().size() == 2);
}

TEST_CASE("chat: an answer that ends on a full disk stays in sight and is saved later") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  ChatSettings settings = f.app->chat().settings();
  settings.grammar = "root ::= [a-z ]{2000}";
  f.app->chat().configure(f.app->chat().current(), "", settings);
  f.begin("And now?");
  REQUIRE(f.driver->wait([&] { return f.shown().back().text().size() > 20; }));
  const std::string waits = "chat/left/conversations/list/waits";
  CHECK_FALSE(f.driver->shows(waits));
  std::string text;
  {
    const conversations::test::FullDisk full;
    f.app->chat().stop();
    REQUIRE(f.driver->wait([&] { return !f.app->chat().is_answering(); }));
    REQUIRE(f.driver->wait([&] { return f.driver->shows(waits); }));
    f.driver->frames(20);
    text = f.shown().back().text();
    CHECK(text.size() > 20);
    CHECK(f.driver->text(f.message(3, "text")) == text);
    CHECK_FALSE(f.app->may_close());
    f.driver->frames(2);
    CHECK(f.driver->reads("An answer is not saved yet. Ctrl+Q"));
  }
  REQUIRE(f.driver->wait([&] { return f.driver->shows(f.message(3, "copy")); }));
  CHECK(f.shown().back().message->text == text);
  CHECK(f.shown().back().message->state != conversations::State::writing);
  CHECK(f.shown().back().message->statistics.generated_tokens > 0);
  CHECK_FALSE(f.driver->shows(waits));
}

TEST_CASE("chat: a file of conversations that is removed is written anew, and that is told") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  for (const char* end : {"", "-wal", "-shm", ".lock"})
    std::filesystem::remove(f.options.store + end);
  const double asked_again = ImGui::GetTime() + 1.1;  // the system is asked once a second
  REQUIRE(f.driver->wait([&] { return ImGui::GetTime() > asked_again; }));
  f.ask("And now?");
  CHECK(f.driver->reads("was gone, and was written again"));
  CHECK(f.shown().size() == 4);
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 4; }));
  CHECK(f.shown()[2].text() == "And now?");
}

TEST_CASE(
    "chat: without a file to store conversations in, one can chat, and is told why it is lost") {
  NEEDS_WINDOW();
  infer::test::TempDir folder;
  AppOptions options{.model = demo::model_path(), .built_in = demo::model_path()};
  options.store = folder.path("store");  // a folder, so no file can be opened there
  std::filesystem::create_directories(options.store + "/in the way");
  Fixture f(options);
  f.wait_for_model();
  const std::string notice = "chat/left/conversations/list/unsaved";
  REQUIRE(f.driver->wait([&] { return f.driver->shows(notice); }));
  CHECK(f.driver->text(notice).find("cannot be saved") != std::string::npos);
  CHECK(f.driver->text(notice).find(options.store) != std::string::npos);
  CHECK_FALSE(f.driver->shows("chat/left/conversations/list/empty"));
  f.ask("Hello!");
  CHECK_FALSE(f.shown().at(1).text().empty());
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  CHECK(f.driver->shows(notice));
}

TEST_CASE("chat: conversations of a file that cannot be written can be read") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const std::string lock = f.options.store + ".lock";
  f.app.reset();  // the driver has nothing to draw meanwhile
  std::filesystem::remove(lock);
  std::filesystem::create_directory(lock);  // so that it cannot be opened
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.app->chat().open(f.app->chat().list()[0].id);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
  CHECK(f.shown()[0].text() == "Hello!");
  CHECK(f.driver->shows("chat/left/conversations/list/unsaved"));
}

TEST_CASE("chat: drafts stay with their conversations") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id first = f.app->chat().current();
  f.driver->fill(kMessage, "for the first");
  f.driver->click("chat/left/conversations/new");
  f.driver->frames(2);
  CHECK(f.driver->text(kMessage).empty());
  f.app->chat().open(first);
  REQUIRE(f.driver->wait([&] { return f.driver->text(kMessage) == "for the first"; }));
}

TEST_CASE("chat: what is being typed stays, whatever comes from outside") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->fill(kMessage, "half a sent");  // the field keeps the keyboard
  f.driver->key(GLFW_KEY_N, true);
  f.driver->frames(3);
  CHECK(f.driver->text(kMessage) == "half a sent");  // it is the new one's already
  f.driver->type("ence");
  f.driver->frames(2);
  f.app->drop({"/pictures/tall.png"});
  f.driver->frames(3);
  CHECK(f.driver->text(kMessage) == "half a sentence\n![tall.png](</pictures/tall.png>)\n");
  f.driver->type("And?");
  f.driver->frames(2);
  CHECK(f.driver->text(kMessage).find("And?") != std::string::npos);
}

TEST_CASE("chat: a draft does not follow to another conversation, nor is it lost") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id first = f.app->chat().current();
  f.driver->fill(kMessage, "for the first");
  f.driver->key(GLFW_KEY_N, true);  // while the field has the keyboard
  f.driver->frames(3);
  CHECK(f.driver->text(kMessage).empty());
  f.driver->type("for the second");
  f.driver->frames(2);
  f.app->chat().open(first);
  REQUIRE(f.driver->wait([&] { return f.driver->text(kMessage) == "for the first"; }));
}

TEST_CASE("settings: a number that is being typed counts when a key leads to another page") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->key(GLFW_KEY_5, true);
  f.driver->frames(2);
  f.driver->fill("settings/all/threads", "3");
  f.driver->key(GLFW_KEY_1, true);
  f.driver->frames(3);
  CHECK(f.driver->shows(kMessage));
  CHECK(f.app->settings().get().threads == 3);
}

TEST_CASE("chat: an edit that cannot be stored comes back") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id question = f.shown()[0].message->id;
  f.driver->click(kMessage);  // the field has the keyboard
  f.app->chat().remove_message(question);
  f.app->chat().edit(question, "Do not lose this");  // of what is gone by then
  REQUIRE(f.driver->wait([&] { return f.driver->text(kMessage) == "Do not lose this"; }));
  CHECK(f.driver->names("toasts/").size() > 0);
}

TEST_CASE("chat: a question that is edited without a model is kept, and answered later") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.app->models().unload();
  REQUIRE(f.driver->wait([&] { return f.app->chat().model().empty(); }));
  f.driver->click(f.message(0, "edit"));
  f.driver->fill(f.message(0, "editor/text"), "Hello again!");
  f.driver->click(f.message(0, "editor/save"));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 1; }));
  CHECK(f.shown()[0].text() == "Hello again!");
  f.app->models().load(demo::model_path(), f.app->models().options());
  f.wait_for_model();
  f.driver->click(f.message(0, "answer"));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2 && !f.app->chat().is_answering(); }));
  CHECK_FALSE(f.shown()[1].text().empty());
}

TEST_CASE("chat: only the last answer can be continued") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  ChatSettings settings = f.app->chat().settings();
  settings.max_tokens = 3;
  settings.sampling.temperature = 0;  // a random answer might end where it is cut
  f.app->chat().configure(0, "", settings);
  f.ask("Hello!");
  CHECK(f.driver->shows(f.message(1, "continue")));
  f.ask("And now?");
  REQUIRE(f.shown().size() == 4);
  CHECK_FALSE(f.driver->shows(f.message(1, "continue")));
  const std::string first = f.shown()[1].text();
  const std::string last = f.shown()[3].text();
  f.app->chat().go_on(f.shown()[1].message->id);
  f.driver->frames(10);
  CHECK(f.shown()[1].text() == first);
  f.driver->click(f.message(3, "continue"));
  REQUIRE(f.driver->wait(
      [&] { return !f.app->chat().is_answering() && f.shown()[3].text().size() > last.size(); }));
  REQUIRE(f.driver->wait([&] { return f.shown()[3].live == nullptr; }));
  CHECK(f.shown()[3].message->statistics.generated_tokens > 3);
}

TEST_CASE("chat: a number out of range is told, and nothing else changes") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->click(kOptions + "constraint/Grammar");
  f.driver->fill(kOptions + "constraint text", "root ::= \"yes\"");
  f.driver->click("chat/middle/title");
  f.driver->fill(kOptions + "min_p", "5");
  f.driver->key(GLFW_KEY_ENTER);
  CHECK(f.driver->text(kOptions + "problem").find("0 to 1") != std::string::npos);
  CHECK(f.app->chat().settings().grammar == "root ::= \"yes\"");
  CHECK_FALSE(f.app->chat().settings().sampling.min_p.has_value());
  f.driver->fill(kOptions + "min_p", "0.50");
  f.driver->key(GLFW_KEY_ENTER);
  CHECK(*f.app->chat().settings().sampling.min_p == doctest::Approx(0.5));
  f.ask("Is the sky blue?");
  CHECK(f.shown().at(1).text() == "yes");
}

TEST_CASE("chat: hints have the shortest text of a number") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->key(GLFW_KEY_B, true);
  CHECK(f.driver->text(kOptions + "temperature") == "0.8, or the model's");
  CHECK(f.driver->text(kOptions + "top_k") == "0, or the model's");
  CHECK(f.driver->text(kOptions + "top_p") == "0.95, or the model's");
}

TEST_CASE("chat: a system prompt that is being typed is kept when its place is left") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id id = f.app->chat().current();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->fill(kOptions + "system prompt", "Answer in");
  f.driver->key(GLFW_KEY_ENTER);  // a line, and the field keeps the keyboard
  f.driver->type("one word.");
  f.driver->key(GLFW_KEY_2, true);  // another page, while the field has the keyboard
  f.driver->frames(3);
  f.restart();
  f.app->chat().open(id);
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == id; }));
  CHECK(f.app->chat().system_prompt() == "Answer in\none word.");
}

TEST_CASE("chat: a new conversation begins with the settings of all, not of the last one") {
  NEEDS_WINDOW();
  Fixture f;
  Settings settings = f.app->settings().get();
  settings.system_prompt = "Be kind.";
  f.app->settings().set(settings);
  f.wait_for_model();
  CHECK(f.app->chat().system_prompt() == "Be kind.");
  ChatSettings own;
  own.grammar = "root ::= \"no\"";
  f.app->chat().configure(0, "Be brief.", own);
  f.ask("Hello!");
  CHECK(f.shown().at(1).text() == "no");
  f.driver->click("chat/left/conversations/new");
  CHECK(f.app->chat().system_prompt() == "Be kind.");
  CHECK(f.app->chat().settings().grammar.empty());
}

TEST_CASE("chat: an export asks before it replaces a file") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const std::string path = f.folder.path("mine.md");
  std::ofstream(path) << "something else";
  const std::string entry =
      "chat/left/conversations/list/conversation:" + std::to_string(f.app->chat().current());
  f.driver->click(entry + "/open", 1);
  f.driver->click(entry + "/menu/export");
  f.driver->fill("chat/export/path", path);
  f.driver->click("chat/export/write");
  CHECK(f.driver->shows("chat/export/exists"));
  CHECK(std::filesystem::file_size(path) == 14);
  f.driver->click("chat/export/write");
  REQUIRE(f.driver->wait([&] { return std::filesystem::file_size(path) > 14; }));
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
}

TEST_CASE("models: settings are followed, and what was chosen for the plan stays") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->drop({infer::test::data_path("golden/llama-q4_0.gguf")});
  REQUIRE(f.driver->wait([&] { return f.app->models().planned() != nullptr; }));
  f.app->models().options().memory_limit = 1 << 30;
  Settings settings = f.app->settings().get();
  settings.context = 128;
  settings.favourites = {"/a/model"};
  f.app->settings().set(settings);
  REQUIRE(f.driver->wait([&] {
    return !f.app->models().is_planning() && f.app->models().planned()->plan.context == 128;
  }));
  CHECK(f.app->models().options().memory_limit == 1 << 30);
}

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
  REQUIRE(f.app->toasts().all().size() == 2);
  CHECK(f.app->toasts().all()[0].text.find("mine.gguf") != std::string::npos);
  CHECK(f.app->settings().get().last_model == settings.last_model);  // it may be there again later
}

TEST_CASE("start: settings that no model can be loaded with leave the built-in model") {
  NEEDS_WINDOW();
  infer::test::TempDir folder;
  const std::string model = folder.path("mine.gguf");
  std::filesystem::copy_file(infer::test::data_path("golden/llama-q4_0.gguf"), model);
  for (const bool had_model : {false, true}) {
    CAPTURE(had_model);
    Fixture f(AppOptions{.built_in = demo::model_path()});
    f.wait_for_model();
    Settings settings = f.app->settings().get();
    settings.device = "vulkan77";
    settings.memory_limit = 1000;
    settings.last_model = had_model ? model : "";
    f.app->settings().set(settings);
    f.restart();
    CHECK(loaded_path(f) == demo::model_path());
    REQUIRE(f.app->toasts().all().size() == 2);
    CHECK(f.app->toasts().all()[0].text.find("vulkan77") != std::string::npos);
    CHECK(f.app->toasts().all()[1].text.find("Settings") != std::string::npos);
    f.ask("Hello!");
  }
}

}  // namespace
}  // namespace infer::gui
