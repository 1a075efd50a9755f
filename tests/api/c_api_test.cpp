// The C API: statuses, buffers, structures that grow, null pointers, ownership.
#include <atomic>
#include <cstring>

#include "infer/jobs.hpp"
#include "tests/api/c_model.h"

using namespace infer;
using namespace infer::test;

TEST_CASE("C: the same tokens as the C++ API, and statistics") {
  const auto expected = tokens_of(*open(*load()), kPrompt, sampled(12));
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  infer_engine_free(engine);  // lives on in the session

  const infer_generate_options options = generate_c(12);
  Seen seen;
  REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &options, on_token, &seen) ==
          INFER_OK);
  CHECK(seen.tokens == expected);
  infer_statistics statistics;
  REQUIRE(infer_session_statistics(session, &statistics, sizeof(statistics)) == INFER_OK);
  CHECK(statistics.generated_tokens == 12);
  CHECK(statistics.prompt_tokens == static_cast<int64_t>(kPrompt.size()));
  CHECK(statistics.finish_reason == INFER_FINISH_LENGTH);
  CHECK(statistics.seed == 7);
  CHECK(infer_session_length(session) == 16);
  CHECK(infer_session_room(session) > 0);

  REQUIRE(infer_session_truncate(session, 4) == INFER_OK);
  Seen few;
  few.stop_at = 2;
  REQUIRE(infer_generate(session, nullptr, 0, &options, on_token, &few) == INFER_OK);
  CHECK(few.tokens.size() == 2);
  REQUIRE(infer_session_statistics(session, &statistics, sizeof(statistics)) == INFER_OK);
  CHECK(statistics.finish_reason == INFER_FINISH_CANCELLED);
  infer_session_free(session);
}

TEST_CASE("C: tokens that end the text, and how many come before one may") {
  const auto plain = tokens_of(*open(*load()), kPrompt, sampled(12));
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  infer_engine_free(engine);
  const std::vector<int32_t> ends{plain[5], plain[8]};
  const infer_generate_options options = generate_c(12);
  CHECK(infer_session_set_ends(nullptr, 0, ends.data(), 2) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_set_ends(session, 0, nullptr, 2) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_set_ends(session, -1, ends.data(), 2) == INFER_INVALID_ARGUMENT);
  std::vector<std::vector<int32_t>> found;
  for (const int32_t least : {0, 7, 12}) {
    CAPTURE(least);
    GenerateOptions same = sampled(12);
    same.stop_tokens = ends;
    same.min_tokens = least;
    found.push_back(tokens_of(*open(*load()), kPrompt, same));
    CHECK(found.back().size() >= static_cast<size_t>(least));
    REQUIRE(infer_session_set_ends(session, least, ends.data(), ends.size()) == INFER_OK);
    Seen seen;
    REQUIRE(infer_session_truncate(session, 0) == INFER_OK);
    REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &options, on_token, &seen) ==
            INFER_OK);
    CHECK(seen.tokens == found.back());
  }
  CHECK(found[0].size() < 7);
  infer_session_free(session);
}

TEST_CASE("C: a generation that is started tells the same by events") {
  const auto expected = tokens_of(*open(*load()), kPrompt, sampled(12));
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  infer_engine_free(engine);
  infer_event event;
  int32_t taken = -1;
  CHECK(infer_session_next(session, 0, &event, sizeof(event), &taken) == INFER_INVALID_ARGUMENT);
  infer_generate_options options = generate_c(12);
  options.logprobs = 2;
  std::atomic<int> woken{0};
  const infer_event_fn wake = [](void* user) { ++*static_cast<std::atomic<int>*>(user); };
  REQUIRE(infer_session_start(session, kPrompt.data(), kPrompt.size(), &options, wake, &woken) ==
          INFER_OK);
  CHECK(infer_session_truncate(session, 0) == INFER_INVALID_ARGUMENT);
  std::vector<int32_t> tokens;
  for (;;) {
    REQUIRE(infer_session_next(session, 60, &event, sizeof(event), &taken) == INFER_OK);
    REQUIRE(taken == 1);
    if (event.finished != 0) break;
    CHECK(std::strlen(event.text) == event.text_length);
    if (event.token < 0) continue;
    tokens.push_back(event.token);
    REQUIRE(event.logprob_count == 3);
    CHECK(event.logprobs[0].token == event.token);
  }
  CHECK(tokens == expected);
  CHECK(event.status == INFER_OK);
  CHECK(event.message == std::string());
  CHECK(woken > 0);
  CHECK(infer_session_next(session, 0, &event, sizeof(event), &taken) == INFER_INVALID_ARGUMENT);

  options.grammar = "root ::= nothing";
  REQUIRE(infer_session_start(session, nullptr, 0, &options, nullptr, nullptr) == INFER_OK);
  REQUIRE(infer_session_next(session, 60, &event, sizeof(event), &taken) == INFER_OK);
  REQUIRE(taken == 1);
  CHECK(event.finished == 1);
  CHECK(event.status == INFER_INVALID_ARGUMENT);
  CHECK(std::strstr(event.message, "nothing") != nullptr);
  infer_session_free(session);
}

TEST_CASE("C: log-probabilities of a prompt, by the callback and by events") {
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  infer_engine_free(engine);
  std::vector<std::pair<int32_t, float>> expected;
  {
    const auto same = load();
    GenerateOptions plain = sampled(0);
    plain.prompt_logprobs = 2;
    plain.on_prompt_logprobs = [&](auto all) {
      expected.insert(expected.end(), all.begin(), all.end());
      return true;
    };
    REQUIRE(open(*same)->generate(kPrompt, plain, {}).has_value());
    REQUIRE(expected.size() == 3 * (kPrompt.size() - 1));
  }
  std::vector<std::pair<int32_t, float>> told;
  const infer_logprobs_fn tell = [](void* user, const infer_logprob* all, size_t count) {
    auto& to = *static_cast<std::vector<std::pair<int32_t, float>>*>(user);
    for (size_t i = 0; i < count; ++i) to.emplace_back(all[i].token, all[i].logprob);
    return 1;
  };
  CHECK(infer_session_set_prompt_logprobs(nullptr, 2, tell, &told) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_set_prompt_logprobs(session, -2, tell, &told) == INFER_INVALID_ARGUMENT);
  REQUIRE(infer_session_set_prompt_logprobs(session, 2, tell, &told) == INFER_OK);
  const infer_generate_options options = generate_c(4);
  Seen seen;
  REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &options, on_token, &seen) ==
          INFER_OK);
  CHECK(told == expected);
  CHECK(seen.tokens.size() == 4);

  REQUIRE(infer_session_truncate(session, 0) == INFER_OK);
  told.clear();
  REQUIRE(infer_session_start(session, kPrompt.data(), kPrompt.size(), &options, nullptr,
                              nullptr) == INFER_OK);
  std::vector<std::pair<int32_t, float>> events;
  std::vector<int32_t> tokens;
  for (infer_event event = {}; event.finished == 0;) {
    int32_t taken = 0;
    REQUIRE(infer_session_next(session, 60, &event, sizeof(event), &taken) == INFER_OK);
    REQUIRE(taken == 1);
    if (event.of_prompt == 0 && event.token >= 0) tokens.push_back(event.token);
    for (size_t i = 0; event.of_prompt != 0 && i < event.logprob_count; ++i) {
      events.emplace_back(event.logprobs[i].token, event.logprobs[i].logprob);
    }
  }
  CHECK(events == expected);
  CHECK(told.empty());
  CHECK(tokens == seen.tokens);
  infer_session_free(session);
}

TEST_CASE("C: null pointers are refused by name, never followed") {
  infer_memory memory;
  infer_session* session = nullptr;
  size_t count = 0;
  CHECK(infer_engine_load(nullptr, nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(std::string(infer_last_error()).find("path") != std::string::npos);
  CHECK(infer_engine_load(kModel.c_str(), nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_plan(nullptr, nullptr, &memory, sizeof(memory)) == INFER_INVALID_ARGUMENT);
  CHECK(infer_plan(kModel.c_str(), nullptr, nullptr, 0) == INFER_INVALID_ARGUMENT);
  CHECK(infer_description_create(nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_vocabulary_load(nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_tokenize(nullptr, "a", 1, 0, nullptr, 0, &count) == INFER_INVALID_ARGUMENT);
  CHECK(infer_detokenize(nullptr, nullptr, 0, nullptr, 0, &count) == INFER_INVALID_ARGUMENT);
  CHECK(infer_token_piece(nullptr, 0, nullptr, 0, &count) == INFER_INVALID_ARGUMENT);
  CHECK(infer_special(nullptr, nullptr, 0) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_open(nullptr, &session) == INFER_INVALID_ARGUMENT);
  CHECK(infer_generate(nullptr, nullptr, 0, nullptr, nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_evaluate(nullptr, nullptr, 0, nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_start(nullptr, nullptr, 0, nullptr, nullptr, nullptr) ==
        INFER_INVALID_ARGUMENT);
  CHECK(infer_session_next(nullptr, 0, nullptr, 0, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_truncate(nullptr, 0) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_statistics(nullptr, nullptr, 0) == INFER_INVALID_ARGUMENT);
  CHECK(infer_engine_memory(nullptr, &memory, sizeof(memory)) == INFER_INVALID_ARGUMENT);
  CHECK(infer_device_list_create(nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_set_log_level(17) == INFER_INVALID_ARGUMENT);
  CHECK(infer_engine_vocabulary(nullptr) == nullptr);
  CHECK(infer_engine_description(nullptr) == nullptr);
  CHECK(infer_description_model(nullptr) == nullptr);
  CHECK(infer_device_list_get(nullptr, 0) == nullptr);
  CHECK(infer_session_length(nullptr) == 0);
  CHECK(infer_session_room(nullptr) == 0);
  CHECK(infer_is_end_of_generation(nullptr, 0) == 0);
  infer_session_cancel(nullptr);
  infer_session_free(nullptr);
  infer_engine_free(nullptr);
  infer_vocabulary_free(nullptr);
  infer_description_free(nullptr);
  infer_device_list_free(nullptr);
  infer_load_options_init(nullptr, sizeof(infer_load_options));

  infer_engine* engine = load_c();
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  CHECK(infer_generate(session, nullptr, 3, nullptr, nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  const int32_t bad = -5;
  CHECK(infer_evaluate(session, &bad, 1, nullptr, nullptr) == INFER_INVALID_ARGUMENT);
  CHECK(infer_evaluate(session, kPrompt.data(), 2, nullptr, nullptr) == INFER_OK);
  CHECK(infer_session_length(session) == 2);
  infer_session_free(session);
  infer_engine_free(engine);
}

TEST_CASE("C: a draft model and other drafters change the statistics, not the tokens") {
  const auto expected = tokens_of(*open(*load()), kPrompt, sampled(40));
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  CHECK(options.draft_model == nullptr);
  CHECK(options.drafters == nullptr);
  options.context = 512;
  options.threads = 1;
  options.draft_model = kModel.c_str();
  options.drafters = "ngram;model";
  infer_memory memory;
  REQUIRE(infer_plan(kModel.c_str(), &options, &memory, sizeof(memory)) == INFER_OK);
  CHECK(memory.draft > 0);
  infer_engine* engine = nullptr;
  REQUIRE(infer_engine_load(kModel.c_str(), &options, &engine) == INFER_OK);
  REQUIRE(infer_engine_memory(engine, &memory, sizeof(memory)) == INFER_OK);
  CHECK(memory.draft > 0);

  infer_statistics statistics;
  const auto run = [&](int32_t draft_tokens) {
    infer_session* session = nullptr;
    REQUIRE(infer_session_open(engine, &session) == INFER_OK);
    infer_generate_options generate = generate_c(40);
    CHECK(generate.draft_tokens == -1);
    generate.draft_tokens = draft_tokens;
    Seen seen;
    REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &generate, on_token, &seen) ==
            INFER_OK);
    CHECK(seen.tokens == expected);
    REQUIRE(infer_session_statistics(session, &statistics, sizeof(statistics)) == INFER_OK);
    infer_session_free(session);
  };
  run(3);
  CHECK(statistics.drafted_tokens > 20);
  // The draft model is the model itself, and draws with the same noise.
  CHECK(statistics.accepted_tokens > statistics.drafted_tokens / 2);
  CHECK(statistics.draft_seconds > 0);
  run(0);
  CHECK(statistics.drafted_tokens == 0);
  CHECK(statistics.accepted_tokens == 0);
  run(-1);
  infer_engine_free(engine);

  engine = nullptr;
  options.drafters = "ngram;oracle";
  CHECK(infer_engine_load(kModel.c_str(), &options, &engine) == INFER_INVALID_ARGUMENT);
  CHECK(std::string(infer_last_error()).find("oracle") != std::string::npos);
  options.drafters = nullptr;
  options.draft_model = "a file that is not there";
  CHECK(infer_engine_load(kModel.c_str(), &options, &engine) == INFER_NOT_FOUND);
  CHECK(engine == nullptr);
}

TEST_CASE("C: what matrices are made while loading") {
  const TempDir dir;
  const std::string path = dir.path("m.gguf");
  SynthOptions shape;
  shape.shape = "custom";
  shape.type = "f32";
  shape.layers = 1;
  shape.embedding = shape.feed_forward = 128;
  shape.heads = 2;
  shape.tokens = 300;
  REQUIRE(synth(path, shape).ok());
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  CHECK(options.quantize == nullptr);
  const auto weights = [&](const char* type) {
    options.quantize = type;
    infer_memory memory;
    REQUIRE(infer_plan(path.c_str(), &options, &memory, sizeof(memory)) == INFER_OK);
    return memory.weights;
  };
  CHECK(weights("nf4") < weights("q8_0"));
  CHECK(weights("q8_0") < weights(nullptr));
  options.quantize = "f16";
  infer_memory memory;
  CHECK(infer_plan(path.c_str(), &options, &memory, sizeof(memory)) == INFER_INVALID_ARGUMENT);
  CHECK(std::string(infer_last_error()).find("nf4") != std::string::npos);
}

TEST_CASE("C: a session is saved, restored, and shifts") {
  const TempDir folder;
  const std::string path = folder.path("session");
  infer_engine* engine = load_c();
  infer_session* session = nullptr;
  REQUIRE(infer_session_open(engine, &session) == INFER_OK);
  CHECK(infer_engine_resize_cache(nullptr, 0) == INFER_INVALID_ARGUMENT);
  CHECK(infer_engine_resize_cache(engine, int64_t{1} << 62) == INFER_DOES_NOT_FIT);
  infer_memory memory;
  REQUIRE(infer_engine_memory(engine, &memory, sizeof(memory)) == INFER_OK);
  REQUIRE(infer_engine_resize_cache(engine, 2 * memory.kv) == INFER_OK);
  infer_engine_free(engine);
  infer_generate_options options = generate_c(700);
  options.shift_context = 1;
  options.keep = 4;
  REQUIRE(infer_generate(session, kPrompt.data(), kPrompt.size(), &options, nullptr, nullptr) ==
          INFER_OK);
  infer_statistics statistics;
  REQUIRE(infer_session_statistics(session, &statistics, sizeof(statistics)) == INFER_OK);
  CHECK(statistics.shifted_tokens > 0);
  CHECK(statistics.generated_tokens == 700);
  const int64_t length = infer_session_length(session);
  CHECK(infer_session_save(session, nullptr) == INFER_INVALID_ARGUMENT);
  REQUIRE(infer_session_save(session, path.c_str()) == INFER_OK);
  REQUIRE(infer_session_truncate(session, 0) == INFER_OK);
  CHECK(infer_session_restore(session, kModel.c_str()) == INFER_BAD_FILE);
  CHECK(infer_session_length(session) == 0);
  REQUIRE(infer_session_restore(session, path.c_str()) == INFER_OK);
  CHECK(infer_session_length(session) == length);
  infer_session_free(session);
}

TEST_CASE("C: load errors and cancel carry their codes") {
  infer_engine* engine = nullptr;
  CHECK(infer_engine_load("/nonexistent.gguf", nullptr, &engine) == INFER_NOT_FOUND);
  CHECK(std::string(infer_last_error()).find("/nonexistent.gguf") != std::string::npos);
  infer_load_options options;
  infer_load_options_init(&options, sizeof(options));
  options.progress = [](void* user, double) { return ++*static_cast<int*>(user) < 3 ? 1 : 0; };
  int calls = 0;
  options.progress_user = &calls;
  CHECK(infer_engine_load(kModel.c_str(), &options, &engine) == INFER_CANCELLED);
  CHECK(calls == 3);
  CHECK(engine == nullptr);
  options.progress = nullptr;
  options.memory_limit = 1;
  infer_memory memory;
  CHECK(infer_plan(kModel.c_str(), &options, &memory, sizeof(memory)) == INFER_DOES_NOT_FIT);
  CHECK(std::strlen(infer_last_error()) > 0);
  CHECK(std::string(infer_status_name(INFER_DOES_NOT_FIT)) == "does_not_fit");
}

TEST_CASE("C: structures of older and newer callers") {
  struct Newer {
    infer_load_options known;
    int64_t added;
  } newer;
  infer_load_options_init(&newer.known, sizeof(newer));
  CHECK(newer.added == 0);
  infer_memory memory;
  CHECK(infer_plan(kModel.c_str(), &newer.known, &memory, sizeof(memory)) == INFER_OK);
  newer.added = 1;
  CHECK(infer_plan(kModel.c_str(), &newer.known, &memory, sizeof(memory)) == INFER_UNSUPPORTED);
  infer_load_options older;
  infer_load_options_init(&older, sizeof(older));
  older.struct_size = offsetof(infer_load_options, batch_rows);
  older.batch_rows = -1;  // beyond what this caller knows: not read
  CHECK(infer_plan(kModel.c_str(), &older, &memory, sizeof(memory)) == INFER_OK);
  older.struct_size = 0;
  CHECK(infer_plan(kModel.c_str(), &older, &memory, sizeof(memory)) == INFER_INVALID_ARGUMENT);
  struct {
    int64_t weights = -1;
    int64_t guard = -1;
  } small;
  REQUIRE(infer_plan(kModel.c_str(), nullptr, reinterpret_cast<infer_memory*>(&small),
                     sizeof(small.weights)) == INFER_OK);
  CHECK(small.weights == memory.weights);
  CHECK(small.guard == -1);
}

TEST_CASE("C: text goes to tokens and back through the caller's buffers") {
  infer_vocabulary* vocabulary = nullptr;
  REQUIRE(infer_vocabulary_load(data_path("vocab/llama-spm.gguf").c_str(), &vocabulary) ==
          INFER_OK);
  const std::string text = "Hello, world";
  size_t count = 0;
  REQUIRE(infer_tokenize(vocabulary, text.data(), text.size(), INFER_ADD_SPECIAL, nullptr, 0,
                         &count) == INFER_OK);
  REQUIRE(count > 2);
  std::vector<int32_t> ids(count, -9);
  size_t again = 0;
  REQUIRE(infer_tokenize(vocabulary, text.data(), text.size(), INFER_ADD_SPECIAL, ids.data(), 2,
                         &again) == INFER_OK);
  CHECK(again == count);
  CHECK(ids[1] != -9);
  CHECK(ids[2] == -9);
  REQUIRE(infer_tokenize(vocabulary, text.data(), text.size(), INFER_ADD_SPECIAL, ids.data(),
                         ids.size(), &count) == INFER_OK);
  char buffer[64];
  size_t length = 0;
  REQUIRE(infer_detokenize(vocabulary, ids.data() + 1, ids.size() - 1, buffer, sizeof(buffer),
                           &length) == INFER_OK);
  CHECK(std::string(buffer, length) == text);
  CHECK(infer_tokenize(vocabulary, "a", 1, 64, nullptr, 0, &count) == INFER_INVALID_ARGUMENT);
  CHECK(infer_token_piece(vocabulary, -1, buffer, 64, &length) == INFER_INVALID_ARGUMENT);
  infer_special_tokens special;
  REQUIRE(infer_special(vocabulary, &special, sizeof(special)) == INFER_OK);
  CHECK(special.eos == 2);
  CHECK(infer_is_end_of_generation(vocabulary, special.eos) == 1);
  infer_vocabulary_free(vocabulary);
}

TEST_CASE("C: chat templates") {
  infer_chat_template* chat_template = nullptr;
  const std::string source = "<{{ a }}>{{ raise_exception('no b') if not b }}";
  REQUIRE(infer_chat_template_create(source.data(), source.size(), &chat_template) == INFER_OK);
  size_t length = 0;
  char text[8] = {};
  const std::string good = R"({"a": "x", "b": 1})";
  CHECK(infer_chat_template_render(chat_template, good.data(), good.size(), nullptr, nullptr, 0,
                                   &length) == INFER_OK);
  CHECK(length == 3);
  CHECK(infer_chat_template_render(chat_template, good.data(), good.size(), "2026-01-15T12:00:00",
                                   text, sizeof(text), &length) == INFER_OK);
  CHECK(std::string(text, length) == "<x>");
  CHECK(infer_chat_template_render(chat_template, "{}", 2, nullptr, text, sizeof(text), &length) ==
        INFER_INVALID_ARGUMENT);
  CHECK(std::string(infer_last_error()) == "no b");
  CHECK(infer_chat_template_render(nullptr, "{}", 2, nullptr, text, sizeof(text), &length) ==
        INFER_INVALID_ARGUMENT);
  infer_chat_template_free(chat_template);
  infer_chat_template_free(nullptr);
  CHECK(infer_chat_template_create("{% if", 5, &chat_template) == INFER_BAD_FILE);
  CHECK(infer_chat_template_create(nullptr, 5, &chat_template) == INFER_INVALID_ARGUMENT);
}

TEST_CASE("C: descriptions and devices") {
  infer_description* description = nullptr;
  REQUIRE(infer_description_create(kModel.c_str(), &description) == INFER_OK);
  const infer_model* model = infer_description_model(description);
  CHECK(std::string(model->architecture) == "llama");
  REQUIRE(model->tensor_count > 0);
  CHECK(infer_description_tensor(description, model->tensor_count) == nullptr);
  CHECK(infer_description_tensor(description, 0)->rank >= 1);
  CHECK(std::string(infer_description_key(description, 0)).size() > 0);
  CHECK(infer_description_value(description, model->metadata_count) == nullptr);
  infer_description_free(description);
  infer_device_list* list = nullptr;
  REQUIRE(infer_device_list_create(&list) == INFER_OK);
  REQUIRE(infer_device_list_size(list) >= 1);
  CHECK(std::string(infer_device_list_get(list, 0)->name) == "cpu");
  infer_device_list_free(list);
}
