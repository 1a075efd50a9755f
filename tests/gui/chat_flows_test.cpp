// What a person does with conversations, from the first start on.
#include <GLFW/glfw3.h>
#include <imgui.h>

#include <fstream>
#include <sstream>

#include <algorithm>
#include <filesystem>

#include "gui/state/chat_messages.h"
#include "gui/state/text_file.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;
const std::string kList = "chat/left/conversations/list/";

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("chat: the built-in model answers the first message") {
  NEEDS_WINDOW();
  Fixture f;
  CHECK(f.driver->shows("chat/middle/messages/welcome/model"));
  f.wait_for_model();
  f.ask("Hello! Who are you?");
  REQUIRE(f.shown().size() == 2);
  CHECK(f.shown()[0].text() == "Hello! Who are you?");
  CHECK(!f.shown()[1].text().empty());
  CHECK(f.driver->text(f.message(1, "text")) == f.shown()[1].text());
  CHECK(f.driver->text(f.message(1, "statistics")).find("tokens/s") != std::string::npos);
  CHECK(f.driver->text(kMessage).empty());
}

TEST_CASE("chat: Enter sends, Shift+Enter adds a line") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->fill(kMessage, "One");
  f.driver->key(GLFW_KEY_ENTER, false, true);
  f.driver->type("two");
  CHECK(f.driver->text(kMessage) == "One\ntwo");
  f.driver->key(GLFW_KEY_ENTER);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2 && !f.app->chat().is_answering(); }));
  CHECK(f.shown()[0].text() == "One\ntwo");
}

TEST_CASE("chat: stop keeps what there is, continue goes on") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.answer_without_end();
  f.begin("Tell me a long story about a lighthouse.");
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2 && f.shown()[1].text().size() > 8; }));
  f.driver->click("chat/middle/composer/stop");
  f.wait_for_answer();
  const std::string kept = f.shown().at(1).text();
  CHECK(kept.size() > 8);
  CHECK(f.shown()[1].message->state == conversations::State::stopped);
  f.driver->click(f.message(1, "continue"));
  // What is left may be so short that no frame sees it being answered.
  REQUIRE(f.driver->wait([&] {
    return f.shown().at(1).text().size() > kept.size() && !f.app->chat().is_answering();
  }));
  f.driver->frames(5);
  CHECK(f.shown().at(1).text().starts_with(kept));
  CHECK(f.shown().at(1).text().size() > kept.size());
}

TEST_CASE("chat: another answer is a branch, and both can be looked at") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const std::string first = f.shown().at(1).text();
  f.driver->click(f.message(1, "regenerate"));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2 && f.shown()[1].alternatives == 2; }));
  f.wait_for_answer();
  CHECK(f.driver->text(f.message(1, "branch")) == "2/2");
  f.driver->click(f.message(1, "previous"));
  REQUIRE(f.driver->wait([&] { return f.shown().at(1).place == 0; }));
  f.driver->frames(3);
  CHECK(f.shown().at(1).text() == first);
  CHECK(f.driver->text(f.message(1, "branch")) == "1/2");
  f.driver->click(f.message(1, "next"));
  REQUIRE(f.driver->wait([&] { return f.shown().at(1).place == 1; }));
}

TEST_CASE("chat: an edited question begins another branch") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click(f.message(0, "edit"));
  f.driver->fill(f.message(0, "editor/text"), "What is the capital of France?");
  f.driver->click(f.message(0, "editor/save"));
  REQUIRE(f.driver->wait([&] {
    return f.shown().size() == 2 && f.shown()[0].text() == "What is the capital of France?" &&
           !f.app->chat().is_answering();
  }));
  f.driver->frames(3);
  CHECK(f.shown()[0].alternatives == 2);
  f.driver->click(f.message(0, "previous"));
  REQUIRE(f.driver->wait([&] { return f.shown().at(0).text() == "Hello!"; }));
  CHECK(f.shown().size() == 2);
}

TEST_CASE("chat: a question that is edited while it is being answered is answered") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.answer_without_end();
  f.begin("Hello!");
  const Id question = f.shown()[0].message->id;
  const Id first = f.shown()[1].message->id;
  ChatSettings settings = f.app->chat().settings();
  settings.grammar = "root ::= \"no\"";
  f.app->chat().configure(f.app->chat().current(), "", settings);
  f.app->chat().edit(question, "Is it raining?");
  REQUIRE(f.driver->wait([&] {
    return f.shown().size() == 2 && f.shown()[0].text() == "Is it raining?" &&
           !f.app->chat().is_answering();
  }));
  CHECK(f.shown()[1].text() == "no");
  CHECK(f.app->toasts().all().empty());
  f.app->chat().select(question);
  REQUIRE(f.driver->wait([&] { return f.shown().back().message->id == first; }));
  CHECK(f.shown().back().message->state == conversations::State::stopped);
}

TEST_CASE("chat: the editor has the keyboard as soon as it is there") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click_and_rest(f.message(0, "edit"));
  f.driver->type("Yes. ");
  CHECK(f.driver->text(f.message(0, "editor/text")).find("Yes. ") != std::string::npos);
}

TEST_CASE("chat: a title can be typed as soon as it is asked for") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const std::string entry = kList + "conversation:" + std::to_string(f.app->chat().current());
  f.driver->click(entry + "/open", 1);
  f.driver->click_and_rest(entry + "/menu/rename");
  f.driver->type("Greetings");
  CHECK(f.driver->text("chat/left/conversations/rename/title").find("Greetings") !=
        std::string::npos);
}

TEST_CASE("chat: an edit can be given up") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click(f.message(0, "edit"));
  f.driver->fill(f.message(0, "editor/text"), "Something else");
  f.driver->click(f.message(0, "editor/cancel"));
  CHECK(f.shown().at(0).text() == "Hello!");
  CHECK(f.shown().at(0).alternatives == 1);
}

TEST_CASE("chat: a message is copied as it is") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click(f.message(1, "copy"));
  CHECK(std::string(ImGui::GetClipboardText()) == f.shown().at(1).text());
  f.driver->click(f.message(0, "copy"));
  f.driver->key(GLFW_KEY_C, true, true);
  CHECK(std::string(ImGui::GetClipboardText()) == f.shown().at(1).text());
}

TEST_CASE("chat: a deleted message comes back with undo") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click(f.message(1, "delete"));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 1; }));
  REQUIRE(f.driver->wait([&] { return !f.driver->names("toasts/").empty(); }));
  const std::vector<std::string> names = f.driver->names("toasts/");
  const auto undo = std::ranges::find_if(
      names, [](const std::string& name) { return name.ends_with("/action"); });
  REQUIRE(undo != names.end());
  f.driver->click(*undo);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
}

TEST_CASE("chat: conversations are listed, opened, renamed and pinned") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id first = f.app->chat().current();
  f.driver->click("chat/left/conversations/new");
  CHECK(f.app->chat().current() == 0);
  CHECK(f.driver->shows("chat/middle/messages/welcome/model"));
  f.ask("Good morning");
  const Id second = f.app->chat().current();
  CHECK(second != first);
  const auto row = [](Id id) { return kList + "conversation:" + std::to_string(id) + "/open"; };
  CHECK(f.driver->text(row(second)) == "Good morning");
  f.driver->click(row(first));
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == first; }));
  CHECK(f.driver->text("chat/middle/title") == "Hello!");
  f.driver->key(GLFW_KEY_F2);
  f.driver->fill("chat/left/conversations/rename/title", "Greetings");
  f.driver->click("chat/left/conversations/rename/save");
  REQUIRE(f.driver->wait([&] { return f.driver->text("chat/middle/title") == "Greetings"; }));
  f.driver->click(row(first), 1);
  f.driver->click(kList + "conversation:" + std::to_string(first) + "/menu/pin");
  REQUIRE(f.driver->wait([&] { return f.driver->text(row(first)).starts_with("●"); }));
  CHECK(f.app->chat().list().front().id == first);
}

TEST_CASE("chat: a deleted conversation is in the trash, comes back, and goes for good") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id id = f.app->chat().current();
  const std::string entry = kList + "conversation:" + std::to_string(id);
  f.driver->click(entry + "/open", 1);
  f.driver->click(entry + "/menu/delete");
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().empty(); }));
  CHECK(f.app->chat().current() == 0);
  REQUIRE(f.driver->wait([&] { return f.driver->shows("chat/left/conversations/trash"); }));
  f.driver->click("chat/left/conversations/trash");
  const std::string trash = "chat/left/conversations/trash list/";
  f.driver->click(trash + "list/conversation:" + std::to_string(id) + "/restore");
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.driver->click(trash + "close");
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == id; }));
  f.app->chat().remove(id);
  REQUIRE(f.driver->wait([&] { return f.app->chat().trash().size() == 1; }));
  f.driver->frames(3);
  f.driver->click("chat/left/conversations/trash");
  f.driver->click(trash + "empty");
  REQUIRE(f.driver->wait([&] { return f.app->chat().trash().empty(); }));
}

TEST_CASE("chat: a deleted message comes back from the trash, or goes for good") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id question = f.shown().at(0).message->id;
  const auto remove = [&] {
    f.app->chat().remove_message(question);
    REQUIRE(f.driver->wait([&] { return f.app->chat().trashed_messages().size() == 1; }));
    CHECK(f.shown().empty());
    f.driver->frames(3);
    f.driver->click("chat/left/conversations/trash");
  };
  const std::string trash = "chat/left/conversations/trash list/";
  const std::string entry = trash + "list/message:" + std::to_string(question);
  remove();
  CHECK(f.driver->text(entry + "/text") == "Hello!");
  f.driver->click(entry + "/restore");
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
  REQUIRE(f.driver->wait([&] { return f.app->chat().trashed_messages().empty(); }));
  CHECK(f.shown()[0].message->id == question);
  f.driver->frames(2);
  f.driver->click(trash + "close");
  f.driver->frames(2);
  remove();
  f.driver->click(trash + "empty");
  REQUIRE(f.driver->wait([&] { return f.app->chat().trashed_messages().empty(); }));
  f.driver->frames(2);
  CHECK_FALSE(f.driver->shows("chat/left/conversations/trash"));
}

TEST_CASE("chat: answers that found no room are not in the trash") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->models().options().context = 128;
  f.app->models().load(demo::model_path(), f.app->models().options());
  f.wait_for_model();
  std::string text;
  for (int i = 0; i < 300; ++i) text += "word ";
  f.driver->fill(kMessage, text);
  f.driver->click("chat/middle/composer/send");
  REQUIRE(f.driver->wait([&] { return f.app->chat().full().has_value(); }));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 1 && f.shown()[0].live == nullptr; }));
  f.driver->click(f.message(0, "answer"));
  REQUIRE(f.driver->wait([&] { return f.app->chat().full().has_value(); }));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 1; }));
  f.driver->frames(10);
  CHECK(f.app->chat().trashed_messages().empty());
  CHECK_FALSE(f.driver->shows("chat/left/conversations/trash"));
}

TEST_CASE("chat: an answer that fills the context says so") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->models().options().context = 64;
  f.app->models().load(demo::model_path(), f.app->models().options());
  f.wait_for_model();
  f.ask("Tell me a story.");
  REQUIRE(f.shown().size() == 2);
  CHECK(f.shown()[1].message->state == conversations::State::stopped);
  const std::string footer = f.driver->text(f.message(1, "statistics"));
  CHECK_MESSAGE(footer.ends_with(", stopped: the context was full"), footer);
}

TEST_CASE("chat: the search finds words of all conversations and opens the place") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Do you know the word zanzibar?");
  const Id id = f.app->chat().current();
  f.driver->click("chat/left/conversations/new");
  f.ask("Hello!");
  f.driver->key(GLFW_KEY_F, true);
  f.driver->type("zanzi");
  REQUIRE(f.driver->wait([&] { return !f.app->chat().hits().empty(); }));
  f.driver->frames(2);
  f.driver->click(kList + "hit:0/open");
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == id; }));
  f.driver->fill("chat/left/conversations/search", "no such word anywhere");
  REQUIRE(f.driver->wait([&] { return f.driver->shows(kList + "nothing"); }));
}

TEST_CASE("chat: what is found follows what is deleted and renamed") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Do you know the word zanzibar?");
  const Id id = f.app->chat().current();
  const Id question = f.shown()[0].message->id;
  f.driver->fill("chat/left/conversations/search", "zanzibar");
  REQUIRE(f.driver->wait([&] { return f.app->chat().hits().size() == 2; }));  // the title, too
  f.app->chat().rename(id, "Places");
  REQUIRE(f.driver->wait([&] { return f.app->chat().hits().size() == 1; }));
  CHECK(f.app->chat().hits()[0].title == "Places");
  f.driver->click(f.message(0, "delete"));
  REQUIRE(f.driver->wait([&] { return f.driver->shows(kList + "nothing"); }));
  f.app->chat().start_new();
  f.app->chat().open_at(id, question);  // as the hit does that is gone
  REQUIRE(f.driver->wait([&] { return f.driver->reads("The message was deleted meanwhile."); }));
  CHECK(f.app->chat().current() == 0);
  f.app->chat().remove(id);
  f.app->chat().open_at(id, 0);
  REQUIRE(
      f.driver->wait([&] { return f.driver->reads("The conversation was deleted meanwhile."); }));
  CHECK(f.app->chat().current() == 0);
}

TEST_CASE("chat: everything is there after a restart") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const std::string answer = f.shown().at(1).text();
  const Id id = f.app->chat().current();
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.driver->frames(2);
  f.driver->click(kList + "conversation:" + std::to_string(id) + "/open");
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
  CHECK(f.shown()[1].text() == answer);
}

TEST_CASE("chat: settings belong to the conversation and decide the answer") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->fill("chat/right/options/temperature", "0");
  f.driver->key(GLFW_KEY_ENTER);
  f.driver->fill("chat/right/options/max tokens", "5");
  f.driver->key(GLFW_KEY_ENTER);
  CHECK(f.app->chat().settings().sampling.temperature == 0.0f);
  CHECK(f.app->chat().settings().max_tokens == 5);
  f.ask("Hello!");
  CHECK(f.shown().at(1).message->statistics.generated_tokens <= 5);
  const std::string first = f.shown().at(1).text();
  f.driver->click(f.message(1, "regenerate"));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2 && f.shown()[1].alternatives == 2; }));
  f.wait_for_answer();
  CHECK(f.shown().at(1).text() == first);
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.app->chat().open(f.app->chat().list().front().id);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
  CHECK(f.app->chat().settings().max_tokens == 5);
}

TEST_CASE("chat: an answer matches its grammar") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->click("chat/right/options/constraint/Grammar");
  f.driver->fill("chat/right/options/constraint text", "root ::= \"yes\" | \"no\"");
  f.driver->click("chat/middle/title");
  f.ask("Is the sky blue?");
  const std::string answer = f.shown().at(1).text();
  CHECK((answer == "yes" || answer == "no"));
}

TEST_CASE("chat: a template is chosen by name or written, and stays") {
  NEEDS_WINDOW();
  const std::string options = "chat/right/options/";
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->click(options + "template");
  f.driver->click(options + "chat template");
  f.driver->click(options + "chat template/chatml");
  f.driver->frames(2);
  CHECK(f.app->chat().settings().chat_template == "chatml");
  CHECK(f.app->chat().settings().options().stop == std::vector<std::string>{"<|im_end|>"});
  f.ask("Hello!");
  CHECK(f.shown().at(1).message->state == conversations::State::complete);
  f.restart();
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.app->chat().open(f.app->chat().list().front().id);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
  CHECK(f.app->chat().settings().chat_template == "chatml");
  f.driver->key(GLFW_KEY_B, true);
  f.driver->click(options + "chat template");
  f.driver->click(options + "chat template/Jinja");
  f.driver->fill(options + "jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  f.driver->click("chat/middle/title");
  CHECK(f.app->chat().settings().chat_template.starts_with("{% for"));
  CHECK(f.app->chat().settings().options().stop.empty());
}

TEST_CASE("chat: a template that was chosen for a model is that of its next conversations") {
  NEEDS_WINDOW();
  const std::string options = "chat/right/options/";
  Fixture f;
  f.wait_for_model();
  const auto choose = [&](const std::string& name) {
    f.driver->key(GLFW_KEY_B, true);
    // The part may be open from a test before.
    if (!f.driver->has(options + "chat template")) f.driver->click(options + "template");
    f.driver->click(options + "chat template");
    f.driver->click(options + "chat template/" + name);
    f.driver->frames(3);
  };
  choose("chatml");
  f.ask("Hello!");
  f.driver->click("chat/left/conversations/new");
  CHECK(f.app->chat().settings().chat_template == "chatml");
  f.restart();
  f.wait_for_model();
  CHECK(f.app->chat().current() == 0);
  CHECK(f.app->chat().settings().chat_template == "chatml");
  // Another model has its own.
  f.app->models().load(infer::test::data_path("golden/llama-q4_0.gguf"), f.app->models().options());
  const auto is_own = [&] { return f.app->chat().settings().chat_template.empty(); };
  REQUIRE(f.driver->wait(is_own));
  f.app->models().load(demo::model_path(), f.app->models().options());
  REQUIRE(f.driver->wait([&] { return !is_own(); }));
  choose("The model's own");
  f.ask("Hello!");
  f.driver->click("chat/left/conversations/new");
  CHECK(is_own());
}

TEST_CASE("chat: presets are saved, used and deleted") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.driver->fill("chat/right/options/system prompt", "Answer briefly.");
  f.driver->click("chat/middle/title");
  f.driver->fill("chat/right/options/preset name", "brief");
  f.driver->click("chat/right/options/save preset");
  REQUIRE(f.driver->wait([&] { return f.app->chat().presets().size() == 1; }));
  f.app->chat().configure(f.app->chat().current(), "", {});
  f.driver->frames(3);
  f.driver->click("chat/right/options/brief/use");
  CHECK(f.app->chat().system_prompt() == "Answer briefly.");
  f.driver->click("chat/right/options/brief/delete");
  REQUIRE(f.driver->wait([&] { return f.app->chat().presets().empty(); }));
}

TEST_CASE("chat: what a preset replaces, and one that is replaced or deleted, can be had back") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const auto& presets = f.app->chat().presets();
  const auto save = [&](const std::string& prompt) {
    f.app->chat().configure(f.app->chat().current(), prompt, {});
    f.app->chat().save_preset("P");
    REQUIRE(f.driver->wait([&] { return !presets.empty() && presets[0].system_prompt == prompt; }));
  };
  const auto undo = [&] {
    REQUIRE(!f.app->toasts().all().empty());
    const Toast last = f.app->toasts().all().back();
    REQUIRE(last.action == "Undo");
    last.act();
  };
  save("the first");
  CHECK(f.app->toasts().all().back().action.empty());
  save("another");
  undo();
  REQUIRE(f.driver->wait([&] { return presets[0].system_prompt == "the first"; }));
  f.app->chat().configure(f.app->chat().current(), "typed at length", {});
  f.app->chat().use_preset("P");
  CHECK(f.app->chat().system_prompt() == "the first");
  undo();
  CHECK(f.app->chat().system_prompt() == "typed at length");
  f.app->chat().delete_preset("P");
  REQUIRE(f.driver->wait([&] { return presets.empty(); }));
  undo();
  REQUIRE(f.driver->wait([&] { return !presets.empty(); }));
  CHECK(presets[0].system_prompt == "the first");
}

TEST_CASE("chat: tokens are counted while typing") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->fill(kMessage, "One two three four five");
  REQUIRE(f.driver->wait([&] { return f.app->chat().draft_tokens() > 3; }));
  f.driver->frames(2);
  CHECK(f.driver->text("chat/middle/composer/tokens").find(" left") != std::string::npos);
}

TEST_CASE("chat: no number of tokens is shown while it is unknown") {
  NEEDS_WINDOW();
  const std::string tokens = "chat/middle/composer/tokens";
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id first = f.app->chat().current();
  f.driver->click("chat/left/conversations/new");
  f.driver->fill(kMessage, "One two three four five");
  REQUIRE(f.driver->wait([&] { return f.driver->shows(tokens); }));
  f.app->chat().open(first);
  REQUIRE(f.driver->wait([&] { return f.app->chat().current() == first; }));
  CHECK(f.app->chat().context() == 0);  // of the other one
  REQUIRE(f.driver->wait([&] { return f.driver->shows(tokens); }));
  ChatSettings settings;
  settings.chat_template = "{% for";  // no text comes of it
  f.app->chat().configure(first, "", settings);
  REQUIRE(f.driver->wait([&] { return !f.driver->shows(tokens); }));
}

TEST_CASE("chat: a conversation is exported as Markdown and as JSON, which can be imported") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id id = f.app->chat().current();
  const std::string entry = kList + "conversation:" + std::to_string(id);
  const std::string markdown = f.folder.path("out.md");
  const std::string json = f.folder.path("out.json");
  for (const std::string& path : {markdown, json}) {
    f.driver->click(entry + "/open", 1);
    f.driver->click(entry + "/menu/export");
    f.driver->fill("chat/export/path", path);
    f.driver->click("chat/export/write");
    REQUIRE(f.driver->wait([&] { return !f.driver->shows("chat/export/write"); }));
    CHECK(text_of_file(path).find("Hello!") != std::string::npos);
  }
  f.app->drop({json});
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 2; }));
}

TEST_CASE("chat: the path that an export offers can be written, and the dialogue waits for that") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const Id id = f.app->chat().current();
  std::string title = "A";
  for (int i = 0; i < 100; ++i) title += "é中";  // 501 bytes, no character ends at byte 200
  f.app->chat().rename(id, title);
  REQUIRE(f.driver->wait([&] { return f.app->chat().list()[0].title == title; }));
  const char* const before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  setenv("HOME", f.folder.path("").c_str(), 1);
  const std::string entry = kList + "conversation:" + std::to_string(id);
  const std::string path = "chat/export/path";
  f.driver->click(entry + "/open", 1);
  f.driver->click(entry + "/menu/export");
  REQUIRE(f.driver->wait([&] { return f.driver->shows(path); }));
  const std::string offered = f.driver->text(path);
  CHECK(offered.ends_with(".md"));
  CHECK(std::filesystem::path(offered).filename().string().size() <= 210);
  // What cannot be written is told in the dialogue.
  f.driver->fill(path, f.folder.path("no folder/out.md"));
  f.driver->click("chat/export/write");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("chat/export/problem"); }));
  CHECK(f.driver->text("chat/export/problem").find("no folder") != std::string::npos);
  f.driver->fill(path, offered);
  f.driver->click("chat/export/write");
  REQUIRE(f.driver->wait([&] { return !f.driver->shows(path); }));
  CHECK(text_of_file(offered).find("Hello!") != std::string::npos);
  setenv("HOME", home.c_str(), 1);
}

TEST_CASE("chat: an image that is dropped goes into the message, and the model sees it") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const auto data = [](const char* name) {
    return std::string(INFER_SOURCE_DIR) + "/tests/data/vision/" + name;
  };
  f.app->drop({data("tiny.gguf")});
  REQUIRE(f.driver->wait([&] { return f.app->models().planned() != nullptr; }));
  const int64_t blind = f.app->models().planned()->plan.total;
  f.driver->fill("models/right/plan/vision", data("tiny-mmproj.gguf"));
  f.driver->click("models/right/plan/draft");  // the field is left
  REQUIRE(f.driver->wait([&] {
    const Planned* planned = f.app->models().planned();
    return !f.app->models().is_planning() && planned->status.ok() && planned->plan.total > blind;
  }));
  f.driver->click("models/right/plan/load");
  f.wait_for_model();
  f.app->drop({data("tall.png")});
  f.driver->frames(3);
  const std::string mark = "![tall.png](<" + data("tall.png") + ">)";
  CHECK(f.driver->text("chat/middle/composer/message") == mark + "\n");
  f.ask(mark + "\nWhat is it?");
  const conversations::Statistics seen = f.shown().back().message->statistics;
  CHECK(seen.generated_tokens > 0);
  CHECK(seen.prompt_tokens > 15);  // rows of the image alone
  f.driver->fill("chat/middle/composer/message", "![gone.png](</nowhere/gone.png>) And this?");
  f.driver->click("chat/middle/composer/send");
  REQUIRE(f.driver->wait(
      [&] { return f.driver->reads("/nowhere/gone.png: the image cannot be opened"); }));
}

TEST_CASE("chat: an image that is attached is shown small") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const std::string path = std::string(INFER_SOURCE_DIR) + "/tests/data/vision/tall.png";
  const std::string preview = "chat/middle/composer/images/tall.png";
  f.app->drop({path, "/nowhere/gone.png"});
  REQUIRE(f.driver->wait([&] { return f.driver->shows(preview); }));
  const ui::Drawn small = *f.driver->find(preview);
  CHECK(small.bottom <= f.driver->find(kMessage)->top);
  CHECK(small.bottom - small.top > small.right - small.left);  // it is tall
  f.driver->frames(3);
  CHECK_FALSE(f.driver->shows("chat/middle/composer/images/gone.png"));
  f.driver->fill(kMessage, "");
  REQUIRE(f.driver->wait([&] { return !f.driver->shows(preview); }));
  f.driver->fill(kMessage, "![tall.png](<" + path + ">)");
  f.driver->click("chat/middle/composer/send");  // which fails: the model reads no images
  REQUIRE(f.driver->wait(
      [&] { return !f.shown().empty() && f.driver->shows(f.message(0, "images/tall.png")); }));
}

TEST_CASE("chat: a text that is dropped goes into the message with its name") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const auto drop = [&](const std::string& name, const std::string& content) {
    std::ofstream(f.folder.path(name), std::ios::binary) << content;
    f.app->drop({f.folder.path(name)});
    f.driver->frames(3);
  };
  f.driver->fill(kMessage, "What does it do?");
  drop("add.py", "def add(a, b):\r\n    return a + b  # é\n");
  const std::string first =
      "What does it do?\nadd.py:\n```py\ndef add(a, b):\n    return a + b  # é\n```\n";
  CHECK(f.driver->text(kMessage) == first);
  drop("notes.md", "Use `x`:\n```\ny\n```");
  drop("own.json", "{\"nothing\": 1}");
  CHECK(f.driver->text(kMessage) == first + "notes.md:\n````md\nUse `x`:\n```\ny\n```\n````\n" +
                                        "own.json:\n```json\n{\"nothing\": 1}\n```\n");
  // Not every JSON text with messages is a conversation.
  const std::string before = f.driver->text(kMessage);
  drop("de.json", "{\"messages\": {\"hello\": \"Hallo\"}}");
  CHECK(f.driver->text(kMessage) ==
        before + "de.json:\n```json\n{\"messages\": {\"hello\": \"Hallo\"}}\n```\n");
  CHECK(f.app->toasts().all().empty());
  // UTF-16, as some programs write it.
  f.driver->fill(kMessage, "");
  drop("wide.csv", std::string("\xFF\xFE\xE9\0;\0\x3D\xD8\x00\xDE", 10));
  drop("big.csv", std::string("\xFE\xFF\0a\0\n", 6));
  CHECK(f.driver->text(kMessage) == "wide.csv:\n```csv\né;😀\n```\nbig.csv:\n```csv\na\n```\n");
  // What is longer says so, and what is neither a text nor a model.
  drop("long.txt", std::string(kMostTextFileBytes + 2, 'a'));
  REQUIRE(f.app->toasts().all().size() == 1);
  CHECK(f.app->toasts().all()[0].text.find("long.txt") != std::string::npos);
  const std::pair<const char*, std::string> neither[] = {
      {"binary.dat", std::string("GG\0UF", 5)},
      {"latin.txt", "caf\xe9"},
      {"half.txt", std::string("\xFF\xFE\x3D\xD8", 4)},
      {"odd.txt", "\xFF\xFE\x3D"}};
  for (const auto& [name, content] : neither) {
    CAPTURE(name);
    drop(name, content);
    CHECK(f.app->toasts().all().back().text.find(std::string(name) + ": neither") !=
          std::string::npos);
    CHECK(f.app->models().planned_path().empty());
    CHECK(f.driver->shows(kMessage));
  }
  // A model is known by its first bytes as well.
  drop("weights.bin", std::string("GGUF\3\0\0\0", 8));
  CHECK(f.app->models().planned_path() == f.folder.path("weights.bin"));
  f.app->drop({f.folder.path("one.gguf"), f.folder.path("two.gguf")});
  CHECK(f.app->models().planned_path() == f.folder.path("one.gguf"));
  CHECK(f.app->toasts().all().back().text.find("two") != std::string::npos);
}

TEST_CASE("chat: a title is what a person wrote, not what stands for a file") {
  const std::string image = "![red.png](</tmp/x/red.png>)";
  const std::string file = quoted_file("/tmp/add.py", "def f():\n  pass\n\n```\n");
  CHECK(title_of("Hello!\nAnd more") == "Hello!");
  CHECK(title_of(image + "\nWhat is it?") == "What is it?");
  CHECK(title_of("What is " + image + "\n") == "What is ");
  CHECK(title_of(image + "\n![blue.png](</tmp/x/blue.png>)\n") == "red.png");
  CHECK(title_of(file + "\nWhat does it do?") == "What does it do?");
  CHECK(title_of(file) == "add.py");
  CHECK(title_of(quoted_file("/a/.bashrc", "x") + "\n" + file + "\n\n  Compare") == "Compare");
  // Code that a person introduces.
  CHECK(title_of("Explain this:\n```py\nx\n```\nThanks") == "Explain this:");
  CHECK(title_of("Explain:\n```\nx\n```\nThanks") == "Explain:");
  CHECK(title_of("add.py:\n```py\nnever closed") == "add.py:");
  CHECK(title_of("") == "New conversation");
  CHECK(title_of("\n:\n") == ":");
}

TEST_CASE("chat: every message says who wrote it") {
  NEEDS_WINDOW();
  Fixture f;
  const std::string path = f.folder.path("roles.json");
  std::ofstream file(path);
  file << R"({"format":"infer-conversations","version":1,"conversations":[{"title":"Roles",)"
       << R"("selected_root":1,"messages":[)";
  int id = 0;
  for (const char* const role : {"system", "user", "assistant", "tool"}) {
    file << R"({"id":)" << id + 1 << R"(,"role":")" << role << R"(","text":"It says so.",)";
    if (id > 0) file << R"("parent":)" << id << ',';
    if (id < 3) file << R"("selected_child":)" << id + 2 << ',';
    file << R"("state":"complete"})" << (++id < 4 ? "," : "]}]}");
  }
  file.close();
  f.app->drop({path});
  REQUIRE(f.driver->wait([&] { return !f.app->chat().list().empty(); }));
  f.app->chat().open(f.app->chat().list()[0].id);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 4; }));
  f.driver->frames(3);
  const char* const authors[] = {"System", "You", "Answer", "Tool"};
  for (size_t i = 0; i < 4; ++i) CHECK(f.driver->text(f.message(i, "author")) == authors[i]);
}

TEST_CASE("chat: a file that is no export says what is wrong") {
  NEEDS_WINDOW();
  Fixture f;
  const std::string path = f.folder.path("bad.json");
  std::ofstream(path) << "{\"format\": \"infer-conversations\"";
  f.app->drop({path});
  REQUIRE(f.driver->wait([&] { return f.driver->reads("bad.json"); }));
}

}  // namespace
}  // namespace infer::gui
