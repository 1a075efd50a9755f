// Reading conversations: scrolling, long ones, what came from files.
#include <GLFW/glfw3.h>
#include <imgui.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "gui/format.h"
#include "tests/conversations/helpers.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using conversations::NewMessage;
using test::Fixture;
using test::kMessage;
const std::string kList = "chat/left/conversations/list/";

std::string paragraph(size_t i) {
  std::string text = "Message " + std::to_string(i) + ".";
  for (int n = 0; n < 30; ++n) text += " Some words that fill a few lines of the window.";
  return text;
}

/// A conversation in the application's store.
Id add_conversation(const std::string& store_path, const std::string& title,
                    std::vector<NewMessage> messages) {
  const auto store = conversations::test::open_store(store_path);
  Id id = 0;
  conversations::test::must(store->together([&]() -> Status {
    id = store->create(conversations::test::titled(title)).value().id;
    Id parent = 0;
    for (NewMessage& message : messages) {
      message.parent = parent;
      const auto added = store->add(id, message);
      if (!added) return added.error();
      parent = added->id;
    }
    return {};
  }));
  return id;
}

std::vector<NewMessage> paragraphs(size_t count) {
  std::vector<NewMessage> messages;
  for (size_t i = 0; i < count; ++i) {
    messages.push_back(i % 2 == 0 ? conversations::test::from_user(0, paragraph(i))
                                  : conversations::test::from_assistant(0, paragraph(i)));
  }
  return messages;
}

/// An application whose store has a conversation, which is shown.
struct Reading {
  explicit Reading(std::vector<NewMessage> messages, const std::string& title = "A title",
                   AppOptions options = {})
      : path(folder.path("conversations.db")),
        id(add_conversation(path, title, std::move(messages))),
        f([&] {
          options.store = path;
          return options;
        }()) {
    REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  }
  void open() {
    f.app->chat().open(id);
    REQUIRE(f.driver->wait([&] { return !f.shown().empty(); }));
    settle();
  }
  void settle() {
    f.driver->frames(3);
    REQUIRE(f.driver->wait([&] { return f.app->chat_pane().is_settled(); }));
    f.driver->frames(3);
  }
  bool shows(size_t i) const { return f.driver->shows(f.message(i, "text")); }
  bool shows_end() const { return f.driver->shows(f.message(f.shown().size() - 1, "copy")); }

  infer::test::TempDir folder;
  std::string path;
  Id id;
  Fixture f;
};

TEST_CASE("chat: the keys that scroll leave the end and come back to it") {
  NEEDS_WINDOW();
  Reading r(paragraphs(60));
  r.open();
  CHECK(r.shows_end());
  for (int i = 0; i < 2; ++i) r.f.driver->key(GLFW_KEY_PAGE_UP);
  r.settle();
  CHECK_FALSE(r.shows_end());
  CHECK_FALSE(r.shows(0));
  r.f.driver->key(GLFW_KEY_HOME);
  r.settle();
  CHECK(r.shows(0));
  r.f.driver->key(GLFW_KEY_PAGE_DOWN);
  r.settle();
  CHECK_FALSE(r.shows_end());
  r.f.driver->key(GLFW_KEY_END);
  r.settle();
  CHECK(r.shows_end());
  // What is being written needs them itself.
  r.f.driver->fill(kMessage, "one\ntwo");
  r.f.driver->key(GLFW_KEY_PAGE_UP);
  r.f.driver->key(GLFW_KEY_HOME);
  r.settle();
  CHECK(r.shows_end());
}

TEST_CASE("chat: the scroll bar and the wheel leave the end") {
  NEEDS_WINDOW();
  Reading r(paragraphs(60));
  r.open();
  const ui::Drawn* field = r.f.driver->find(kMessage);
  REQUIRE(field != nullptr);
  // The bar is above the right end of the field. Its handle is at the end.
  const float x = 1 - 5 / (field->right - field->left);
  const float height = field->bottom - field->top;
  r.f.driver->drag(kMessage, x, -16 / height, x, -300 / height);
  r.settle();
  CHECK_FALSE(r.shows_end());
  r.f.driver->key(GLFW_KEY_END);
  r.settle();
  CHECK(r.shows_end());
  r.f.driver->scroll(r.f.message(59, "text"), 3);
  r.settle();
  CHECK_FALSE(r.shows_end());
}

TEST_CASE("chat: a long conversation is read in steps") {
  NEEDS_WINDOW();
  std::vector<NewMessage> messages = paragraphs(600);
  size_t total = 0;
  for (NewMessage& message : messages) {
    message.text += "\n\n" + message.text + "\n\n" + message.text;
    total += message.text.size();
  }
  REQUIRE(total > (2 << 20));
  Reading r(std::move(messages));
  r.f.app->chat().open(r.id);
  REQUIRE(r.f.driver->wait([&] { return !r.f.shown().empty(); }));
  size_t before = 0;
  size_t most = 0;
  int frames = 0;
  const auto done = [&] {
    const size_t now = r.f.app->chat_pane().transcript().worked_bytes();
    most = std::max(most, now - before);
    before = now;
    ++frames;
    return frames > 10 && r.f.app->chat_pane().is_settled();
  };
  REQUIRE(r.f.driver->wait(done, 60));
  CHECK(most < (512 << 10));
  CHECK(before >= total);
  CHECK(frames > 20);
  CHECK(r.shows_end());
  // Nothing moves any more, and nothing is laid out again.
  r.f.driver->frames(20);
  CHECK(r.f.app->chat_pane().transcript().worked_bytes() == before);
  CHECK(r.shows_end());
}

TEST_CASE("chat: a search hit is scrolled to, and a message that is sent to the end") {
  NEEDS_WINDOW();
  std::vector<NewMessage> messages = paragraphs(80);
  messages[21].text = "The word zanzibar is here.";
  Reading r(std::move(messages), "A title",
            {.model = demo::model_path(), .built_in = demo::model_path()});
  Fixture& f = r.f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_F, true);
  f.driver->type("zanzi");
  REQUIRE(f.driver->wait([&] { return !f.app->chat().hits().empty(); }));
  f.driver->frames(2);
  f.driver->click(kList + "hit:0/open");
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 80; }));
  r.settle();
  REQUIRE(r.shows(21));
  const ui::Drawn* field = f.driver->find(kMessage);
  CHECK(f.driver->find(f.message(21, "text"))->top < field->top / 2);
  ChatSettings settings = f.app->chat().settings();
  settings.drop_oldest = true;
  f.app->chat().configure(f.app->chat().current(), "", settings);
  f.app->chat().send("Hello!");
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 82; }));
  REQUIRE(f.driver->wait([&] { return !f.app->chat().is_answering(); }, 60));
  r.settle();
  CHECK(r.shows_end());
}

TEST_CASE("chat: the end of a long conversation and a hit in it are reached without a touch") {
  NEEDS_WINDOW();
  constexpr size_t kCount = 3000;
  std::vector<NewMessage> messages;
  for (size_t i = 0; i < kCount; ++i) {
    std::string text = "message number " + std::to_string(i);
    for (size_t line = 0; line < i % 9; ++line) text += "\nlorem ipsum dolor sit amet";
    messages.push_back(i % 2 == 0 ? conversations::test::from_user(0, text)
                                  : conversations::test::from_assistant(0, text));
  }
  Reading r(std::move(messages));
  Fixture& f = r.f;
  f.driver->frames(3);
  f.driver->click_and_rest(kList + "conversation:" + std::to_string(r.id) + "/open");
  REQUIRE(f.shown().size() == kCount);
  f.driver->rest();
  CHECK(r.shows_end());
  CHECK(f.app->chat_pane().is_settled());
  for (const size_t target : {size_t{1500}, kCount - 1}) {
    CAPTURE(target);
    f.driver->click("chat/left/conversations/new");
    f.driver->fill("chat/left/conversations/search", "number " + std::to_string(target));
    REQUIRE(f.driver->wait([&] { return f.app->chat().hits().size() == 1; }));
    f.driver->frames(2);
    f.driver->click_and_rest(kList + "hit:0/open");
    f.driver->rest();
    REQUIRE(f.shown().size() == kCount);
    CHECK(r.shows(target));
    CHECK(f.driver->shows(f.message(target, "copy")));
  }
}

TEST_CASE("chat: a tool's call of a megabyte is shown") {
  NEEDS_WINDOW();
  std::vector<NewMessage> messages = paragraphs(1);
  NewMessage asks = conversations::test::from_assistant(0, "");
  asks.tool_calls.push_back({"1", "look\nup \u202e" + std::string(1 << 20, 'n'),
                             "{\"words\": \"" + std::string(1 << 20, 'x') + "\"}",
                             "``` and ~~~ " + std::string(1 << 20, 'y')});
  messages.push_back(asks);
  Reading r(std::move(messages));
  r.open();
  r.f.driver->key(GLFW_KEY_HOME);
  r.settle();
  r.f.driver->scroll_to(r.f.message(1, "call:0/name"), r.f.message(0, "text"));
  const std::string name = r.f.driver->text(r.f.message(1, "call:0/name"));
  CHECK(name.starts_with("Asks for look up "));
  CHECK(name.size() < 250);
  CHECK(name.find("\u202e") == std::string::npos);
  CHECK(r.f.driver->text(r.f.message(1, "call:0/arguments/code")).find("xxx") != std::string::npos);
  // What is out of sight is not drawn.
  CHECK(ImGui::GetDrawData()->TotalVtxCount < 200'000);
  r.f.driver->key(GLFW_KEY_END);
  r.settle();
  CHECK(r.f.driver->text(r.f.message(1, "call:0/result/code")).find("``` and ~~~ y") !=
        std::string::npos);
  CHECK(ImGui::GetDrawData()->TotalVtxCount < 200'000);
}

TEST_CASE("chat: an answer whose calls have their results goes on") {
  NEEDS_WINDOW();
  std::vector<NewMessage> messages = paragraphs(1);
  NewMessage asks = conversations::test::from_assistant(0, "");
  asks.tool_calls.push_back({"1", "look", "{}", "four"});
  asks.tool_calls.push_back({"2", "look", "{}", ""});
  messages.push_back(asks);
  Reading r(std::move(messages), "A title",
            {.model = demo::model_path(), .built_in = demo::model_path()});
  r.f.wait_for_model();
  r.open();
  CHECK(!r.f.driver->has(r.f.message(1, "answer")));
  // Without a model the last result is kept, and nothing is answered.
  r.f.app->models().unload();
  REQUIRE(r.f.driver->wait([&] { return r.f.app->chat().model().empty(); }));
  r.f.app->chat().set_tool_result(r.f.shown()[1].message->id, 1, "five");
  REQUIRE(r.f.driver->wait([&] { return r.f.driver->has(r.f.message(1, "answer")); }));
  CHECK(r.f.shown().size() == 2);
  r.f.app->models().load(demo::model_path(), r.f.app->models().options());
  r.f.wait_for_model();
  r.f.driver->click(r.f.message(1, "answer"));
  REQUIRE(r.f.driver->wait([&] { return r.f.shown().size() == 3; }));
  r.f.wait_for_answer();
  CHECK(r.f.shown()[2].message->role == conversations::Role::assistant);
}

TEST_CASE("chat: names from files are one short line") {
  NEEDS_WINDOW();
  const std::string hostile = "A \u202e\nname\t" + std::string(100'000, 'x');
  std::vector<NewMessage> messages = paragraphs(2);
  messages[1].model = hostile;
  Reading r(std::move(messages), hostile);
  r.open();
  r.f.app->toasts().fail(hostile);
  r.f.driver->frames(3);
  const std::string row = kList + "conversation:" + std::to_string(r.id) + "/open";
  const std::string toast =
      "toasts/toast:" + std::to_string(r.f.app->toasts().all().back().id) + "/error";
  for (const std::string& name :
       {row, std::string("chat/middle/title"), r.f.message(1, "author"), toast}) {
    CAPTURE(name);
    const std::string text = r.f.driver->text(name);
    CHECK(text.starts_with("A \uFFFD name x"));
    CHECK(text.ends_with("…"));
    CHECK(text.size() <= 1000);
    CHECK(text.find('\n') == std::string::npos);
  }
  ModelDescription model;
  model.name = hostile;
  CHECK(short_name(model).size() <= 120);
  CHECK(short_name("/a/" + hostile).size() <= 120);
}

TEST_CASE("chat: a long title leaves room for the button beside it") {
  NEEDS_WINDOW();
  Reading r(paragraphs(2), "A title " + std::string(150, 'w'));
  r.open();
  for (const int width : {640, 1280}) {
    r.f.driver->resize(width, 600, 1);
    const ui::Drawn title = *r.f.driver->find("chat/middle/title");
    CHECK(title.text.starts_with("A "));
    CHECK(title.text.ends_with("w…"));
    CHECK(title.right < r.f.driver->find("chat/middle/options")->left);
  }
  r.f.driver->resize(1280, 800, 1);
}

TEST_CASE("chat: everything is in reach in the smallest window with the settings beside it") {
  NEEDS_WINDOW();
  const std::string send = "chat/middle/composer/send";
  Reading r(paragraphs(2));
  r.open();
  r.f.driver->resize(640, 480, 1);
  r.f.driver->key(GLFW_KEY_B, true);
  r.f.driver->frames(5);
  const auto inside = [&](const std::string& name) {
    REQUIRE_MESSAGE(r.f.driver->shows(name), name);
    const ui::Drawn& drawn = *r.f.driver->find(name);
    CHECK_MESSAGE(drawn.left >= 0, name);
    CHECK_MESSAGE(drawn.right <= 640, name);
    CHECK_MESSAGE(drawn.right <= r.f.driver->find("chat/middle/options")->right + 40, name);
  };
  inside(send);
  for (const char* action : {"copy", "edit", "regenerate", "delete", "time"}) {
    inside(r.f.message(1, action));
  }
  CHECK_FALSE(r.f.driver->shows("chat/left/conversations/new"));
  r.f.driver->key(GLFW_KEY_F, true);  // needs the list
  r.f.driver->frames(3);
  CHECK(r.f.driver->shows("chat/left/conversations/search"));
  r.f.driver->resize(1280, 800, 1);
}

TEST_CASE("chat: the row of actions is broken where there is no room") {
  NEEDS_WINDOW();
  Reading r(paragraphs(2));
  r.open();
  Settings settings = r.f.app->settings().get();
  settings.font_size = 26;
  r.f.app->settings().set(settings);
  r.f.driver->resize(640, 480, 1);
  r.f.driver->frames(5);
  const ui::Drawn copy = *r.f.driver->find(r.f.message(1, "copy"));
  const ui::Drawn last = *r.f.driver->find(r.f.message(1, "delete"));
  CHECK(last.top >= copy.bottom);
  CHECK(last.right < 640);
  CHECK(r.f.driver->find("chat/middle/composer/send")->right <= 640);
  r.f.driver->resize(1280, 800, 1);
}

TEST_CASE("chat: conversations of one title are told apart by their times") {
  NEEDS_WINDOW();
  Reading r(paragraphs(2));
  r.open();
  const std::string used =
      r.f.driver->text(kList + "conversation:" + std::to_string(r.id) + "/used");
  CHECK(used.starts_with("today "));
  CHECK(used == when_text(r.f.app->chat().list().front().used_at));
  CHECK(r.f.driver->text(r.f.message(1, "time")) == when_text(r.f.shown()[1].message->created_at));
}

TEST_CASE("times are as a person says them") {
  const char* const zone = getenv("TZ");
  const std::string before = zone == nullptr ? "" : zone;
  setenv("TZ", "UTC0", 1);
  tzset();
  constexpr int64_t kMinute = 60'000;
  constexpr int64_t kDay = 24 * 60 * kMinute;
  constexpr int64_t kNow = 1'700'000'000'000;  // 14 November 2023, 22:13
  CHECK(when_text(kNow, kNow) == "today 22:13");
  CHECK(when_text(kNow - 22 * 60 * kMinute, kNow) == "today 0:13");
  CHECK(when_text(kNow - 23 * 60 * kMinute, kNow) == "yesterday 23:13");
  CHECK(when_text(kNow - kDay, kNow) == "yesterday 22:13");
  CHECK(when_text(kNow - 2 * kDay, kNow) == "12 Nov 22:13");
  CHECK(when_text(kNow + kDay, kNow) == "15 Nov 22:13");
  CHECK(when_text(kNow - 365 * kDay - 8 * kMinute, kNow) == "14 Nov 2022 22:05");
  CHECK(when_text(0, kNow).empty());
  if (before.empty()) {
    unsetenv("TZ");
  } else {
    setenv("TZ", before.c_str(), 1);
  }
  tzset();
}

TEST_CASE("chat: letters of other scripts come wherever they are") {
  NEEDS_WINDOW();
  Reading r(paragraphs(2), "Տառ");  // Armenian
  const auto comes = [&](ImWchar letter) {
    return r.f.driver->wait(
        [=] { return ImGui::GetIO().Fonts->Fonts[0]->FindGlyphNoFallback(letter) != nullptr; });
  };
  CHECK(comes(0x054F));
  r.f.driver->fill(kMessage, "Буква");
  CHECK(comes(0x0411));
  r.f.driver->fill("chat/left/conversations/search", "γράμμα");
  CHECK(comes(0x03B3));
  r.f.app->toasts().fail("אות");
  CHECK(comes(0x05D0));
}

TEST_CASE("chat: the menu of a conversation opens without the right mouse button") {
  NEEDS_WINDOW();
  Reading r(paragraphs(2));
  const std::string entry = kList + "conversation:" + std::to_string(r.id) + "/";
  r.f.driver->hover(entry + "open");
  r.f.driver->click(entry + "more");
  CHECK(r.f.driver->shows(entry + "menu/export"));
  r.f.driver->key(GLFW_KEY_ESCAPE);
  CHECK_FALSE(r.f.driver->shows(entry + "menu/export"));
  r.f.driver->click(entry + "open");
  r.f.driver->hover(kMessage);
  r.f.driver->key(GLFW_KEY_F10, false, true);
  CHECK(r.f.driver->shows(entry + "menu/pin"));
  r.f.driver->key(GLFW_KEY_ESCAPE);
  CHECK_FALSE(r.f.driver->shows(entry + "menu/pin"));
  r.f.driver->key(GLFW_KEY_MENU);
  r.f.driver->click(entry + "menu/pin");
  REQUIRE(r.f.driver->wait([&] { return r.f.app->chat().list().front().pinned; }));
}

}  // namespace
}  // namespace infer::gui
