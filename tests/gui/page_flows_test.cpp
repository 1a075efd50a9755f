// The other pages: insight, tools, settings, and the window's manners.
#include <GLFW/glfw3.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;

TEST_CASE("insight: numbers are those of the engine") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click("top/page/Insight");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("insight/all/speed"); }));
  const std::string weights = f.driver->text("insight/all/memory/cpu/weights");
  CHECK(!weights.empty());
  CHECK(f.driver->shows("insight/all/tokens/s"));
}

TEST_CASE("insight: the pages of the cache have the names of their conversations") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello, zanzibar!");
  f.driver->click("top/page/Insight");
  REQUIRE(f.driver->wait([&] { return f.driver->has("insight/all/pages"); }));
  const std::string& states = f.driver->text("insight/all/page owners");
  CHECK_MESSAGE(states.find("Hello, zanzibar!: ") != std::string::npos, states);
}

TEST_CASE("insight: the cache is as large as the slider says") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.ask("Hello!");
  f.driver->click("top/page/Insight");
  const auto bytes = [&] { return f.app->models().memory().kv; };
  f.driver->scroll_to("insight/all/cache size", "insight/all/speed");
  const int64_t before = bytes();
  f.driver->drag("insight/all/cache size", 0.5f, 0.5f, 0.9f, 0.5f);
  REQUIRE(f.driver->wait([&] { return bytes() > before * 3 / 2; }));
  const int64_t large = bytes();
  f.driver->drag("insight/all/cache size", 0.5f, 0.5f, 0.1f, 0.5f);
  REQUIRE(f.driver->wait([&] { return bytes() < large / 2; }));
}

TEST_CASE("insight: without a model it says what to do") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click("top/page/Insight");
  CHECK(f.driver->text("insight/hint").find("Load a model") != std::string::npos);
}

TEST_CASE("insight: operations are measured, and the trace is saved") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->click("top/page/Insight");
  const std::string all = "insight/all";
  // The first sample of the machine moves what is below it.
  REQUIRE(f.driver->wait([&] { return f.driver->has(all + "/machine/Processor"); }));
  f.driver->scroll_to(all + "/operations/measure", all + "/speed");
  f.driver->click(all + "/operations/measure");
  REQUIRE(f.driver->wait([&] { return f.app->jobs().last() != nullptr; }, 60));
  f.driver->scroll_to(all + "/operations/prompt/operation", all + "/operations/measure");
  f.driver->scroll_to(all + "/operations/timeline", all + "/operations/prompt/operation");
  f.driver->scroll_to(all + "/operations/save trace", all + "/operations/prompt/operation");
  const std::string file = f.folder.path("trace.json");
  f.driver->fill(all + "/operations/trace file", file);
  f.driver->click(all + "/operations/save trace");
  REQUIRE(f.driver->wait([&] { return std::filesystem::exists(file); }));
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  CHECK(parse_trace(text).value().lanes.size() > 1);
}

TEST_CASE("tools: a benchmark runs and reports") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click("top/page/Tools");
  f.driver->fill("tools/form/model", infer::test::data_path("golden/llama-q4_0.gguf"));
  f.driver->fill("tools/form/prompt", "8");
  f.driver->key(GLFW_KEY_ENTER);
  f.driver->fill("tools/form/tokens", "4");
  f.driver->key(GLFW_KEY_ENTER);
  f.driver->fill("tools/form/repeats", "1");
  f.driver->key(GLFW_KEY_ENTER);
  f.driver->click("tools/form/start");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("tools/form/report/title"); }, 60));
  CHECK(f.driver->shows("tools/form/report/result:0/rate"));
}

TEST_CASE("tools: a selftest can be cancelled") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click("top/page/Tools");
  f.driver->click("tools/tool/Selftest");
  f.driver->click("tools/form/start");
  f.driver->click("tools/form/running/cancel");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("tools/form/report/failure"); }, 60));
}

TEST_CASE("tools: quantising writes the file, and a wrong path is told") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string output = f.folder.path("small.gguf");
  f.driver->click("top/page/Tools");
  f.driver->click("tools/tool/Quantise");
  f.driver->fill("tools/form/model", infer::test::data_path("golden/llama-f32.gguf"));
  f.driver->fill("tools/form/output", output);
  f.driver->click("tools/form/start");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("tools/form/report/title"); }, 60));
  CHECK(std::filesystem::exists(output));
  f.driver->fill("tools/form/model", "/no/such/model.gguf");
  f.driver->fill("tools/form/output", f.folder.path("other.gguf"));
  f.driver->click("tools/form/start");
  REQUIRE(f.driver->wait([&] { return f.driver->shows("tools/form/report/failure"); }, 60));
  CHECK(f.driver->text("tools/form/report/failure").find("/no/such/model.gguf") !=
        std::string::npos);
}

TEST_CASE("settings: the theme and the font change at once and stay") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->click("top/page/Settings");
  const ImVec4 before = ImGui::GetStyle().Colors[ImGuiCol_WindowBg];
  f.driver->click("settings/all/theme");
  f.driver->click("settings/all/theme/Light");
  f.driver->frames(2);
  CHECK(ImGui::GetStyle().Colors[ImGuiCol_WindowBg].x > before.x + 0.3f);
  const float font = ImGui::GetFontSize();
  f.driver->key(GLFW_KEY_EQUAL, true);
  f.driver->frames(2);
  CHECK(ImGui::GetFontSize() > font);
  f.restart();
  CHECK(f.app->settings().get().theme == "light");
}

TEST_CASE("settings: a broken file is set aside and told") {
  NEEDS_WINDOW();
  infer::test::TempDir folder;
  const std::string path = folder.path("settings.toml");
  std::ofstream(path) << "this is = = no TOML";
  AppOptions options;
  options.settings = path;
  Fixture f(options);
  REQUIRE(f.driver->wait([&] { return f.driver->reads("settings.toml"); }));
}

TEST_CASE("keys: pages, help and a new conversation") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.driver->key(GLFW_KEY_2, true);
  CHECK(f.driver->shows("models/left/filter"));
  f.driver->key(GLFW_KEY_5, true);
  CHECK(f.driver->shows("settings/all/font size"));
  f.driver->key(GLFW_KEY_1, true);
  CHECK(f.driver->shows("chat/middle/composer/message"));
  f.driver->key(GLFW_KEY_F1);
  CHECK(f.driver->text("help/Ctrl+N") == "A new conversation");
  f.driver->click("help/close");
  CHECK_FALSE(f.driver->shows("help/close"));
}

TEST_CASE("manners: nothing is drawn while nothing happens") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  Window& window = *test::shared_window();
  // What settles: fonts, the list, the plan.
  for (int i = 0; i < 50; ++i) window.turn(*f.app, 0.02);
  const int64_t before = window.frames();
  for (int i = 0; i < 20; ++i) window.turn(*f.app, 0.05);
  CHECK(window.frames() - before <= 2);
}

TEST_CASE("manners: a notice is seen whole as soon as there is one") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  Window& window = *test::shared_window();
  for (int i = 0; i < 50; ++i) window.turn(*f.app, 0.02);
  for (const char* text : {"Written to a file.", "Written to another file."}) {
    f.app->toasts().tell(text);
    window.wake();
    for (int i = 0; i < 20; ++i) window.turn(*f.app, 0.02);
    // What was drawn last is what is seen until something else happens.
    for (const Toast& toast : f.app->toasts().all()) {
      const std::string name = "toasts/toast:" + std::to_string(toast.id) + "/";
      for (const char* part : {"text", "close"}) {
        const ui::Drawn* drawn = f.driver->find(name + part);
        REQUIRE_MESSAGE(drawn != nullptr, name);
        CHECK(drawn->bottom - drawn->top >= ImGui::GetFontSize());
      }
    }
    const ImGuiWindow* const notices = ImGui::FindWindowByName("toasts");
    REQUIRE(notices != nullptr);
    CHECK_FALSE(notices->Hidden);
    CHECK(notices->Size.y >= notices->ContentSizeIdeal.y);
  }
}

/// The median time of a frame while an answer is written, in seconds of this thread.
double frame_time(Fixture& f) {
  f.begin("Tell me a long story about a lighthouse.");
  std::vector<double> times;
  for (int i = 0; i < 40; ++i) {
    const double before = infer::test::thread_seconds();
    f.driver->frames(1);
    times.push_back(infer::test::thread_seconds() - before);
  }
  REQUIRE(f.driver->wait([&] { return !f.app->chat().is_answering(); }));
  std::ranges::nth_element(times, times.begin() + 20);
  return times[20];
}

TEST_CASE("manners: a notice leaves the settings beside the messages free") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->key(GLFW_KEY_B, true);
  f.app->toasts().fail("The model has no template: choose one in the conversation's Settings, " +
                       std::string(200, 'x'));
  f.driver->frames(3);
  const ImGuiWindow* const notices = ImGui::FindWindowByName("toasts");
  REQUIRE(notices != nullptr);
  const ui::Drawn* const settings = f.driver->find("chat/right/options/system prompt");
  REQUIRE(settings != nullptr);
  CHECK(notices->Pos.x > 0);
  CHECK(notices->Pos.x + notices->Size.x <= settings->left);
  // Where there are no settings they are at the edge.
  f.driver->key(GLFW_KEY_B, true);
  f.driver->frames(2);
  CHECK(notices->Pos.x + notices->Size.x > ImGui::GetIO().DisplaySize.x * 0.9f);
}

TEST_CASE("manners: a conversation of a megabyte costs frames little") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const double alone = frame_time(f);
  std::string text;
  while (text.size() < (1 << 20)) {
    text +=
        "## A heading\n\nSome **words** of `prose`, again and again, until the line is long "
        "enough to be broken.\n\n```cpp\nfor (int i = 0; i < n; ++i) sum += a[i];\n```\n\n";
  }
  ChatSettings settings = f.app->chat().settings();
  settings.drop_oldest = true;
  f.app->chat().configure(f.app->chat().current(), "", settings);
  f.app->chat().edit(f.shown().back().message->id, text);
  REQUIRE(f.driver->wait([&] { return f.shown().back().text().size() > (1 << 20); }));
  f.driver->frames(20);
  const double after = frame_time(f);
  MESSAGE("frame alone " << alone * 1000 << " ms, below a megabyte " << after * 1000 << " ms");
  CHECK(after < 3 * alone + 0.01);
}

TEST_CASE("manners: hostile text does not break the page") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  const std::string texts[] = {
      std::string(1 << 20, 'x'),
      [] {
        std::string fences;
        for (int i = 0; i < 10000; ++i) fences += "```\n";
        return fences;
      }(),
      std::string("\x01\x02\xff\xfe \u202e reversed \u2066") + std::string(200, '>'),
      std::string(2000, '|') + "\n" + std::string(2000, '-')};
  for (const std::string& text : texts) {
    f.app->chat().start_new();
    f.app->chat().send(text);
    REQUIRE(f.driver->wait([&] { return !f.shown().empty(); }));
    f.app->chat().stop();
    REQUIRE(f.driver->wait([&] { return !f.app->chat().is_answering(); }, 60));
    f.driver->frames(5);
    CHECK(f.driver->shows("chat/middle/composer/message"));
    CHECK(f.driver->shows("top/page/Chat"));
  }
}

}  // namespace
}  // namespace infer::gui
