// Answers: as the conversation gives them, at once, stopped at any moment, continued.
#include <doctest.h>

#include <nlohmann/json.hpp>

#include "chat/conversation.h"
#include "gui/host/engine_host.h"
#include "tests/gui_host/pump.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

constexpr const char* kQuestion = "What is the capital of France?";

struct Expected {
  std::string text;
  int64_t prompt_tokens = 0;
};

/// What chat::Conversation answers by itself.
Expected expected(const std::string& question, const GenerateOptions& options) {
  LoadOptions load;
  load.threads = 1;
  load.context = 512;
  const auto engine = Engine::load(demo::model_path(), load);
  REQUIRE(engine.has_value());
  auto conversation = chat::Conversation::open(**engine, "", chat::Json::object());
  REQUIRE(conversation.has_value());
  (*conversation)->messages() = {{{"role", "user"}, {"content", question}}};
  const auto answer = (*conversation)->answer(options, {});
  REQUIRE(answer.has_value());
  return {answer->content, answer->result.prompt_tokens};
}

}  // namespace

TEST_CASE("an answer is that of the conversation, with its numbers") {
  const Expected own = expected(kQuestion, greedy(40));
  REQUIRE(!own.text.empty());
  Pump pump;
  pump.load(demo::model_path());
  pump.host.answer(asked(7, kQuestion, greedy(40)));
  const AnswerEnded ended = pump.wait_for<AnswerEnded>();
  CHECK(ended.conversation == 7);
  CHECK(ended.status.ok());
  CHECK(pump.content(7) == own.text);
  CHECK(ended.result.prompt_tokens == own.prompt_tokens);
  CHECK(ended.result.generated_tokens > 0);
  CHECK(ended.context == 512);
  CHECK(ended.context_used >= ended.result.prompt_tokens + ended.result.generated_tokens - 1);
  const auto statistics = pump.host.statistics();
  REQUIRE(statistics.has_value());
  CHECK(statistics->generated_tokens >= ended.result.generated_tokens);
  // The next turn computes what is new alone.
  AnswerRequest next = asked(7, kQuestion, greedy(5));
  next.messages.push_back({"assistant", own.text});
  next.messages.push_back({"user", "And of Spain?"});
  pump.host.answer(next);
  const AnswerEnded second = pump.wait_for<AnswerEnded>();
  CHECK(second.status.ok());
  const int64_t held = second.context_used - second.result.generated_tokens;
  CHECK(held - second.result.prompt_tokens >= own.prompt_tokens);
  // A conversation that is forgotten begins anew and says the same.
  pump.host.forget(7);
  pump.seen.clear();
  pump.taken = 0;
  pump.host.answer(asked(7, kQuestion, greedy(40)));
  CHECK(pump.wait_for<AnswerEnded>().status.ok());
  CHECK(pump.content(7) == own.text);
}

TEST_CASE("conversations are answered at once, each as if alone") {
  const Expected own = expected(kQuestion, greedy(40));
  Pump pump;
  pump.load(demo::model_path(), 2048);
  constexpr int64_t kAtOnce = 12;  // more than are kept open
  for (int64_t i = 0; i < kAtOnce; ++i) pump.host.answer(asked(i, kQuestion, greedy(40)));
  for (int64_t i = 0; i < kAtOnce; ++i) CHECK(pump.wait_for<AnswerEnded>().status.ok());
  for (int64_t i = 0; i < kAtOnce; ++i) CHECK(pump.content(i) == own.text);
}

TEST_CASE("text that nobody takes becomes one event") {
  Pump pump;
  pump.load(demo::model_path());
  GenerateOptions options = greedy(100);
  options.ignore_end = true;
  pump.host.answer(asked(1, kQuestion, options));
  REQUIRE(eventually([&] {
    const auto statistics = pump.host.statistics();
    return statistics->generated_tokens >= 100 && statistics->calls_running == 0;
  }));
  pump.wait_for<AnswerEnded>();
  CHECK(pump.count<AnswerPart>() >= 1);
  CHECK(pump.count<AnswerPart>() <= 3);
}

TEST_CASE("an answer can be stopped at any moment") {
  Pump pump;
  pump.load(demo::model_path(), 1024);
  std::string words;
  for (int i = 0; i < 600; ++i) words += "word ";
  GenerateOptions constrained = endless();
  // So many strings that none of the answers ends before it is stopped.
  constrained.json_schema =
      R"({"type":"array","minItems":100,"items":{"type":"string","maxLength":200}})";
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    // While the template is rendered, while a long prompt is computed, while a schema is compiled.
    const bool is_long = round % 3 == 1;
    pump.host.answer(asked(1, is_long ? words + std::to_string(round) : "Hello",
                           round % 3 == 2 ? constrained : endless()));
    if (round % 4 == 3) std::this_thread::sleep_for(std::chrono::milliseconds(round / 4));
    pump.host.stop(1);
    const AnswerEnded ended = pump.wait_for<AnswerEnded>();
    CHECK_MESSAGE(ended.status.ok(), ended.status.message());
    CHECK(ended.result.reason == FinishReason::cancelled);
  }
  pump.host.stop(1);  // nothing runs
  pump.host.stop(2);  // nobody
  pump.host.answer(asked(1, "Hello", greedy(3)));
  CHECK(pump.wait_for<AnswerEnded>().result.reason != FinishReason::cancelled);
}

TEST_CASE("what was stopped goes on as if it had not been") {
  const Expected own = expected(kQuestion, greedy(40));
  Pump pump;
  pump.load(demo::model_path());
  for (const bool same_session : {true, false}) {
    CAPTURE(same_session);
    pump.seen.clear();
    pump.taken = 0;
    pump.host.answer(asked(1, kQuestion, greedy(4)));
    REQUIRE(pump.wait_for<AnswerEnded>().status.ok());
    const std::string begin = pump.content(1);
    REQUIRE(!begin.empty());
    REQUIRE(own.text.starts_with(begin));
    if (!same_session) pump.host.forget(1);
    AnswerRequest more = asked(1, kQuestion, greedy(36));
    more.messages.push_back({"assistant", begin});
    more.continues = true;
    pump.host.answer(more);
    REQUIRE(pump.wait_for<AnswerEnded>().status.ok());
    CHECK(pump.content(1) == own.text);
  }
}

TEST_CASE("what cannot be continued says why") {
  Pump pump;
  pump.load(demo::model_path());
  AnswerRequest request = asked(1, kQuestion, greedy(4));
  request.continues = true;
  pump.host.answer(request);
  CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::invalid_argument);
  request.messages.push_back({"assistant", "", "Let me think"});
  pump.host.answer(request);
  CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::unsupported);
  // A template that shows something else than the text.
  request.messages.back() = {"assistant", "Paris"};
  request.form.chat_template = "{% for m in messages %}{{ m.content | upper }}{% endfor %}";
  pump.host.answer(request);
  CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::unsupported);
  // Nothing was said yet: the same as no answer.
  request.form = {};
  request.messages.back() = {"assistant", ""};
  pump.host.answer(request);
  CHECK(pump.wait_for<AnswerEnded>().status.ok());
}

TEST_CASE("a request that is wrong ends with what to do") {
  Pump pump;
  pump.host.answer(asked(1, kQuestion, greedy(1)));
  const AnswerEnded without = pump.wait_for<AnswerEnded>();
  CHECK(without.status.code() == StatusCode::invalid_argument);
  CHECK(without.status.message().find("open one") != std::string::npos);
  pump.load(demo::model_path());
  AnswerRequest request = asked(1, kQuestion, greedy(1));
  for (const std::string& tools :
       {std::string("{}"), std::string("["), std::string("\xff"), std::string(100'000, '[')}) {
    request.form.tools = tools;
    pump.host.answer(request);
    CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::invalid_argument);
  }
  request.form = {};
  request.form.variables = "[]";
  pump.host.answer(request);
  CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::invalid_argument);
  request.form = {};
  request.form.chat_template = "{% for %}";
  pump.host.answer(request);
  CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::bad_file);
  request.form.chat_template = "chatmlx";
  pump.host.answer(request);
  const AnswerEnded unknown = pump.wait_for<AnswerEnded>();
  CHECK(unknown.status.code() == StatusCode::invalid_argument);
  CHECK(unknown.status.message().find("chat template: 'chatmlx'") != std::string::npos);
  request.form = {};
  request.options.grammar = "root ::= (";
  pump.host.answer(request);
  CHECK(!pump.wait_for<AnswerEnded>().status.ok());
  // A model that has no template.
  {
    Pump other;
    other.load(kSmall);
    other.host.answer(asked(1, kQuestion, greedy(1)));
    const AnswerEnded none = other.wait_for<AnswerEnded>();
    CHECK(none.status.code() == StatusCode::bad_file);
    CHECK(none.status.message().find("no chat template") != std::string::npos);
    AnswerRequest named = asked(1, kQuestion, greedy(1));
    named.form.chat_template = "chatml";
    other.host.answer(named);
    CHECK(other.wait_for<AnswerEnded>().status.ok());
  }
  // One answer of a conversation at a time.
  pump.host.answer(asked(1, kQuestion, endless()));
  pump.host.answer(asked(1, kQuestion, endless()));
  CHECK(pump.wait_for<AnswerEnded>().status.code() == StatusCode::busy);
  pump.host.stop_all();
  CHECK(pump.wait_for<AnswerEnded>().result.reason == FinishReason::cancelled);
}

TEST_CASE("a full context is told by what fills it") {
  Pump pump;
  pump.load(demo::model_path(), 128);
  std::string words;
  for (int i = 0; i < 300; ++i) words += "word ";
  pump.host.answer(asked(1, words, greedy(1)));
  AnswerEnded ended = pump.wait_for<AnswerEnded>();
  CHECK(ended.status.code() == StatusCode::does_not_fit);
  CHECK(ended.full == AnswerEnded::Full::last_message);
  AnswerRequest request = asked(1, words, greedy(1));
  request.messages.push_back({"assistant", "Yes."});
  request.messages.push_back({"user", "Really?"});
  pump.host.answer(request);
  ended = pump.wait_for<AnswerEnded>();
  CHECK(ended.status.code() == StatusCode::does_not_fit);
  CHECK(ended.full == AnswerEnded::Full::messages);
  // The choice to leave out the oldest messages.
  request.options.overflow = ContextOverflow::shift;
  pump.host.answer(request);
  ended = pump.wait_for<AnswerEnded>();
  CHECK(ended.status.ok());
  CHECK(ended.dropped_messages == 2);
}

TEST_CASE("tools and their calls reach the template") {
  Pump pump;
  pump.load(demo::model_path());
  AnswerRequest request = asked(1, kQuestion, greedy(1));
  request.form.chat_template =
      "{% if tools[0].name != 'f' %}{{ raise_exception('no tool') }}{% endif %}"
      "{% if messages[1].tool_calls[0].function.arguments.x != 3 %}"
      "{{ raise_exception('no call') }}{% endif %}"
      "{% if messages[2].tool_call_id != 'c' %}{{ raise_exception('no id') }}{% endif %}"
      "{% if more != 4 %}{{ raise_exception('no variable') }}{% endif %}Say.";
  request.form.tools = R"([{"name":"f"}])";
  request.form.variables = R"({"more":4})";
  Message call{"assistant", ""};
  call.calls.push_back({"c", "f", R"({"x":3})"});
  Message result{"tool", "9"};
  result.call_id = "c";
  request.messages.push_back(call);
  request.messages.push_back(result);
  pump.host.answer(request);
  const AnswerEnded ended = pump.wait_for<AnswerEnded>();
  CHECK_MESSAGE(ended.status.ok(), ended.status.message());
}

TEST_CASE("tokens of a draft are counted with what the template adds") {
  const Expected own = expected(kQuestion, greedy(1));
  Pump pump;
  pump.host.count({1, {}, {}, "Hello"});
  CHECK(pump.wait_for<Counted>().status.code() == StatusCode::invalid_argument);
  pump.load(demo::model_path());
  for (int64_t i = 2; i < 100; ++i) pump.host.count({i, {}, {}, std::string(i * 10, 'x')});
  pump.host.count({100, {}, {}, kQuestion});
  REQUIRE(eventually([&] {
    pump.poll();
    const auto* const last = pump.seen.empty() ? nullptr : std::get_if<Counted>(&pump.seen.back());
    return last != nullptr && last->request == 100;
  }));
  const Counted counted = std::get<Counted>(pump.seen.back());
  CHECK(counted.status.ok());
  CHECK(counted.tokens == own.prompt_tokens);
  CHECK(counted.draft_tokens > 0);
  CHECK(counted.draft_tokens < counted.tokens);
  CHECK(counted.context == 512);
  pump.host.count({101, {}, {}, ""});
  const Counted none = pump.wait_for<Counted>();
  CHECK(none.status.ok());
}
