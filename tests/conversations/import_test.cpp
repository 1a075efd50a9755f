// The project's own format, ChatGPT's and LM Studio's: good files, bad files, hostile files.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "conversations/export.h"
#include "conversations/export_file.h"
#include "conversations/import.h"
#include "conversations/limits.h"
#include "tests/conversations/helpers.h"
#include "tests/conversations/import_examples.h"
#include "tests/hostile.h"

namespace infer::conversations::test {
namespace {

using Texts = std::vector<std::string>;

struct ImportFixture : Fixture {
  std::string file(const std::string& text) const {
    infer::test::write_bytes(folder.path("file.json"), infer::test::bytes_of(text));
    return folder.path("file.json");
  }
  std::string exported() const {
    std::ostringstream out;
    must(export_json(*store, {}, out));
    return out.str();
  }
  Tree only() const {
    const std::vector<Conversation> all = must(store->list());
    REQUIRE(all.size() == 1);
    return must(store->load(all[0].id));
  }
};

/// Reads without a store.
Result<ImportReport> read(const std::string& text,
                          std::vector<ImportedConversation>* all = nullptr) {
  std::istringstream in(text);
  ImportSink sink;
  sink.conversation = [&](const ImportedConversation& conversation) {
    if (all != nullptr) all->push_back(conversation);
    return Status();
  };
  return read_conversations(in, "file.json", sink);
}

TEST_CASE("half a character in a text becomes U+FFFD, and what is no file is refused") {
  std::vector<ImportedConversation> all;
  const auto titled_file = [](const std::string& title) {
    return R"({"format": "infer-conversations", "version": 1, "conversations": [{"title": ")" +
           title + R"(", "messages": []}]})";
  };
  for (const auto& [title, wanted] : std::vector<std::pair<std::string, std::string>>{
           {R"(g \ud83d)", "g \uFFFD"},
           {R"(\uDE00 g)", "\uFFFD g"},
           {R"(\ud83d\u0041)", "\uFFFDA"},
           {R"(\ud83d\ud83d\ude00)", "\uFFFD\U0001F600"},
           {R"(\\ud83d)", R"(\ud83d)"},
           {"a\xff\xfe z", "a\uFFFD\uFFFD z"}}) {
    all.clear();
    must(read(titled_file(title), &all));
    REQUIRE(all.size() == 1);
    CHECK(all[0].conversation.title == wanted);
  }
  CHECK_FALSE(read(titled_file(R"(\ud83)")));
  infer::test::TempDir folder;
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  const std::unique_ptr<Store> store = open_store(folder.path("c.db"));
  const Result<ImportReport> refused = import_file(*store, folder.path("pipe"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().ends_with("not a file"));
}

TEST_CASE_FIXTURE(ImportFixture, "our own format keeps everything, to the byte") {
  Conversation wanted = titled("Títle \"quoted\"\n🍎");
  wanted.system_prompt = "be\tbrief";
  wanted.settings =
      R"({"temperature":0.1,"n":12345678901234567890,"e":1e-7,"grammar":"root ::= [a-z]+"})";
  wanted.preset = "p";
  wanted.pinned = true;
  const Id id = must(store->create(wanted)).id;
  const Id question = must(store->add(id, from_user(0, std::string("q\0q", 3)))).id;
  NewMessage answer = from_assistant(question, "a");
  answer.reasoning = "r";
  answer.model = "m";
  answer.state = State::stopped;
  answer.tool_calls = {{"1", "f", "{\"x\": 1}", "result"}, {"", "g", "", ""}};
  answer.statistics = {1, 2, 0.1, 1e9 / 3, 2.5e-9};
  const Id first = must(store->add(id, answer)).id;
  must(store->add(id, from_user(first, "next")));
  must(store->regenerate(first, "m2"));
  must(store->select(first));
  must(store->edit(question, "edited"));
  must(store->select(question));
  must(store->create(titled("")));
  must(store->save_preset({"p", "system", R"({"top_k":1})"}));
  const std::string text = exported();

  ImportFixture other;
  must(other.store->create(titled("gone")));
  must(other.store->move_to_trash(1));
  const ImportReport report = must(import_file(*other.store, file(text)));
  CHECK(report.format == "infer");
  CHECK(report.conversations == 2);
  CHECK(report.messages == 5);
  CHECK(report.presets == 1);
  CHECK(other.exported() == text);
  const Tree tree = must(other.store->load(2));
  CHECK(shown_texts(tree) == Texts{std::string("q\0q", 3), "a", "next"});
  CHECK(tree.conversation().pinned);
  CHECK(tree.messages()[1].statistics == answer.statistics);
  CHECK(tree.messages()[1].tool_calls == answer.tool_calls);
  CHECK(must(other.store->search("edited")).size() == 1);

  std::ostringstream one;
  must(export_json(*store, {id}, one));
  CHECK(must(read(one.str())).conversations == 1);
  CHECK(export_json(*store, {99}, one).code() == StatusCode::not_found);
}

TEST_CASE_FIXTURE(ImportFixture, "random conversations survive export and import") {
  std::mt19937 random(5);
  for (int c = 0; c < 20; ++c) {
    const Id id = must(store->create(titled(std::to_string(c)))).id;
    std::vector<Id> ids = {0};
    for (int m = 0; m < 20; ++m) {
      std::string text;
      for (uint32_t i = random() % 20; i > 0; --i) text += static_cast<char>(random() % 128);
      NewMessage message = from_user(ids[random() % ids.size()], text);
      message.statistics.generate_rate = static_cast<double>(random()) / 7;
      ids.push_back(must(store->add(id, message)).id);
    }
    must(store->select(ids[1 + random() % 20]));
    must(store->move_message_to_trash(ids[1 + random() % 20]));
  }
  const std::string text = exported();
  ImportFixture other;
  must(import_file(*other.store, file(text)));
  CHECK(other.exported() == text);
}

TEST_CASE_FIXTURE(ImportFixture, "long conversations are imported message by message") {
  must(store->create(titled("short")));
  const Id id = must(store->create(titled("long"))).id;
  Id parent = 0;
  for (int i = 0; i < 5; ++i) {
    parent = must(store->add(id, from_user(parent, std::string(9 << 20, 'x')))).id;
  }
  ImportFixture other;
  const ImportReport report = must(import_file(*other.store, file(exported())));
  CHECK(report.conversations == 2);
  CHECK(report.messages == 5);
  // What could not be imported is not exported. Each character takes six as JSON.
  must(store->add(id, from_user(parent, std::string(6 << 20, '\1'))));
  std::ostringstream out;
  const Status refused = export_json(*store, {}, out);
  CHECK(refused.code() == StatusCode::unsupported);
  CHECK(refused.message().find("'long'") != std::string::npos);
}

TEST_CASE_FIXTURE(ImportFixture, "an export touches no file but its own") {
  must(store->create(titled("kept")));
  const std::string path = folder.path("out.json");
  infer::test::write_bytes(path + ".part", infer::test::bytes_of("notes"));
  must(export_file(*store, {}, path));
  CHECK(infer::test::read_text(path + ".part") == "notes");
  CHECK(infer::test::read_text(path) == exported());
  using std::filesystem::perms;
  CHECK(std::filesystem::status(path).permissions() == (perms::owner_read | perms::owner_write));
  CHECK(export_file(*store, {}, folder.path("none/out.json")).code() == StatusCode::io);
  // The old file stays, and nothing is left beside it.
  CHECK(export_file(*store, {12345}, path).code() != StatusCode::ok);
  CHECK(infer::test::read_text(path) == exported());
  int files = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder.path(""))) {
    files += each.path().filename().string().starts_with("out.json");
  }
  CHECK(files == 2);
}

TEST_CASE_FIXTURE(ImportFixture, "an export that cannot be written is a typed error") {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  CHECK(export_json(*store, {}, out).code() == StatusCode::io);
}

TEST_CASE_FIXTURE(ImportFixture,
                  "ChatGPT's export: the tree, thoughts, tools, hidden nodes, pictures") {
  const ImportReport report = must(import_file(*store, file(kChatGpt)));
  CHECK(report.format == "ChatGPT");
  const Tree tree = only();
  CHECK(tree.conversation().title == "Deploy");
  CHECK(tree.conversation().created_at == 1'712'345'678'500);
  CHECK(shown_texts(tree) == Texts{"[image]\n\nwhy does it fail", "", "retry"});
  const std::vector<Id> shown = tree.shown();
  const Message& call = *tree.find(shown[1]);
  REQUIRE(call.tool_calls.size() == 1);
  CHECK(call.tool_calls[0] == ToolCall{"", "python", "print(1)", "1"});
  CHECK(call.reasoning == "Looking\n\nI look at the log");
  CHECK(call.model == "gpt-x");
  CHECK(tree.find(shown[2])->created_at == 1'712'345'680'000);
  const std::vector<Id>& questions = tree.siblings(shown[0]);
  REQUIRE(questions.size() == 2);
  CHECK(tree.find(questions[0])->text == "first wording");
  CHECK(questions[1] == shown[0]);
  CHECK(report.messages == 4);
}

TEST_CASE("one conversation of ChatGPT outside of an array is read too") {
  const std::string array = kChatGpt;
  const size_t begin = array.find('{');
  std::vector<ImportedConversation> all;
  CHECK(must(read(array.substr(begin, array.rfind('}') + 1 - begin), &all)).format == "ChatGPT");
  CHECK(all.at(0).conversation.title == "Deploy");
}

TEST_CASE_FIXTURE(ImportFixture,
                  "LM Studio's file: versions, steps, thinking, tools, files, settings") {
  const ImportReport report = must(import_file(*store, file(kLmStudio)));
  CHECK(report.format == "LM Studio");
  const Tree tree = only();
  CHECK(tree.conversation().title == "Pictures");
  CHECK(tree.conversation().pinned);
  CHECK(tree.conversation().system_prompt == "be brief");
  CHECK(tree.conversation().settings == R"({"temperature":0.25,"top_p":0.9})");
  CHECK(tree.conversation().created_at == 1'724'000'000'000);
  CHECK(tree.conversation().used_at == 1'724'000'009'000);
  CHECK(shown_texts(tree) == Texts{"Describe\n[image: 17 - 431.png]\n", "A cat.", "thanks"});
  const Message& answer = *tree.find(tree.shown()[1]);
  CHECK(tree.siblings(answer.id).size() == 2);
  CHECK(tree.siblings(answer.id)[1] == answer.id);
  CHECK(tree.find(tree.siblings(answer.id)[0])->text == "A dog.");
  CHECK(tree.find(tree.siblings(answer.id)[0])->state == State::stopped);
  CHECK(answer.reasoning == "It has whiskers.");
  CHECK(answer.model == "qwen3-8b");
  CHECK(answer.tool_calls == std::vector<ToolCall>{{"7", "look", R"({"x":1})", "[\"fur\"]"}});
  CHECK(answer.statistics == Statistics{11, 22, 0, 33.5, 0.25});
  CHECK(report.messages == 4);
}

TEST_CASE_FIXTURE(ImportFixture, "a file with an error adds nothing and says where the error is") {
  struct Bad {
    std::string text, where, expected;
  };
  const std::string head = R"({"format":"infer-conversations","version":1,"conversations":[)";
  const std::string good = R"({"title":"t","messages":[]},)";
  const auto own = [&](const std::string& message) {
    return head + good + R"({"messages":[)" + message + "]}]}";
  };
  const Bad bad[] = {
      {"", "byte 0", "'['"},
      {"hello", "byte 0", "'['"},
      {"[1]", "[0]", "a JSON object"},
      {"[{}]", "[0].mapping", "an object with the messages"},
      {"[{\"mapping\":{}},", "byte", "a value"},
      {"[{\"mapping\":{}} {}]", "byte", "','"},
      {"[{\"mapping\":{}}] x", "byte", "the end of the file"},
      {"[{\"mapping\":{}", "byte", "the end of a value"},
      {"[{\"mapping\":[]}]", "[0].mapping", "an object, found array"},
      {R"([{"mapping":{"a":1}}])", "[0].mapping.a", "an object"},
      {R"([{"mapping":{"a":{"parent":"b"},"b":{"parent":"a"}}}])", "[0].mapping", "no cycles"},
      {R"([{"mapping":{"a":{"parent":"a"}}}])", "[0].mapping", "no cycles"},
      {R"([{"mapping":{},"create_time":"now"}])", "[0].create_time", "a number"},
      {R"([{"mapping":{},"create_time":1e300}])", "[0].create_time", "a time from 1970"},
      {R"([{"mapping":{},"title":["x"]}])", "[0].title", "a string, found array"},
      {R"([{"mapping":{"a":{"message":{"content":{"parts":[1]}}}}}])", "parts", "strings"},
      {"{}", "file.json", "a member 'format'"},
      {R"({"messages":5})", "messages", "an array, found number"},
      {R"({"messages":[{"versions":[],"currentlySelected":0}]})", "messages[0].currentlySelected",
       "the number of one of its 0 versions"},
      {R"({"messages":[{"versions":[{"role":"user"}],"currentlySelected":-1}]})",
       "messages[0].currentlySelected", "the number of one of its 1 versions"},
      {R"({"messages":[{"versions":[{}],"currentlySelected":0}]})", "messages[0].versions[0].role",
       "user"},
      {R"({"format":"other"})", "format", "\"infer-conversations\""},
      {R"({"format":"infer-conversations","conversations":[]})", "conversations", "'version'"},
      {R"({"format":"infer-conversations","version":"1"})", "version", "a number"},
      {own(R"({"id":2})"), "conversations[1].messages[0].id", "1: ids are"},
      {own(R"({"id":1,"role":"king","state":"complete"})"), "conversations[1].messages[0].role",
       "one of \"system\""},
      {own(R"({"id":1,"role":"user","state":"odd"})"), "conversations[1].messages[0].state",
       "one of \"complete\""},
      {own(R"({"id":1,"role":"user","state":"complete","parent":1})"),
       "conversations[1].messages[0].parent", "the id of a message, 1 to 0"},
      {own(R"({"id":1,"role":"user","state":"complete","selected_child":9})"),
       "conversations[1].messages[0].selected_child", "the id of a message, 1 to 1"},
      {own(R"({"id":1,"role":"user","state":"complete","created_at":1e30})"),
       "conversations[1].messages[0].created_at", "an integer"},
      {own(R"({"id":1,"role":"user","state":"complete","statistics":{"prompt_rate":"x"}})"),
       "statistics.prompt_rate", "a number"},
      {own("7"), "conversations[1].messages[0]", "a JSON object"},
      {head + R"({"settings":[]}]})", "conversations[0].settings", "an object"},
      {head + R"(],"presets":[{}]})", "presets[0].name", "a name"},
      {head + std::string(200, '[') + std::string(200, ']') + "]}", "conversations[0]",
       "a JSON object of at most 128 levels"},
      {head + "\"\xff\"]}", "conversations[0]", "a JSON object"},
      {"\xEF\xBB{}", "byte", "JSON"},
  };
  for (const Bad& each : bad) {
    CAPTURE(each.text);
    const Result<ImportReport> report = import_file(*store, file(each.text));
    REQUIRE_FALSE(report.has_value());
    const std::string& message = report.error().message();
    CHECK(report.error().code() == StatusCode::bad_file);
    CHECK_MESSAGE(message.starts_with(folder.path("file.json") + ": "), message);
    CHECK_MESSAGE(message.find(each.where) != std::string::npos, message);
    CHECK_MESSAGE(message.find("expected " + each.expected) != std::string::npos, message);
  }
  CHECK(must(store->list()).empty());
  CHECK(must(store->presets()).empty());
  const Status newer =
      import_file(*store, file(R"({"format":"infer-conversations","version":2})")).error();
  CHECK(newer.code() == StatusCode::unsupported);
  CHECK(import_file(*store, folder.path("none.json")).error().code() == StatusCode::not_found);
  CHECK(import_file(*store, folder.path("")).error().code() == StatusCode::io);
}

TEST_CASE_FIXTURE(ImportFixture, "presets that exist are not replaced by those of a file") {
  must(store->save_preset({"a", "mine", "{}"}));
  must(import_file(*store, file(R"({"format":"infer-conversations","version":1,"presets":[
    {"name":"a","system_prompt":"theirs"},{"name":"b","system_prompt":"new"}]})")));
  const std::vector<Preset> expected = {{"a", "mine", "{}"}, {"b", "new", "{}"}};
  CHECK(must(store->presets()) == expected);
}

TEST_CASE("a byte order mark and unknown members do not matter") {
  CHECK(must(read("\xEF\xBB\xBF[]")).conversations == 0);
  const std::string text = R"({"format":"infer-conversations","version":1,"new":{"a":[1,"]}"]},
    "conversations":[{"title":"t","more":1,"messages":[]}],"x":null,"y":-1.5e3})";
  CHECK(must(read(text)).conversations == 1);
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_CASE("hostile files are read or refused within stated time and memory") {
  std::string many_nodes = "[{\"mapping\":{", chain = many_nodes, thoughts = many_nodes;
  std::string calls =
      R"({"messages":[{"currentlySelected":0,"versions":[{"role":"assistant","content":[)";
  for (int i = 0; i < 60'000; ++i) {
    const std::string id = std::to_string(i), comma = i == 0 ? "" : ",";
    many_nodes += comma + "\"" + id + "\":{}";
    chain += comma + "\"" + id + R"(":{"parent":")" + std::to_string(i - 1) +
             R"(","message":{"author":{"role":"user"},"content":{"parts":["x"]}}})";
    calls += comma + R"({"type":"toolCallRequest","callId":)" + id + "}";
  }
  // One long text of thoughts before many answers: each must not get a copy.
  thoughts += R"("t":{"message":{"author":{"role":"assistant"},"content":{"content_type":"thoughts",
    "thoughts":[{"content":")" +
              std::string(4 << 20, 't') + "\"}]}}}";
  for (int i = 0; i < 20'000; ++i) {
    thoughts +=
        ",\"" + std::to_string(i) +
        R"(":{"parent":"t","message":{"author":{"role":"assistant"},"content":{"parts":["x"]}}})";
  }
  for (int i = 60'000; i-- > 0;)
    calls += R"(,{"type":"toolCallResult","content":"x","callId":)" + std::to_string(i) + "}";
  const std::string head = R"({"format":"infer-conversations","version":1,)";
  const infer::test::Hostile files[] = {
      {"many nodes", "", many_nodes + "}}]"},
      {"a long chain", "", chain + "}}]"},
      {"thoughts before many answers", "", thoughts + "}}]"},
      {"many calls", "", calls + "]}]}]}"},
      {"open arrays", "", std::string(2'000'000, '[')},
      {"open objects", "", repeated("{\"a\":", 500'000)},
      {"nested arrays in a value", "",
       "[" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "]"},
      {"a value without an end", "", "[\"" + std::string(40 << 20, 'x')},
      {"a member without an end", "", "{\"" + std::string(2'000'000, 'x')},
      {"small values", "", "[{\"mapping\":{},\"x\":[" + repeated("[],", 2'000'000) + "[]]}]"},
      {"many members", "", head + repeated("\"x\":1,", 500'000) + "\"y\":1}"},
      {"many conversations", "", head + "\"conversations\":[" + repeated("{},", 200'000) + "{}]}"},
      {"members of LM Studio", "", "{" + repeated("\"x\":[1],", 500'000) + "\"messages\":[]}"},
      {"spaces", "", std::string(5'000'000, ' ')},
  };
  for (const infer::test::Hostile& file : files) {
    infer::test::check_bounded(file, [&] {
      const Result<ImportReport> report = read(file.input);
      CHECK_MESSAGE((report || !report.error().message().empty()), file.name);
      if (!report) CHECK_MESSAGE(report.error().message().size() < 1'000, file.name);
    });
  }
}

TEST_CASE("every truncation and many changes of the examples end in a result or a typed error") {
  const std::string own =
      R"({"format":"infer-conversations","version":1,"conversations":[{"title":"t",
    "settings":{"a":1},"selected_root":1,"messages":[{"id":1,"role":"user","state":"complete","text":"q"},
    {"id":2,"parent":1,"role":"assistant","state":"stopped","text":"a","tool_calls":[{"name":"f"}],
    "statistics":{"prompt_rate":1.5}}]}],"presets":[{"name":"p"}]})";
  std::mt19937 random(9);
  for (const std::string& text : {own, std::string(kChatGpt), std::string(kLmStudio)}) {
    CHECK(read(text).has_value());
    const auto check = [&](const std::string& changed) {
      const Result<ImportReport> report = read(changed);
      if (!report) CHECK(report.error().message().starts_with("file.json: "));
    };
    for (size_t size = 0; size < text.size(); ++size) check(text.substr(0, size));
    for (int i = 0; i < 3'000; ++i) {
      std::string changed = text;
      for (uint32_t n = random() % 3 + 1; n > 0; --n) {
        constexpr std::string_view kBytes = "{}[]\",:0-19eE.ntf\\ \x00\xff\x7f";
        changed[random() % changed.size()] = kBytes[random() % kBytes.size()];
      }
      check(changed);
    }
  }
}

TEST_CASE_FIXTURE(ImportFixture, "Markdown has the messages that are shown") {
  Conversation wanted = titled("Two\nlines");
  wanted.system_prompt = "be brief";
  const Id id = must(store->create(wanted)).id;
  const Id question = must(store->add(id, from_user(0, "hidden"))).id;
  const Id edited = must(store->edit(question, "question")).id;
  NewMessage answer = from_assistant(edited, "answer");
  answer.reasoning = "thought";
  answer.model = "demo";
  answer.state = State::stopped;
  answer.tool_calls = {{"", "f", "```", "done"}};
  must(store->add(id, answer));
  CHECK(to_markdown(must(store->load(id))) ==
        "# Two lines\n\n## System\n\nbe brief\n\n## User\n\nquestion\n\n## Assistant · demo\n\n"
        "<details><summary>Reasoning</summary>\n\nthought\n\n</details>\n\nanswer\n\n"
        "Call of `f`:\n\n````json\n```\n````\n\nResult:\n\n```\ndone\n```\n\n*(stopped)*\n");
}

}  // namespace
}  // namespace infer::conversations::test
