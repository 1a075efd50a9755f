// What a C++ program may expect of the installed library. Prints "all right" or the first failure.
#include <cstdio>
#include <cstdlib>
#include <infer/jobs.hpp>

#define CHECK(condition)                                  \
  do {                                                    \
    if (!(condition)) {                                   \
      std::printf("line %d: " #condition "\n", __LINE__); \
      std::exit(1);                                       \
    }                                                     \
  } while (0)

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const auto missing = infer::Engine::load("/nonexistent.gguf", {});
  CHECK(!missing && missing.error().code() == infer::StatusCode::not_found);
  infer::LoadOptions load;
  load.context = 128;
  load.progress = [](double) { return false; };
  const auto cancelled = infer::Engine::load(argv[1], load);
  CHECK(!cancelled && cancelled.error().code() == infer::StatusCode::cancelled);
  int calls = 0;
  load.progress = [&](double) { return ++calls > 0; };
  const auto engine = infer::Engine::load(argv[1], load);
  CHECK(engine && calls > 1);
  const auto session = (*engine)->open_session();
  CHECK(session);
  const std::vector<int32_t> prompt{1, 300, 262};
  int rows = 0;
  CHECK((*session)
            ->evaluate(prompt, [&](int64_t position, auto) { return position == rows++; })
            .ok());
  CHECK(rows == 3);
  infer::GenerateOptions options;
  options.max_tokens = 8;
  options.ignore_end = true;
  std::vector<int32_t> tokens;
  const auto result = (*session)->generate({}, options, [&](int32_t token, std::string_view) {
    if (token >= 0) tokens.push_back(token);
    return true;
  });
  CHECK(result && tokens.size() == 8);
  const std::vector<int32_t> bad{-1};
  CHECK((*session)->evaluate(bad, {}).code() == infer::StatusCode::invalid_argument);

  CHECK(!infer::synth_shapes().empty());
  infer::PerplexityOptions text;
  CHECK(infer::perplexity(**engine, "too short", text).error().code() ==
        infer::StatusCode::invalid_argument);

  const auto vocabulary = infer::Vocabulary::load(argv[2]);
  CHECK(vocabulary);
  const auto ids = (*vocabulary)->tokenize("Hello", {});
  CHECK(ids && ids->front() == (*vocabulary)->special().bos);
  std::printf("infer %s (%s): all right\n", infer::version(),
              infer::status_code_name(infer::StatusCode::ok));
  return 0;
}
