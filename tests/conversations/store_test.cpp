// What a person does with conversations.
#include <sys/stat.h>

#include <algorithm>

#include "tests/conversations/helpers.h"

namespace infer::conversations::test {
namespace {

using Texts = std::vector<std::string>;

TEST_CASE_FIXTURE(Fixture, "a conversation is created, changed and listed by last use") {
  Conversation wanted = titled("first");
  wanted.system_prompt = "be brief";
  wanted.settings = R"( {"temperature": 0.5, "grammar": "root ::= \"a\""} )";
  wanted.preset = "code";
  const Conversation first = must(store->create(wanted));
  CHECK(first.settings == R"({"grammar":"root ::= \"a\"","temperature":0.5})");
  const Id second = must(store->create(titled("second"))).id;
  CHECK(must(store->list()).front().id == second);
  must(store->add(first.id, from_user(0, "hello")));
  CHECK(must(store->list()).front().id == first.id);
  must(store->set_pinned(second, true));
  must(store->rename(second, "renamed"));
  must(store->configure(second, "system", R"({"top_k":40})", "chat"));
  reopen();
  const std::vector<Conversation> all = must(store->list());
  REQUIRE(all.size() == 2);
  CHECK(all[0].title == "renamed");
  CHECK(all[0].pinned);
  CHECK(all[0].system_prompt == "system");
  CHECK(all[0].settings == R"({"top_k":40})");
  CHECK(all[0].preset == "chat");
  CHECK(all[1].system_prompt == "be brief");
  CHECK(must(store->list(1, 1)).front().id == first.id);
}

TEST_CASE_FIXTURE(Fixture, "every field of a message is kept") {
  const Id id = must(store->create(titled("t"))).id;
  NewMessage wanted = from_assistant(0, std::string("text\0with zero", 14));
  wanted.reasoning = "thought";
  wanted.tool_calls = {{"call1", "weather", R"({"city":"Wien"})", "18 °C"}, {"", "time", "{}", ""}};
  wanted.model = "demo";
  wanted.statistics = {12, 34, 1234.5, 56.75, 0.125};
  const Message made = must(store->add(id, wanted));
  reopen();
  const Tree tree = must(store->load(id));
  REQUIRE(tree.messages().size() == 1);
  Message read = tree.messages()[0];
  CHECK(read == made);
  CHECK(read.text == wanted.text);
  CHECK(read.tool_calls == wanted.tool_calls);
  CHECK(read.statistics == wanted.statistics);
}

TEST_CASE_FIXTURE(Fixture, "an edited question and a regenerated answer are alternatives") {
  const Id id = must(store->create(titled("t"))).id;
  const Id question = must(store->add(id, from_user(0, "q1"))).id;
  const Id answer = must(store->add(id, from_assistant(question, "a1"))).id;
  must(store->add(id, from_user(answer, "q2")));
  const Message again = must(store->regenerate(answer, "demo"));
  CHECK(again.state == State::writing);
  CHECK(again.model == "demo");
  must(store->append(again.id, "a1, again", ""));
  must(store->finish(again.id, {}));
  CHECK(shown_texts(must(store->load(id))) == Texts{"q1", "a1, again"});
  const Id edited = must(store->edit(question, "q1, edited")).id;
  CHECK(shown_texts(must(store->load(id))) == Texts{"q1, edited"});
  must(store->select(question));
  must(store->select(answer));
  reopen();
  const Tree tree = must(store->load(id));
  CHECK(shown_texts(tree) == Texts{"q1", "a1", "q2"});
  CHECK(tree.siblings(answer) == std::vector<Id>{answer, again.id});
  CHECK(tree.siblings(question) == std::vector<Id>{question, edited});
  CHECK(tree.path_to(again.id) == std::vector<Id>{question, again.id});
  CHECK(tree.siblings(999).empty());
}

TEST_CASE_FIXTURE(Fixture, "an answer is written in pieces, stopped, kept and continued") {
  const Id id = must(store->create(titled("t"))).id;
  NewMessage wanted = from_assistant(0, "");
  wanted.state = State::writing;
  const Id answer = must(store->add(id, wanted)).id;
  must(store->append(answer, "", "think"));
  must(store->append(answer, "one ", "ing"));
  must(store->append(answer, "two ", ""));
  CHECK(must(store->load(id)).find(answer)->text == "one two ");
  must(store->finish(answer, {.state = State::stopped, .statistics = {1, 2, 3, 4, 5}}));
  Tree tree = must(store->load(id));
  CHECK(tree.find(answer)->state == State::stopped);
  CHECK(tree.find(answer)->reasoning == "thinking");
  must(store->resume(answer));
  must(store->append(answer, "three", ""));
  CHECK(must(store->load(id)).find(answer)->state == State::writing);
  must(store->finish(answer, {}));
  tree = must(store->load(id));
  CHECK(tree.find(answer)->text == "one two three");
  CHECK(tree.find(answer)->state == State::complete);
}

TEST_CASE_FIXTURE(Fixture, "an answer whose process ended is a stopped one with its text") {
  const Id id = must(store->create(titled("t"))).id;
  NewMessage wanted = from_assistant(0, "begin ");
  wanted.state = State::writing;
  const Id answer = must(store->add(id, wanted)).id;
  must(store->append(answer, "end", ""));
  CHECK(must(store->search("end")).empty());
  reopen();
  const Message read = *must(store->load(id)).find(answer);
  CHECK(read.state == State::stopped);
  CHECK(read.text == "begin end");
  CHECK(must(store->search("end")).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "an answer that another process writes goes on") {
  const Id id = must(store->create(titled("t"))).id;
  NewMessage wanted = from_assistant(0, "");
  wanted.state = State::writing;
  const Id answer = must(store->add(id, wanted)).id;
  must(store->append(answer, "one ", ""));
  const std::unique_ptr<Store> other = open_store(path);
  CHECK(must(other->load(id)).find(answer)->state == State::writing);
  must(store->append(answer, "two", ""));
  CHECK(must(other->load(id)).find(answer)->text == "one two");
  must(store->finish(answer, {}));
  CHECK(must(other->load(id)).find(answer)->state == State::complete);
  CHECK(must(other->load(id)).find(answer)->text == "one two");
  CHECK(must(other->search("two")).size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "the trash gives back what it holds and is emptied by age") {
  const Id old = must(store->create(titled("old apple"))).id;
  const Id young = must(store->create(titled("young apple"))).id;
  must(store->add(old, from_user(0, "pear")));
  time = 10'000;
  must(store->move_to_trash(old));
  time = 20'000;
  must(store->move_to_trash(young));
  CHECK(must(store->list()).empty());
  CHECK(must(store->search("apple")).empty());
  CHECK(must(store->search("pear")).empty());
  CHECK(must(store->trash()).size() == 2);
  CHECK(must(store->trash()).front().id == young);
  must(store->restore(old));
  CHECK(must(store->search("pear")).size() == 1);
  time = 30'000;
  must(store->move_to_trash(old));
  CHECK(must(store->empty_trash(25'000)) == 1);
  CHECK(must(store->trash()).size() == 1);
  CHECK(must(store->empty_trash(1'000'000)) == 1);
  CHECK(store->load(old).error().code() == StatusCode::not_found);
  CHECK(must(store->create(titled("new"))).id > young);
}

TEST_CASE_FIXTURE(Fixture, "a message goes to the trash with all below it, and comes back") {
  const Id id = must(store->create(titled("t"))).id;
  const Id a = must(store->add(id, from_user(0, "a"))).id;
  const Id b = must(store->add(id, from_assistant(a, "b"))).id;
  const Id c = must(store->add(id, from_user(b, "c"))).id;
  must(store->move_message_to_trash(c));
  CHECK(shown_texts(must(store->load(id))) == Texts{"a", "b"});
  REQUIRE(must(store->trashed_messages()).size() == 1);
  CHECK(must(store->trashed_messages())[0].id == c);
  CHECK(must(store->trashed_messages())[0].conversation == id);
  CHECK(must(store->trashed_messages())[0].title == "t");
  CHECK(must(store->trashed_messages())[0].snippet == "c");
  must(store->move_message_to_trash(a));
  REQUIRE(must(store->trashed_messages()).size() == 1);  // c needs a first
  CHECK(must(store->trashed_messages())[0].id == a);
  must(store->move_to_trash(id));
  CHECK(must(store->trashed_messages()).empty());
  must(store->restore(id));
  CHECK(must(store->load(id)).messages().empty());
  CHECK(must(store->search("b")).empty());
  CHECK(store->restore_message(c).code() == StatusCode::invalid_argument);
  CHECK(store->add(id, from_user(b, "x")).error().code() == StatusCode::not_found);
  must(store->restore_message(a));
  CHECK(shown_texts(must(store->load(id))) == Texts{"a", "b"});
  REQUIRE(must(store->trashed_messages()).size() == 1);
  CHECK(must(store->trashed_messages())[0].id == c);
  must(store->restore_message(c));
  CHECK(shown_texts(must(store->load(id))) == Texts{"a", "b", "c"});
  CHECK(must(store->trashed_messages()).empty());
  must(store->move_message_to_trash(b));
  CHECK(must(store->empty_trash(1'000'000)) == 0);
  CHECK(store->restore_message(b).code() == StatusCode::not_found);
  CHECK(shown_texts(must(store->load(id))) == Texts{"a"});
}

TEST_CASE_FIXTURE(Fixture, "an empty answer is deleted for good, and nothing else is") {
  const Id id = must(store->create(titled("t"))).id;
  const Id question = must(store->add(id, from_user(0, ""))).id;
  const Id old = must(store->add(id, from_assistant(question, "old"))).id;
  NewMessage writing = from_assistant(question, "");
  writing.state = State::writing;
  const Id grows = must(store->add(id, writing)).id;
  must(store->append(grows, "a piece", ""));
  NewMessage thinks = from_assistant(question, "");
  thinks.reasoning = "hm";
  NewMessage calls = from_assistant(question, "");
  calls.tool_calls = {{"id", "name", "{}", ""}};
  const Id thought = must(store->add(id, thinks)).id;
  const Id called = must(store->add(id, calls)).id;
  const Id followed = must(store->add(id, from_assistant(question, ""))).id;
  must(store->add(id, from_user(followed, "and then?")));
  const Id empty = must(store->add(id, from_assistant(question, ""))).id;
  CHECK(shown_texts(must(store->load(id))) == Texts{"", ""});
  for (const Id message : {question, old, grows, thought, called, followed, empty, Id{99}}) {
    must(store->delete_if_empty(message));
  }
  CHECK(must(store->trashed_messages()).empty());
  CHECK(store->restore_message(empty).code() == StatusCode::not_found);
  const Tree tree = must(store->load(id));
  CHECK(tree.siblings(old) == std::vector<Id>{old, grows, thought, called, followed});
  CHECK(shown_texts(tree) == Texts{"", "", "and then?"});
}

TEST_CASE_FIXTURE(Fixture, "presets are kept by name") {
  must(store->save_preset({"b", "system", R"({"temperature":1})"}));
  must(store->save_preset({"a", "", "{}"}));
  must(store->save_preset({"b", "changed", "{}"}));
  reopen();
  const std::vector<Preset> expected = {{"a", "", "{}"}, {"b", "changed", "{}"}};
  CHECK(must(store->presets()) == expected);
  must(store->delete_preset("a"));
  CHECK(store->delete_preset("a").code() == StatusCode::not_found);
  CHECK(store->save_preset({"", "", "{}"}).code() == StatusCode::invalid_argument);
}

TEST_CASE_FIXTURE(Fixture, "unknown ids and wrong settings are typed errors that change nothing") {
  const Id id = must(store->create(titled("t"))).id;
  const Id other = must(store->create(titled("u"))).id;
  const Id message = must(store->add(other, from_user(0, "m"))).id;
  for (const Status& failed :
       {store->rename(99, "x"), store->set_pinned(99, true), store->move_to_trash(99),
        store->restore(99), store->configure(99, "", "{}", ""), store->select(99),
        store->append(99, "x", ""), store->finish(99, {}), store->resume(99),
        store->move_message_to_trash(99), store->restore_message(99),
        store->add(99, from_user(0, "x")).error(), store->add(id, from_user(99, "x")).error(),
        store->add(id, from_user(message, "x")).error(), store->edit(99, "x").error(),
        store->regenerate(99, "x").error(), store->load(99).error(),
        store->conversation(99).error()}) {
    CHECK(failed.code() == StatusCode::not_found);
    CHECK(failed.message().starts_with(path));
  }
  for (const char* settings : {"", "[]", "1", "{", "{\"a\":}", "nul"}) {
    CHECK(store->configure(id, "", settings, "").code() == StatusCode::invalid_argument);
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  CHECK(store->configure(id, "", deep, "").code() == StatusCode::invalid_argument);
  CHECK(must(store->list()).size() == 2);
  CHECK(must(store->load(id)).messages().empty());
}

TEST_CASE_FIXTURE(Fixture, "bytes that are not UTF-8 become replacement characters") {
  const Id id = must(store->create(titled("\xff title"))).id;
  const Message made = must(store->add(id, from_user(0, "a\xc3(\xed\xa0\x80\xf0\x9f\x98\x80")));
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(made.text == "a" + bad + "(" + bad + bad + bad + "😀");
  CHECK(must(store->load(id)).messages()[0].text == made.text);
  CHECK(must(store->list())[0].title == bad + " title");
  must(store->rename(id, std::string(999, 'a') + "é"));
  CHECK(must(store->list())[0].title == std::string(999, 'a'));
}

TEST_CASE_FIXTURE(Fixture, "a text above the limit is refused") {
  const Id id = must(store->create(titled("t"))).id;
  const std::string large(65 << 20, 'a');
  CHECK(store->add(id, from_user(0, large)).error().code() == StatusCode::invalid_argument);
  CHECK(must(store->load(id)).messages().empty());
}

TEST_CASE_FIXTURE(Fixture, "an answer above the limit of a text is kept in pieces") {
  const Id id = must(store->create(titled("t"))).id;
  NewMessage wanted = from_assistant(0, "");
  wanted.state = State::writing;
  const Id answer = must(store->add(id, wanted)).id;
  const std::string half(33 << 20, 'a');
  must(store->append(answer, half, ""));
  must(store->append(answer, half, ""));
  must(store->finish(answer, {}));
  reopen();
  const Message read = *must(store->load(id)).find(answer);
  CHECK(read.text.size() == 2 * half.size());
  CHECK(read.state == State::complete);
}

TEST_CASE_FIXTURE(Fixture, "calls together are kept together, without those that failed") {
  const Id id = must(store->create(titled("t"))).id;
  const Time used = must(store->conversation(id)).used_at;
  must(store->together([&]() -> Status {
    CHECK_FALSE(store->add(id, from_user(99, "x")).has_value());
    return store->rename(id, "u");
  }));
  CHECK(must(store->conversation(id)).title == "u");
  CHECK(must(store->conversation(id)).used_at == used);
  const Status failed = store->together([&]() -> Status {
    must(store->rename(id, "v"));
    must(store->add(id, from_user(0, "x")));
    return {StatusCode::cancelled, "no"};
  });
  CHECK(failed.code() == StatusCode::cancelled);
  CHECK(must(store->conversation(id)).title == "u");
  CHECK(must(store->load(id)).messages().empty());
  CHECK(must(store->search("x")).empty());
}

TEST_CASE_FIXTURE(Fixture, "a chain of 100,000 messages works") {
  constexpr Id kCount = 100'000;
  ImportedConversation imported;
  for (Id i = 1; i <= kCount; ++i) {
    Message message;
    message.id = i;
    message.parent = i - 1;
    message.text = "x";
    imported.messages.push_back(message);
  }
  const Id id = must(store->add_imported(imported));
  const Tree tree = must(store->load(id));
  CHECK(tree.shown().size() == kCount);
  const Id first = tree.messages().front().id;
  CHECK(tree.path_to(tree.messages().back().id).size() == kCount);
  must(store->move_message_to_trash(first));
  CHECK(must(store->load(id)).messages().empty());
  must(store->restore_message(first));
  CHECK(must(store->load(id)).messages().size() == kCount);
  must(store->move_to_trash(id));
  CHECK(must(store->empty_trash(1'000'000'000)) == 1);
}

TEST_CASE_FIXTURE(Fixture, "times grow even if the clock is set back") {
  const Id first = must(store->create(titled("first"))).id;
  time = 500;
  const Id second = must(store->create(titled("second"))).id;
  CHECK(must(store->list()).front().id == second);
  CHECK(must(store->conversation(second)).used_at > must(store->conversation(first)).used_at);
}

TEST_CASE_FIXTURE(Fixture, "only the user can read the files") {
  must(store->create(titled("t")));
  for (const char* end : {"", "-wal", "-shm", ".lock"}) {
    struct stat status = {};
    REQUIRE(stat((path + end).c_str(), &status) == 0);
    CHECK_MESSAGE((status.st_mode & 0777) == 0600, end);
  }
}

TEST_CASE_FIXTURE(Fixture, "imported messages have to be a tree") {
  ImportedConversation imported;
  imported.messages.resize(2);
  imported.messages[0].id = 1;
  imported.messages[1].id = 2;
  for (const Id parent : {Id{2}, Id{3}, Id{-1}}) {
    imported.messages[1].parent = parent;
    CHECK(store->add_imported(imported).error().code() == StatusCode::invalid_argument);
  }
  CHECK(must(store->list()).empty());
}

TEST_CASE("a tree of doubtful messages has no cycles") {
  std::vector<Message> messages(4);
  for (Id i = 0; i < 4; ++i) messages[static_cast<size_t>(i)].id = i + 1;
  messages[0].parent = 2;  // a later one
  messages[1].parent = 1;
  messages[2].parent = 77;  // none
  messages[3].parent = 4;   // itself
  messages[1].selected_child = 1;
  const Tree tree({}, messages);
  CHECK(tree.children(0) == std::vector<Id>{1, 3, 4});
  CHECK(tree.children(1) == std::vector<Id>{2});
  CHECK(tree.shown() == std::vector<Id>{4});
}

}  // namespace
}  // namespace infer::conversations::test
