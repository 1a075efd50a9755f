// A window with the application in it, on files of its own.
#pragma once

#include <doctest.h>

#include <memory>
#include <string>

#include "demo/demo_model.h"
#include "gui/app.h"
#include "tests/gui/driver.h"
#include "tests/support.h"

/// Ends the test where there is no display.
#define NEEDS_WINDOW() \
  if (::infer::gui::test::shared_window() == nullptr) return

namespace infer::gui::test {

/// The field that messages are written in.
inline const std::string kMessage = "chat/middle/composer/message";

/// One window for all tests: opening one takes longer than most tests. Null with a SKIPPED line
/// where there is no display.
Window* shared_window();

class Fixture {
 public:
  explicit Fixture(AppOptions options = {.model = demo::model_path(),
                                         .built_in = demo::model_path()}) {
    options.scans = false;
    if (options.store.empty()) options.store = folder.path("conversations.db");
    if (options.settings.empty()) options.settings = folder.path("settings.toml");
    this->options = options;
    start();
  }
  ~Fixture() { stop(); }

  /// Ends the application and starts it again on the same files.
  void restart() {
    stop();
    start();
  }
  void wait_for_model() {
    REQUIRE(driver->wait([&] { return app->models().phase() == ModelState::Phase::loaded; }));
    driver->frames(3);
  }
  /// Sends a message and waits for the end of the answer.
  void ask(const std::string& text) {
    begin(text);
    wait_for_answer();
  }
  /// Waits until the answer has ended and is kept.
  void wait_for_answer() {
    REQUIRE(driver->wait(
        [&] {
          return !app->chat().is_answering() &&
                 shown().back().message->state != conversations::State::writing;
        },
        60));
    driver->frames(3);
  }
  /// From now on answers do not end by themselves: they are stopped, or the context is full, which
  /// counts as stopped.
  void answer_without_end() {
    ChatSettings settings = app->chat().settings();
    settings.grammar = "root ::= [a-z ]{8000}";
    settings.sampling.temperature = 0;
    app->chat().configure(app->chat().current(), "", settings);
  }
  /// Sends a message and waits until the answer begins. A short one may have ended by then.
  void begin(const std::string& text) {
    const conversations::Id before = last_message();
    driver->fill("chat/middle/composer/message", text);
    driver->click("chat/middle/composer/send");
    REQUIRE(driver->wait([&] {
      return last_message() != before &&
             shown().back().message->role == conversations::Role::assistant;
    }));
  }
  /// Its id; 0: none is shown.
  conversations::Id last_message() const {
    return shown().empty() ? 0 : shown().back().message->id;
  }
  std::string message(size_t i, const std::string& what) const {
    return "chat/middle/messages/transcript/message:" +
           std::to_string(app->chat().shown().at(i).message->id) + "/" + what;
  }
  const std::vector<ShownMessage>& shown() const { return app->chat().shown(); }

  infer::test::TempDir folder;
  AppOptions options;
  std::unique_ptr<App> app;
  std::unique_ptr<Driver> driver;

 private:
  void start() {
    app = std::make_unique<App>(*shared_window(), options);
    driver = std::make_unique<Driver>(*shared_window(), *app);
  }
  void stop() {
    driver.reset();
    app.reset();
  }
};

}  // namespace infer::gui::test
