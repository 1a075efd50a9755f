// What the tests of conversations share.
#pragma once

#include <doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conversations/async_store.h"
#include "conversations/store.h"
#include "tests/support.h"

namespace infer::conversations::test {

template <typename Value>
Value must(Result<Value> result) {
  REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().message()));
  return std::move(*result);
}

inline void must(const Status& status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

/// Polls until the condition holds. The time is long enough for any machine.
template <typename Condition>
void poll_until(AsyncStore& store, Condition holds) {
  for (int i = 0; i < 60'000 && !holds(); ++i) {
    store.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(holds());
}

/// Ends at once if it cannot be opened.
inline std::unique_ptr<Store> open_store(const std::string& path, OpenReport* report = nullptr) {
  return must(Store::open(path, report));
}

inline Conversation titled(const std::string& title) {
  Conversation conversation;
  conversation.title = title;
  return conversation;
}

inline NewMessage from_user(Id parent, const std::string& text) {
  return {.parent = parent, .role = Role::user, .text = text};
}

inline NewMessage from_assistant(Id parent, const std::string& text) {
  return {.parent = parent, .role = Role::assistant, .text = text};
}

/// A store in a folder of its own.
struct Fixture {
  infer::test::TempDir folder;
  std::string path = folder.path("data/conversations.db");
  Time time = 1'000;
  std::unique_ptr<Store> store =
      must(Store::open(path, nullptr, {.clock = [this] { return time; }}));

  void reopen() {
    store.reset();
    store = must(Store::open(path, nullptr, {.clock = [this] { return time; }}));
  }
};

/// The texts of the messages that are shown.
inline std::vector<std::string> shown_texts(const Tree& tree) {
  std::vector<std::string> texts;
  for (const Id id : tree.shown()) texts.push_back(tree.find(id)->text);
  return texts;
}

}  // namespace infer::conversations::test
