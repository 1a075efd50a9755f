// Models: found, planned, loaded, unloaded, and what goes wrong.
#include <GLFW/glfw3.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
namespace fs = std::filesystem;

const std::string kGolden = infer::test::data_path("golden/llama-q4_0.gguf");

/// A folder with two models and something else.
std::string folder_of_models(const infer::test::TempDir& root) {
  const std::string folder = root.path("models");
  fs::create_directories(folder);
  fs::copy_file(kGolden, folder + "/alpha.gguf");
  fs::copy_file(infer::test::data_path("golden/llama-q4_k.gguf"), folder + "/beta.gguf");
  std::ofstream(folder + "/notes.txt") << "nothing";
  return folder;
}

/// Shows the page of models with a folder that is searched.
void show_models(Fixture& f, const std::string& folder) {
  f.driver->click("top/page/Models");
  const std::string input = "models/left/list/folder list/new";
  f.driver->frames(2);
  if (!f.driver->shows(input)) f.driver->click("models/left/list/folders");
  f.driver->fill(input, folder);
  f.driver->click("models/left/list/folder list/add");
}

std::string row_of(const std::string& path) { return "models/left/list/" + path + "/choose"; }

TEST_CASE("models: those of a folder are found, with what they are") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string folder = folder_of_models(f.folder);
  show_models(f, folder);
  const std::string alpha = folder + "/alpha.gguf";
  REQUIRE(f.driver->wait([&] { return f.driver->shows(row_of(alpha)); }));
  CHECK(f.driver->shows(row_of(folder + "/beta.gguf")));
  REQUIRE(f.driver->wait([&] {
    return f.driver->text("models/left/list/" + alpha + "/facts").find("llama") !=
           std::string::npos;
  }));
  f.driver->fill("models/left/filter", "alp");
  REQUIRE(f.driver->wait([&] { return !f.driver->shows(row_of(folder + "/beta.gguf")); }));
  CHECK(f.driver->shows(row_of(alpha)));
}

TEST_CASE("models: the plan has the numbers of the library, and loading uses them") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->drop({kGolden});
  REQUIRE(f.driver->wait([&] {
    const Planned* planned = f.app->models().planned();
    return planned != nullptr && planned->status.ok();
  }));
  f.driver->frames(3);
  const Planned planned = *f.app->models().planned();
  const MemoryReport report = plan_model(kGolden, f.app->models().options()).value();
  CHECK(planned.plan.weights == report.weights);
  CHECK(planned.plan.context == report.context);
  CHECK(f.driver->text("models/right/plan/verdict").starts_with("Fits"));
  f.driver->click("models/right/plan/load");
  f.wait_for_model();
  CHECK(f.driver->text("top/model") == f.app->models().name());
  CHECK(f.app->models().memory().weights == report.weights);
  CHECK(f.driver->text("models/right/plan/loaded").find("Planned ") != std::string::npos);
  CHECK(f.app->models().planned_bytes() == planned.plan.total);
}

TEST_CASE("models: options change the plan at once") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->models().options().context = 256;
  f.app->drop({kGolden});
  REQUIRE(f.driver->wait([&] { return f.app->models().planned() != nullptr; }));
  const int64_t before = f.app->models().planned()->plan.kv;
  f.driver->click("models/right/plan/cache type");
  f.driver->click("models/right/plan/cache type/f32");
  REQUIRE(f.driver->wait([&] {
    return !f.app->models().is_planning() && f.app->models().planned()->plan.kv != before;
  }));
  CHECK(f.app->models().planned()->plan.kv == 2 * before);
}

TEST_CASE("models: what does not fit says what would, and a button does it") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  LoadOptions& options = f.app->models().options();
  options.context = 4096;
  options.fewer_rows = false;
  const MemoryReport whole = plan_model(kGolden, options).value();
  options.memory_limit = whole.total - whole.kv / 2;  // a smaller cache has room
  options.reserve = 0;
  f.app->drop({kGolden});
  REQUIRE(f.driver->wait([&] {
    return f.app->models().planned() != nullptr && !f.app->models().planned()->status.ok();
  }));
  f.driver->frames(3);
  const std::string apply = "models/right/plan/alternatives/alternative:0/apply";
  REQUIRE(f.driver->wait([&] { return f.driver->shows(apply); }));
  f.driver->click(apply);
  REQUIRE(f.driver->wait(
      [&] { return !f.app->models().is_planning() && f.app->models().planned()->status.ok(); }));
}

TEST_CASE("models: weights that stay in the file are chosen for one model alone") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->drop({kGolden});
  REQUIRE(f.driver->wait([&] { return f.app->models().planned() != nullptr; }));
  f.app->models().options().spill = true;
  f.app->models().options().context = 256;
  f.app->models().plan_again();
  CHECK(f.app->models().options().spill);
  f.app->drop({demo::model_path()});
  CHECK(!f.app->models().options().spill);
  CHECK(f.app->models().options().context == 256);
}

TEST_CASE("models: a plan for a device that is not here is as the library's, and loads nothing") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  f.app->drop({kGolden});
  REQUIRE(f.driver->wait(
      [&] { return f.app->models().planned() != nullptr && !f.app->models().devices().empty(); }));
  f.driver->frames(3);
  f.driver->click("models/right/plan/device");
  f.driver->click("models/right/plan/device/A device that is not here …");
  f.driver->fill("models/right/plan/absent", "24G,1008GB/s");
  f.driver->key(GLFW_KEY_ENTER);
  REQUIRE(f.driver->wait([&] {
    const Planned* planned = f.app->models().planned();
    return !f.app->models().is_planning() && (!planned->absent.empty() || !planned->status.ok());
  }));
  ForecastOptions what;
  what.on = "24G,1008GB/s";
  const Result<Forecast> expected = forecast(kGolden, f.app->models().options(), what);
  if (!expected) {  // a build without a back end for GPUs
    CHECK(f.app->models().planned()->status.code() == expected.error().code());
    return;
  }
  CHECK(f.app->models().planned()->plan.total == expected->memory.total);
  CHECK(f.app->models().planned()->speed.generation.high ==
        doctest::Approx(expected->speed.generation.high));
  f.driver->frames(3);
  CHECK(f.driver->text("models/right/plan/speed").find("tokens/s") != std::string::npos);
  REQUIRE(f.driver->shows("models/right/plan/load"));
  CHECK_FALSE(f.driver->find("models/right/plan/load")->enabled);
}

TEST_CASE("models: a broken file is told in its place") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string path = f.folder.path("broken.gguf");
  std::ofstream(path) << "GGUF and then nothing that makes sense";
  f.app->drop({path});
  REQUIRE(f.driver->wait([&] { return f.driver->shows("models/right/plan/failure"); }));
  CHECK(f.driver->text("models/right/plan/failure").find("broken.gguf") != std::string::npos);
  f.driver->click("models/right/plan/close");
  CHECK(f.app->models().planned_path().empty());
}

TEST_CASE("models: a model is unloaded, and the chat says so") {
  NEEDS_WINDOW();
  Fixture f;
  f.wait_for_model();
  f.driver->click("top/page/Models");
  f.driver->click("models/right/plan/unload");
  REQUIRE(f.driver->wait([&] { return f.app->models().phase() == ModelState::Phase::none; }));
  f.driver->click("top/page/Chat");
  CHECK_FALSE(f.app->chat().can_send());
  CHECK(f.driver->text("top/model") == "No model is loaded");
}

TEST_CASE("models: favourites and recent ones stay") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string folder = folder_of_models(f.folder);
  show_models(f, folder);
  const std::string alpha = folder + "/alpha.gguf";
  REQUIRE(f.driver->wait([&] { return f.driver->shows(row_of(alpha)); }));
  f.driver->click("models/left/list/" + alpha + "/favourite");
  CHECK(f.app->settings().get().favourites == std::vector<std::string>{alpha});
  f.driver->click(row_of(alpha));
  REQUIRE(f.driver->wait([&] { return f.app->models().planned() != nullptr; }));
  f.driver->frames(3);
  f.driver->click("models/right/plan/load");
  f.wait_for_model();
  CHECK(f.app->settings().get().recent.front() == alpha);
  f.restart();
  CHECK(f.app->settings().get().favourites == std::vector<std::string>{alpha});
  CHECK(f.app->settings().get().folders == std::vector<std::string>{folder});
  CHECK(f.app->settings().get().recent.front() == alpha);
}

TEST_CASE("models: folders are browsed to a file") {
  NEEDS_WINDOW();
  Fixture f(AppOptions{});
  const std::string folder = folder_of_models(f.folder);
  f.driver->click("top/page/Models");
  f.driver->click("models/left/where/Browse folders");
  f.driver->fill("models/left/browser/path", fs::path(folder).parent_path().string());
  f.driver->key(GLFW_KEY_ENTER);
  REQUIRE(
      f.driver->wait([&] { return f.driver->shows("models/left/browser/entries/models/open"); }));
  f.driver->click("models/left/browser/entries/models/open");
  REQUIRE(f.driver->wait(
      [&] { return f.driver->shows("models/left/browser/entries/alpha.gguf/open"); }));
  CHECK_FALSE(f.driver->shows("models/left/browser/entries/notes.txt/open"));
  f.driver->click("models/left/browser/entries/alpha.gguf/open");
  CHECK(f.app->models().planned_path() == folder + "/alpha.gguf");
  f.driver->fill("models/left/browser/path", "/no/such/folder");
  f.driver->key(GLFW_KEY_ENTER);
  REQUIRE(f.driver->wait([&] { return f.driver->shows("models/left/browser/failure"); }));
}

}  // namespace
}  // namespace infer::gui
