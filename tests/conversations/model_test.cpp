// Random sequences of operations, held against a plain model in memory.
#include <algorithm>
#include <map>
#include <random>

#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

struct ModelMessage {
  Message message;
  Id conversation = 0;
  Time deleted_at = 0;
};

/// What the store should hold. Ids come from the store.
struct Model {
  std::map<Id, Conversation> conversations;
  std::map<Id, ModelMessage> messages;
  std::map<std::string, Preset> presets;

  std::vector<Message> visible(Id conversation) const {
    std::vector<Message> all;
    for (const auto& [id, m] : messages) {
      if (m.conversation == conversation && m.deleted_at == 0) all.push_back(m.message);
    }
    return all;
  }
  void select(Id id) {
    const ModelMessage& m = messages.at(id);
    (m.message.parent == 0 ? conversations.at(m.conversation).selected_root
                           : messages.at(m.message.parent).message.selected_child) = id;
  }
  /// The message and all below it: a parent has a smaller id.
  std::vector<Id> below(Id first) const {
    std::vector<Id> ids = {first};
    for (const auto& [id, m] : messages) {
      if (std::ranges::find(ids, m.message.parent) != ids.end()) ids.push_back(id);
    }
    return ids;
  }
};

class Run {
 public:
  explicit Run(uint32_t seed) : random_(seed) { reopen(); }

  void step() {
    ++time_;
    switch (below(24)) {
      case 0:
      case 1: create(); break;
      case 2:
        any_conversation([&](Conversation& c) { must(store_->rename(c.id, c.title = word())); });
        break;
      case 3:
        any_conversation([&](Conversation& c) {
          c.pinned = !c.pinned;
          must(store_->set_pinned(c.id, c.pinned));
        });
        break;
      case 4:
        any_conversation([&](Conversation& c) {
          c.system_prompt = word();
          c.settings = "{\"n\":" + std::to_string(below(9)) + "}";
          c.preset = word();
          must(store_->configure(c.id, c.system_prompt, c.settings, c.preset));
        });
        break;
      case 5:
        any_conversation([&](Conversation& c) {
          must(store_->move_to_trash(c.id));
          c.deleted_at = time_;
        });
        break;
      case 6:
      case 7:
        any_conversation([&](Conversation& c) {
          must(store_->restore(c.id));
          c.deleted_at = 0;
        });
        break;
      case 8: empty_trash(); break;
      case 9: {
        const Preset preset = {"preset " + word(), word(), "{}"};
        must(store_->save_preset(preset));
        model_.presets[preset.name] = preset;
        break;
      }
      case 10: {
        const std::string name = "preset " + word();
        CHECK(store_->delete_preset(name).ok() == (model_.presets.erase(name) == 1));
        break;
      }
      case 11:
        any_message([&](ModelMessage& m) {
          must(store_->select(m.message.id));
          model_.select(m.message.id);
        });
        break;
      case 12:
        any_message([&](ModelMessage& m) {
          const std::string text = word();
          const Message made = must(store_->edit(m.message.id, text));
          Message expected = {.id = made.id,
                              .parent = m.message.parent,
                              .role = m.message.role,
                              .text = text,
                              .created_at = made.created_at};
          added(m.conversation, expected, made);
        });
        break;
      case 13:
        any_message([&](ModelMessage& m) {
          const Message made = must(store_->regenerate(m.message.id, "model"));
          Message expected = {.id = made.id,
                              .parent = m.message.parent,
                              .role = m.message.role,
                              .state = State::writing,
                              .created_at = made.created_at,
                              .model = "model"};
          added(m.conversation, expected, made);
        });
        break;
      case 14:
        any_message([&](ModelMessage& m) {
          must(store_->resume(m.message.id));
          m.message.state = State::writing;
        });
        break;
      case 15:
      case 16:
        any_message([&](ModelMessage& m) {
          if (m.message.state != State::writing) return;
          const std::string text = word(), reasoning = word();
          must(store_->append(m.message.id, text, reasoning));
          m.message.text += text;
          m.message.reasoning += reasoning;
        });
        break;
      case 17:
        any_message([&](ModelMessage& m) {
          AnswerEnd end = {below(2) == 0 ? State::complete : State::stopped,
                           {{"id", word(), "{}", word()}},
                           {int64_t{below(100)}, int64_t{below(100)}, 0.5, 1.5, 2.5}};
          must(store_->finish(m.message.id, end));
          m.message.state = end.state;
          m.message.tool_calls = end.tool_calls;
          m.message.statistics = end.statistics;
        });
        break;
      case 18:
        any_message([&](ModelMessage& m) {
          must(store_->move_message_to_trash(m.message.id));
          for (const Id id : model_.below(m.message.id)) {
            Time& deleted = model_.messages.at(id).deleted_at;
            if (deleted == 0) deleted = time_;
          }
        });
        break;
      case 19: restore_message(); break;
      default: add();
    }
  }

  void check() {
    std::vector<Conversation> listed, trashed;
    for (const auto& [id, c] : model_.conversations) {
      (c.deleted_at == 0 ? listed : trashed).push_back(c);
      const Tree tree = must(store_->load(id));
      CHECK(tree.conversation() == c);
      CHECK(tree.messages() == model_.visible(id));
    }
    std::ranges::sort(listed, [](const Conversation& a, const Conversation& b) {
      return std::tuple(!a.pinned, -a.used_at) < std::tuple(!b.pinned, -b.used_at);
    });
    std::ranges::sort(trashed, std::greater(), &Conversation::deleted_at);
    CHECK(must(store_->list()) == listed);
    CHECK(must(store_->trash()) == trashed);
    std::vector<Preset> presets;
    for (const auto& [name, preset] : model_.presets) presets.push_back(preset);
    CHECK(must(store_->presets()) == presets);
    check_search();
  }

  void reopen() {
    store_.reset();
    store_ = must(Store::open(folder_.path("c.db"), nullptr, {.clock = [this] { return time_; }}));
    for (auto& [id, m] : model_.messages) {
      if (m.message.state == State::writing) m.message.state = State::stopped;
    }
  }

 private:
  uint32_t below(uint32_t count) { return random_() % count; }
  std::string word() {
    constexpr const char* kWords[] = {"apple", "pear", "plum", "äpfel", "", "apple pear", "🍎"};
    return kWords[below(7)];
  }

  template <typename Work>
  void any_conversation(Work work) {
    if (model_.conversations.empty()) return;
    work(std::next(model_.conversations.begin(),
                   below(static_cast<uint32_t>(model_.conversations.size())))
             ->second);
  }
  /// One that is not in the trash.
  template <typename Work>
  void any_message(Work work) {
    if (model_.messages.empty()) return;
    auto& m =
        std::next(model_.messages.begin(), below(static_cast<uint32_t>(model_.messages.size())))
            ->second;
    if (m.deleted_at == 0) work(m);
  }

  void create() {
    Conversation wanted;
    wanted.title = word();
    const Conversation made = must(store_->create(wanted));
    CHECK(made.used_at == time_);
    wanted.id = made.id;
    wanted.created_at = wanted.used_at = time_;
    CHECK(made == wanted);
    model_.conversations[made.id] = wanted;
  }

  void add() {
    any_conversation([&](Conversation& c) {
      const std::vector<Message> visible = model_.visible(c.id);
      NewMessage wanted;
      if (!visible.empty() && below(6) != 0) {
        wanted.parent = visible[below(static_cast<uint32_t>(visible.size()))].id;
      }
      wanted.role = below(2) == 0 ? Role::user : Role::assistant;
      wanted.text = word();
      wanted.reasoning = word();
      const Message made = must(store_->add(c.id, wanted));
      Message expected = {.id = made.id,
                          .parent = wanted.parent,
                          .role = wanted.role,
                          .text = wanted.text,
                          .reasoning = wanted.reasoning,
                          .created_at = made.created_at};
      added(c.id, expected, made);
    });
  }

  void added(Id conversation, const Message& expected, const Message& made) {
    CHECK(made == expected);
    model_.messages[made.id] = {made, conversation, 0};
    model_.select(made.id);
    // The store's time is one tick further for each time that a call takes.
    const Time used = must(store_->conversation(conversation)).used_at;
    CHECK(used >= made.created_at);
    time_ = std::max(time_, used);
    model_.conversations.at(conversation).used_at = used;
  }

  void restore_message() {
    std::vector<Id> deleted;
    for (const auto& [id, m] : model_.messages) {
      if (m.deleted_at != 0) deleted.push_back(id);
    }
    if (deleted.empty()) return;
    const Id id = deleted[below(static_cast<uint32_t>(deleted.size()))];
    const ModelMessage m = model_.messages.at(id);
    const Id parent = m.message.parent;
    const bool is_allowed = parent == 0 || model_.messages.at(parent).deleted_at == 0;
    CHECK(store_->restore_message(id).ok() == is_allowed);
    if (!is_allowed) return;
    for (const Id each : model_.below(id)) {
      Time& time = model_.messages.at(each).deleted_at;
      if (time == m.deleted_at) time = 0;
    }
  }

  void empty_trash() {
    const Time before = time_ - below(60);
    const int64_t deleted = must(store_->empty_trash(before));
    CHECK(deleted == static_cast<int64_t>(std::erase_if(model_.conversations, [&](const auto& c) {
            return c.second.deleted_at != 0 && c.second.deleted_at < before;
          })));
    std::erase_if(model_.messages, [&](const auto& m) {
      return !model_.conversations.contains(m.second.conversation) ||
             (m.second.deleted_at != 0 && m.second.deleted_at < before);
    });
  }

  void check_search() {
    std::vector<Id> expected, found;
    for (const auto& [id, m] : model_.messages) {
      const Conversation& c = model_.conversations.at(m.conversation);
      const std::string both = m.message.text + " " + m.message.reasoning;
      // What begins with the word counts; a picture separates words as a space does.
      const bool matches = (" " + both).find(" plum") != std::string::npos ||
                           both.find("🍎plum") != std::string::npos;
      if (matches && m.deleted_at == 0 && c.deleted_at == 0 && m.message.state != State::writing) {
        expected.push_back(id);
      }
    }
    for (const Hit& hit : must(store_->search("plum", 1'000))) {
      if (hit.message != 0) found.push_back(hit.message);
    }
    std::ranges::sort(found);
    CHECK(found == expected);
  }

  std::mt19937 random_;
  infer::test::TempDir folder_;
  Time time_ = 1'000'000;
  Model model_;
  std::unique_ptr<Store> store_;
};

TEST_CASE("random sequences of operations do to the file what they do to a model") {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Run run(seed);
    for (int i = 0; i < 300; ++i) {
      run.step();
      if (i % 25 == 24) run.check();
      if (i % 60 == 59) {
        run.reopen();
        run.check();
      }
    }
  }
}

}  // namespace
}  // namespace infer::conversations::test
