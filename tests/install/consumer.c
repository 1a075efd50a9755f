/* What a C program may expect of the installed library. Prints "all right" or the first failure. */
#include <infer/infer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      printf("line %d: %s (last error: %s)\n", __LINE__, #condition, infer_last_error()); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

static int count_progress(void* user, double done) {
  ++*(int*)user;
  return done >= 0 && done <= 1;
}

static int cancel_at_once(void* user, double done) {
  (void)user;
  (void)done;
  return 0;
}

static int count_logits(void* user, int64_t position, const float* logits, size_t count) {
  size_t i;
  CHECK(position == *(int*)user);
  for (i = 0; i < count; ++i) CHECK(isfinite(logits[i]));
  ++*(int*)user;
  return 1;
}

static int keep_token(void* user, int32_t token, const char* text, size_t length) {
  int32_t** next = user;
  (void)text;
  (void)length;
  if (token >= 0) *(*next)++ = token;
  return 1;
}

static const char kTemplate[] = "<tool_call></tool_call>";
static const char kAnswer[] =
    "Yes.<tool_call>{\"name\": \"find\", \"arguments\": {}}</tool_call>";

int main(int argc, char** argv) {
  const int32_t prompt[] = {1, 300, 262};
  int32_t tokens[16] = {0}, same[16] = {0}, ids[32];
  int32_t* next = tokens;
  int calls = 0;
  int tool_calls = 0;
  size_t count = 0, length = 0, i;
  char text[64];
  infer_engine* engine = NULL;
  infer_session *session = NULL, *copy = NULL;
  infer_engine_counts counts;
  infer_output_parser* parser = NULL;
  infer_vocabulary* vocabulary = NULL;
  infer_load_options load;
  infer_generate_options generate;
  infer_memory planned, used;
  infer_statistics statistics;

  CHECK(argc == 3);
  CHECK(infer_engine_load("/nonexistent.gguf", NULL, &engine) == INFER_NOT_FOUND);
  CHECK(strstr(infer_last_error(), "/nonexistent.gguf") != NULL);
  CHECK(infer_engine_load(NULL, NULL, &engine) == INFER_INVALID_ARGUMENT);
  infer_load_options_init(&load, sizeof(load));
  load.context = 128;
  load.progress = cancel_at_once;
  CHECK(infer_engine_load(argv[1], &load, &engine) == INFER_CANCELLED);
  CHECK(engine == NULL);
  load.progress = count_progress;
  load.progress_user = &calls;
  CHECK(infer_plan(argv[1], &load, &planned, sizeof(planned)) == INFER_OK);
  CHECK(infer_engine_load(argv[1], &load, &engine) == INFER_OK);
  CHECK(calls > 1);
  CHECK(infer_engine_memory(engine, &used, sizeof(used)) == INFER_OK);
  CHECK(used.total == planned.total && used.total > 0);

  CHECK(infer_session_open(engine, &session) == INFER_OK);
  calls = 0;
  CHECK(infer_evaluate(session, prompt, 3, count_logits, &calls) == INFER_OK);
  CHECK(calls == 3 && infer_session_length(session) == 3);
  infer_generate_options_init(&generate, sizeof(generate));
  generate.max_tokens = 16;
  generate.ignore_end = 1;
  generate.has_seed = 1;
  CHECK(infer_generate(session, NULL, 0, &generate, keep_token, &next) == INFER_OK);
  CHECK(next == tokens + 16);
  CHECK(infer_session_statistics(session, &statistics, sizeof(statistics)) == INFER_OK);
  CHECK(statistics.finish_reason == INFER_FINISH_LENGTH && statistics.generated_tokens == 16);
  CHECK(infer_session_truncate(session, 0) == INFER_OK);
  next = same;
  CHECK(infer_generate(session, prompt, 3, &generate, keep_token, &next) == INFER_OK);
  CHECK(memcmp(tokens, same, sizeof(tokens)) == 0);
  CHECK(infer_generate(NULL, prompt, 3, &generate, NULL, NULL) == INFER_INVALID_ARGUMENT);
  CHECK(infer_session_fork(session, &copy) == INFER_OK);
  CHECK(infer_session_length(copy) == infer_session_length(session));
  infer_session_free(copy);
  CHECK(infer_engine_statistics(engine, &counts, sizeof(counts)) == INFER_OK);
  CHECK(counts.sessions == 1 && counts.generated_tokens == 32);
  infer_session_free(session);
  infer_engine_free(engine);

  CHECK(infer_output_parser_create(kTemplate, strlen(kTemplate), "", 0, &parser) == INFER_OK);
  CHECK(infer_output_parser_push(parser, kAnswer, strlen(kAnswer), &count) == INFER_OK);
  for (i = 0; i < count; ++i) {
    const infer_output_event* event = infer_output_parser_event(parser, i);
    if (event->kind == INFER_OUTPUT_CONTENT) CHECK(strcmp(event->text, "Yes.") == 0);
    if (event->kind != INFER_OUTPUT_TOOL_CALL) continue;
    CHECK(strcmp(event->call_name, "find") == 0);
    CHECK(strcmp(event->call_arguments, "{}") == 0);
    ++tool_calls;
  }
  CHECK(tool_calls == 1);
  CHECK(infer_output_parser_finish(parser, &count) == INFER_OK && count == 0);
  infer_output_parser_free(parser);

  CHECK(infer_vocabulary_load(argv[2], &vocabulary) == INFER_OK);
  CHECK(infer_tokenize(vocabulary, "Hello", 5, 0, ids, 32, &count) == INFER_OK);
  CHECK(count > 0 && count < 32);
  CHECK(infer_detokenize(vocabulary, ids, count, text, sizeof(text), &length) == INFER_OK);
  CHECK(length == 5 && memcmp(text, "Hello", 5) == 0);
  infer_vocabulary_free(vocabulary);
  printf("infer %s: all right\n", infer_version());
  return 0;
}
