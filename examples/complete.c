/* Completes a prompt: complete MODEL.gguf [PROMPT [TOKENS]].
 * Ctrl-C ends the text. A model without a vocabulary continues token 1 and prints ids. */
#include <infer/infer.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static infer_session* volatile running;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  infer_session_cancel(running); /* may be called from a signal handler, and with null */
}

static int on_progress(void* user, double done) {
  (void)user;
  fprintf(stderr, "\rloading %3.0f %%", 100 * done);
  return 1;
}

static int on_token(void* user, int32_t token, const char* text, size_t length) {
  const infer_vocabulary* vocabulary = user;
  if (infer_vocabulary_size(vocabulary) == 0) {
    printf("%d ", (int)token);
  } else {
    fwrite(text, 1, length, stdout);
  }
  fflush(stdout);
  return 1;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, infer_last_error());
  return 1;
}

/* The tokens of the text, to be freed; null on failure. */
static int32_t* tokenize(const infer_vocabulary* vocabulary, const char* text, size_t* count) {
  const size_t length = strlen(text);
  const uint32_t flags = INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL;
  int32_t* tokens = NULL;
  if (infer_vocabulary_size(vocabulary) == 0) {
    tokens = malloc(sizeof(*tokens));
    if (tokens != NULL) tokens[0] = 1;
    *count = 1;
    return tokens;
  }
  if (infer_tokenize(vocabulary, text, length, flags, NULL, 0, count) != INFER_OK) return NULL;
  tokens = malloc((*count + 1) * sizeof(*tokens));
  if (tokens == NULL) return NULL;
  if (infer_tokenize(vocabulary, text, length, flags, tokens, *count, count) != INFER_OK) {
    free(tokens);
    return NULL;
  }
  return tokens;
}

int main(int argc, char** argv) {
  const char* prompt = argc > 2 ? argv[2] : "Once upon a time";
  infer_load_options load;
  infer_generate_options generate;
  infer_statistics statistics;
  infer_engine* engine = NULL;
  infer_session* session = NULL;
  int32_t* tokens = NULL;
  size_t count = 0;
  int result = 1;

  if (argc < 2) {
    fprintf(stderr, "usage: complete MODEL.gguf [PROMPT [TOKENS]]\n");
    return 2;
  }
  infer_load_options_init(&load, sizeof(load));
  load.progress = on_progress;
  if (infer_engine_load(argv[1], &load, &engine) != INFER_OK) return fail(argv[1]);
  fprintf(stderr, "\n");

  infer_generate_options_init(&generate, sizeof(generate));
  generate.max_tokens = argc > 3 ? atoi(argv[3]) : 64;
  tokens = tokenize(infer_engine_vocabulary(engine), prompt, &count);
  if (tokens == NULL) {
    fail("prompt");
  } else if (infer_session_open(engine, &session) != INFER_OK) {
    fail("session");
  } else {
    running = session;
    signal(SIGINT, on_interrupt);
    if (infer_generate(session, tokens, count, &generate, on_token,
                       (void*)infer_engine_vocabulary(engine)) != INFER_OK) {
      fail("generate");
    } else if (infer_session_statistics(session, &statistics, sizeof(statistics)) == INFER_OK) {
      fprintf(stderr, "\n%d tokens in %.2f s\n", (int)statistics.generated_tokens,
              statistics.generate_seconds);
      result = 0;
    }
    signal(SIGINT, SIG_DFL);
  }
  free(tokens);
  infer_session_free(session);
  infer_engine_free(engine);
  return result;
}
