// What takes long beside the chat: imports and searches. The chat goes on meanwhile.
#include <GLFW/glfw3.h>

#include <fstream>

#include "tests/conversations/helpers.h"
#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
using test::kMessage;

const std::string kImport = "chat/left/conversations/import/";

/// A file of conversations with so many messages of 5 kB.
std::string long_file(const infer::test::TempDir& folder, int messages) {
  const std::string path = folder.path("long.json");
  std::ofstream out(path);
  std::string words;
  for (int i = 0; i < 600; ++i) words += "word" + std::to_string(i * 37) + " ";
  out << R"({"format":"infer-conversations","version":1,"conversations":[)";
  for (int i = 0; i < messages; ++i) {
    out << (i == 0 ? "" : ",")
        << R"({"title":"imported","messages":[{"id":1,"role":"user","state":"complete","text":")"
        << i << " " << words << "\"}]}";
  }
  out << "]}";
  return path;
}

TEST_CASE("chat: while conversations are imported one can chat, and the import can be cancelled") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.app->drop({long_file(f.folder, 10'000)});
  REQUIRE(f.driver->wait([&] { return f.driver->shows(kImport + "progress"); }));
  CHECK(f.driver->text(kImport + "title") == "Importing long.json");
  f.driver->key(GLFW_KEY_N, true);
  f.ask("Hello!");
  CHECK(f.driver->text(kMessage).empty());
  CHECK(f.app->chat().list().size() == 1);
  REQUIRE(f.app->chat().importing().has_value());
  f.driver->click(kImport + "cancel");
  REQUIRE(f.driver->wait([&] { return !f.driver->shows(kImport + "progress"); }));
  REQUIRE(f.driver->wait([&] { return f.driver->reads("The import was cancelled"); }));
  CHECK(f.app->chat().list().size() == 1);
  CHECK(f.app->chat().trash().empty());
  CHECK(f.app->may_close());
}

TEST_CASE("chat: closing the window during an import asks once, and keeps nothing of it") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->drop({long_file(f.folder, 10'000)});
  REQUIRE(f.driver->wait([&] { return f.driver->shows(kImport + "progress"); }));
  f.driver->key(GLFW_KEY_ESCAPE);  // leaves the field: else a frame is drawn before the end
  CHECK_FALSE(f.app->may_close());
  f.driver->frames(2);
  CHECK(f.driver->reads("Conversations are still being imported"));
  CHECK(f.app->may_close());
  f.restart();
  f.driver->frames(5);
  CHECK(f.app->chat().list().empty());
  CHECK(f.app->chat().trash().empty());
  CHECK_FALSE(f.app->chat().importing().has_value());
}

TEST_CASE("chat: a message that is sent stays in its field until it is stored") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  const auto other = conversations::test::open_store(f.options.store);
  conversations::test::must(other->together([&]() -> Status {  // the file is locked for a moment
    f.driver->fill(kMessage, "And now?");
    f.driver->click("chat/middle/composer/send");
    f.driver->frames(10);
    CHECK(f.driver->text(kMessage) == "And now?");
    return {};
  }));
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 4; }));
  f.driver->frames(2);
  CHECK(f.driver->text(kMessage).empty());
  f.wait_for_answer();
}

TEST_CASE("chat: while a search goes on, nothing is said to be missing") {
  NEEDS_WINDOW();
  const std::string list = "chat/left/conversations/list/";
  Fixture f;
  f.wait_for_model();
  f.ask("Do you know the word zanzibar?");
  f.driver->fill("chat/left/conversations/search", "zanzi");
  bool searched = false;
  REQUIRE(f.driver->wait([&] {
    CHECK_FALSE(f.driver->shows(list + "nothing"));
    searched = searched || f.driver->shows(list + "searching");
    return f.driver->shows(list + "hit:0/open");
  }));
  CHECK(searched);
}

}  // namespace
}  // namespace infer::gui
