// The main states of the window as pictures, for a person to look at. INFER_SCREENSHOTS names the
// folder for them (tools/screenshots.sh); without it they go to a folder that is removed.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/gui/fixture.h"

namespace infer::gui {
namespace {

using test::Fixture;
namespace fs = std::filesystem;

struct Look {
  const char* name;
  int width, height;
  float scale;
  const char* theme;
};

constexpr Look kLooks[] = {
    {"dark", 1280, 800, 1, "dark"},    {"light", 1280, 800, 1, "light"},
    {"small", 800, 600, 1, "dark"},    {"small-light", 800, 600, 1, "light"},
    {"double", 2560, 1600, 2, "dark"}, {"double-light", 2560, 1600, 2, "light"}};

constexpr const char* kAnswer = R"(The **sieve of Eratosthenes** finds all primes up to a limit.

1. Write down the numbers from 2 on.
2. The first number that is not crossed out is prime; cross out its multiples.
3. Go on until its square is beyond the limit.

```python
def primes(limit):
    """All primes below limit."""
    sieve = [True] * limit
    for n in range(2, int(limit ** 0.5) + 1):
        if sieve[n]:
            sieve[n * n::n] = [False] * len(range(n * n, limit, n))
    return [n for n in range(2, limit) if sieve[n]]
```

| method | time | memory |
|:--|--:|--:|
| trial division | O(n √n / log n) | O(1) |
| sieve | O(n log log n) | O(n) |
| segmented sieve | O(n log log n) | O(√n) |

- [x] works for any limit
- [ ] ~~needs a table of primes~~

The number of crossings is $\sum_{p \le n} n/p$, see [the article](https://en.wikipedia.org/wiki/Sieve_of_Eratosthenes).)";

/// Of the conversation: milliseconds since 1970.
constexpr const char* kTime = "1762951920000";

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// A file with a conversation in the project's own format.
std::string conversation_file(const infer::test::TempDir& folder) {
  const std::string path = folder.path("conversation.json");
  std::ofstream(path)
      << R"({"format":"infer-conversations","version":1,"conversations":[{)"
      << R"("title":"Primes in Python","selected_root":1,"created_at":)" << kTime
      << R"(,"used_at":)" << kTime << R"(,"messages":[)"
      << R"({"id":1,"selected_child":2,"role":"user","state":"complete","created_at":)" << kTime
      << R"(,"text":"How do I find all primes below a number?"},)"
      << R"({"id":2,"parent":1,"role":"assistant","state":"complete","created_at":)" << kTime
      << R"(,"model":"infer-demo","text":)" << quoted(kAnswer)
      << R"(,"statistics":{"generated_tokens":312,"generate_rate":143.2,"prompt_rate":1046,)"
      << R"("first_token_seconds":0.02}}]}]})";
  return path;
}

class Camera {
 public:
  Camera(Fixture& fixture, const Look& look, const std::string& folder)
      : fixture_(fixture), look_(look), folder_(folder) {}
  /// `name`: of the state.
  void take(const std::string& name) const {
    fixture_.driver->frames(3);
    const std::string path = folder_ + "/" + name + "-" + look_.name + ".png";
    fixture_.driver->screenshot(path);
    // A picture of one colour is a few hundred bytes.
    CHECK_MESSAGE(fs::file_size(path) > 5000, path);
    check_layout();
  }

 private:
  /// Nothing that can be used is cut off by the window's edge.
  void check_layout() const {
    const float width = static_cast<float>(look_.width);
    const float height = static_cast<float>(look_.height);
    for (const ui::Drawn& drawn : ui::record()) {
      if (!drawn.visible) continue;
      CHECK_MESSAGE(drawn.right <= width + 1, drawn.name);
      CHECK_MESSAGE(drawn.bottom <= height + 1, drawn.name);
    }
  }

  Fixture& fixture_;
  const Look& look_;
  std::string folder_;
};

/// `seconds`: how long answers are generated before the picture of their speed.
void take_all(const Look& look, const std::string& folder, double seconds) {
  INFO(std::string(look.name));
  Fixture f;
  Settings settings = f.app->settings().get();
  settings.theme = look.theme;
  f.app->settings().set(settings);
  f.driver->resize(look.width, look.height, look.scale);
  f.wait_for_model();
  const Camera camera(f, look, folder);
  camera.take("first-run");

  f.app->chat().import(conversation_file(f.folder));
  REQUIRE(f.driver->wait([&] { return f.app->chat().list().size() == 1; }));
  f.app->chat().open(f.app->chat().list()[0].id);
  REQUIRE(f.driver->wait([&] { return f.shown().size() == 2; }));
  f.driver->frames(5);
  for (const Toast& toast : std::vector<Toast>(f.app->toasts().all())) {
    f.app->toasts().close(toast.id);
  }
  camera.take("chat");

  f.app->show(Page::models);
  f.app->drop({std::string(INFER_SOURCE_DIR) + "/app/demo/infer-demo.gguf"});
  REQUIRE(f.driver->wait([&] { return f.driver->shows("models/right/plan/verdict"); }));
  camera.take("plan");
  const std::string broken = f.folder.path("broken.gguf");
  std::ofstream(broken) << "GGUF and then nothing that makes sense";
  f.app->drop({broken});
  REQUIRE(f.driver->wait([&] { return f.driver->shows("models/right/plan/failure"); }));
  camera.take("error");

  f.app->show(Page::chat);
  f.app->chat().start_new();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  do {
    f.app->show(Page::chat);
    f.app->chat().start_new();
    f.begin("Tell me a long story about a lighthouse.");
    f.app->show(Page::insight);
    f.driver->wait([&] { return !f.app->chat().is_answering(); }, 1);
  } while (std::chrono::steady_clock::now() < end);
  camera.take("insight");
  f.app->chat().stop();
  REQUIRE(f.driver->wait([&] { return !f.app->chat().is_answering(); }));
  f.app->show(Page::tools);
  camera.take("tools");
  f.app->show(Page::settings);
  camera.take("settings");
}

TEST_CASE("screenshots: the main states fit in every size and theme") {
  if (test::shared_window() == nullptr) return;
  const char* wanted = std::getenv("INFER_SCREENSHOTS");
  const infer::test::TempDir temporary;
  const std::string folder = wanted == nullptr ? temporary.path("") : std::string(wanted);
  fs::create_directories(folder);
  for (const Look& look : kLooks) take_all(look, folder, wanted == nullptr ? 0 : 15);
  test::shared_window()->set_size(1280, 800, 1);
}

}  // namespace
}  // namespace infer::gui
