// The C API: forks, what an engine does, who is taken, what generated text means.
#include <cmath>
#include <cstring>

#include "tests/api/c_model.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("C: a fork generates what the session would") {
  infer_engine* engine = load_c();
  infer_session *session = nullptr, *copy = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  CHECK(infer_session_fork(nullptr, &copy) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_fork(session, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(copy == nullptr);
  const infer_generate_options options = generate_c(12);
  Seen first, one, two;
  REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &options, on_token, &first) ==
          INFER_OK);
  REQUIRE(infer_session_fork(session, &copy) == INFER_OK);
  CHECK(infer_session_length(copy) == infer_session_length(session));
  REQUIRE(infer_generate(session, nullptr, 0, &options, on_token, &one) == INFER_OK);
  infer_session_free(session);
  infer_engine_free(engine);  // lives on in the copy
  REQUIRE(infer_generate(copy, nullptr, 0, &options, on_token, &two) == INFER_OK);
  CHECK(one.tokens.size() == 12);
  CHECK(one.tokens == two.tokens);
  infer_session_free(copy);
}

TEST_CASE("C: what an engine does: counts, histograms, devices") {
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  const infer_generate_options options = generate_c(12);
  REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &options, nullptr, nullptr) ==
          INFER_OK);
  infer_engine_counts counts;
  REQUIRE(infer_engine_statistics(engine, &counts, sizeof(counts)) == INFER_OK);
  CHECK(counts.sessions == 1);
  CHECK(counts.prompt_tokens == static_cast<int64_t>(kPrompt.size()));
  CHECK(counts.generated_tokens == 12);
  CHECK(counts.steps == 12);
  CHECK(counts.pages_idle == 1);
  CHECK(counts.pages_total ==
        counts.pages_running + counts.pages_idle + counts.pages_kept + counts.pages_free);
  CHECK(infer_engine_statistics(nullptr, &counts, sizeof(counts)) == INFER_INVALID_ARGUMENT);
  CHECK(infer_engine_statistics(engine, nullptr, 0) == INFER_INVALID_ARGUMENT);

  size_t size = 0;
  double sum = 0;
  REQUIRE(infer_engine_histogram(engine, INFER_STEP_ROWS, nullptr, nullptr, 0, &size, &sum) ==
          INFER_OK);
  CHECK(sum == static_cast<double>(kPrompt.size()) + 11);
  std::vector<double> bounds(size);
  std::vector<int64_t> values(size);
  for (const int32_t which :
       {INFER_STEP_ROWS, INFER_FIRST_TOKEN_SECONDS, INFER_NEXT_TOKEN_SECONDS}) {
    REQUIRE(infer_engine_histogram(engine, which, nullptr, nullptr, 0, &size, &sum) == INFER_OK);
    bounds.resize(size);
    values.resize(size);
    REQUIRE(infer_engine_histogram(engine, which, bounds.data(), values.data(), size, &size,
                                   &sum) == INFER_OK);
    CHECK(std::isinf(bounds.back()));
    const int64_t expected[] = {12, 1, 11};
    CHECK(values.back() == expected[which]);
  }
  CHECK(infer_engine_histogram(engine, 3, nullptr, nullptr, 0, &size, &sum) ==
        INFER_INVALID_ARGUMENT);
  CHECK(infer_engine_histogram(engine, 0, nullptr, nullptr, 1, &size, &sum) ==
        INFER_INVALID_ARGUMENT);

  infer_device_list* list = nullptr;
  REQUIRE(infer_engine_device_list_create(engine, &list) == INFER_OK);
  REQUIRE(infer_device_list_size(list) == 1);
  const infer_device* device = infer_device_list_get(list, 0);
  infer_memory memory;
  REQUIRE(infer_engine_memory(engine, &memory, sizeof(memory)) == INFER_OK);
  CHECK(std::string(device->name) == "cpu");
  CHECK(device->kv == memory.kv);
  CHECK(device->weights == memory.weights);
  CHECK(device->other == memory.host + memory.process);
  infer_device_list_free(list);
  infer_session_free(session);
  infer_engine_free(engine);
}

TEST_CASE("C: calls beyond those that may wait are refused, sessions are bounded") {
  infer_load_options load;
  infer_load_options_init(&load, sizeof(load));
  CHECK(load.max_waiting == -1);
  load.context = 512;
  load.threads = 1;
  load.parallel = 1;
  load.max_waiting = 0;
  infer_engine* engine = nullptr;
  REQUIRE(infer_engine_load(kModel.c_str(), &load, &engine) == INFER_OK);
  infer_session_options bound;
  infer_session_options_init(&bound, sizeof(bound));
  CHECK(bound.context == 0);
  bound.context = 100;
  infer_session *first = nullptr, *second = nullptr;
  REQUIRE(infer_session_open_with(engine, &bound, &first) == INFER_OK);
  REQUIRE(infer_session_open_with(engine, nullptr, &second) == INFER_OK);
  CHECK(infer_session_room(first) == 100);
  CHECK(infer_session_room(second) == 512);
  infer_generate_options options = generate_c(60);
  options.priority = 2;
  REQUIRE(infer_session_start(first, kPrompt.data(), kPrompt.size(), &options, nullptr, nullptr) ==
          INFER_OK);
  // It stops at 32 tokens that nobody takes.
  CHECK(infer_generate(second, kPrompt.data(), kPrompt.size(), &options, nullptr, nullptr) ==
        INFER_BUSY);
  CHECK(std::string(infer_status_name(INFER_BUSY)) == "busy");
  CHECK(std::string(infer_last_error()).find("busy") != std::string::npos);
  infer_session_free(first);
  CHECK(infer_generate(second, kPrompt.data(), kPrompt.size(), &options, nullptr, nullptr) ==
        INFER_OK);
  infer_engine_counts counts;
  REQUIRE(infer_engine_statistics(engine, &counts, sizeof(counts)) == INFER_OK);
  CHECK(counts.calls_refused == 1);
  bound.context = -1;
  infer_session* none = nullptr;
  CHECK(infer_session_open_with(engine, &bound, &none) == INFER_INVALID_ARGUMENT);
  bound.struct_size = 0;
  CHECK(infer_session_open_with(engine, &bound, &none) == INFER_INVALID_ARGUMENT);
  CHECK(none == nullptr);
  infer_session_free(second);
  infer_engine_free(engine);
}

TEST_CASE("C: generated text is split into reasoning, content and calls of tools") {
  const std::string source =
      "{{ '<think>' }}{% if tools %}<tool_call>{{ '{\"name\": 1, \"arguments\": 2}' "
      "}}</tool_call>{% endif %}";
  const std::string text =
      "<think>Look it up.</think>One moment.<tool_call>{\"name\": \"find\", \"arguments\": "
      "{\"word\": \"x\"}}</tool_call>";
  const auto expected = [&] {
    auto parser = OutputParser::create(source, "").value();
    std::vector<OutputEvent> all = parser->push(text).value();
    std::vector<OutputEvent> last = parser->finish().value();
    for (OutputEvent& event : last) all.push_back(std::move(event));
    return all;
  }();
  REQUIRE(expected.size() >= 3);
  for (const size_t step : {text.size(), size_t{1}, size_t{7}}) {
    CAPTURE(step);
    infer_output_parser* parser = nullptr;
    REQUIRE(infer_output_parser_create(source.data(), source.size(), "", 0, &parser) == INFER_OK);
    CHECK(std::string(infer_output_parser_format(parser)) == "hermes");
    std::string words[2];
    std::vector<ToolCall> calls;
    const auto take = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) {
        const infer_output_event* e = infer_output_parser_event(parser, i);
        REQUIRE(e != nullptr);
        if (e->kind == INFER_OUTPUT_TOOL_CALL) {
          calls.push_back({e->call_id, e->call_name, e->call_arguments});
        } else {
          CHECK(std::strlen(e->text) == e->text_length);
          words[e->kind] += e->text;
        }
      }
      CHECK(infer_output_parser_event(parser, count) == nullptr);
    };
    size_t count = 0;
    for (size_t at = 0; at < text.size(); at += step) {
      const size_t length = std::min(step, text.size() - at);
      REQUIRE(infer_output_parser_push(parser, text.data() + at, length, &count) == INFER_OK);
      take(count);
    }
    REQUIRE(infer_output_parser_finish(parser, &count) == INFER_OK);
    take(count);
    std::string known[2];
    for (const OutputEvent& event : expected) {
      if (event.kind != OutputEvent::Kind::tool_call) {
        known[static_cast<size_t>(event.kind)] += event.text;
      }
    }
    CHECK(words[INFER_OUTPUT_REASONING] == known[0]);
    CHECK(words[INFER_OUTPUT_CONTENT] == known[1]);
    CHECK(words[INFER_OUTPUT_CONTENT] == "One moment.");
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].name == "find");
    CHECK(calls[0].arguments == expected.back().call.arguments);
    // The text has ended.
    CHECK(infer_output_parser_push(parser, "x", 1, &count) == INFER_INVALID_ARGUMENT);
    CHECK(infer_output_parser_finish(parser, &count) == INFER_INVALID_ARGUMENT);
    infer_output_parser_free(parser);
  }
  infer_output_parser* parser = nullptr;
  size_t count = 0;
  CHECK(infer_output_parser_create(nullptr, 5, "", 0, &parser) == INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_create("", 0, nullptr, 5, &parser) == INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_create("", 0, "", 0, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_create_with_tools("", 0, "", 0, nullptr, 5, &parser) ==
        INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_create_with_tools("", 0, "", 0, "{}", 2, &parser) ==
        INFER_INVALID_ARGUMENT);
  CHECK(parser == nullptr);
  REQUIRE(infer_output_parser_create(nullptr, 0, nullptr, 0, &parser) == INFER_OK);
  CHECK(std::string(infer_output_parser_format(parser)) == "plain");
  CHECK(infer_output_parser_push(nullptr, "x", 1, &count) == INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_push(parser, nullptr, 1, &count) == INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_push(parser, "x", 1, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_output_parser_event(nullptr, 0) == nullptr);
  CHECK(std::string(infer_output_parser_format(nullptr)).empty());
  infer_output_parser_free(parser);
  infer_output_parser_free(nullptr);
}
