// Completes a prompt: complete MODEL.gguf [PROMPT [TOKENS]].
// A model without a vocabulary continues token 1 and prints ids.
#include <cstdio>
#include <cstdlib>
#include <infer/infer.hpp>
#include <string>

namespace {

infer::Status complete(const std::string& path, const std::string& prompt, int max_tokens) {
  infer::LoadOptions load;
  load.progress = [](double done) {
    std::fprintf(stderr, "\rloading %3.0f %%", 100 * done);
    return true;
  };
  auto engine = infer::Engine::load(path, load);
  if (!engine) return engine.error();
  std::fprintf(stderr, "\n");

  const infer::Vocabulary& vocabulary = (*engine)->vocabulary();
  std::vector<int32_t> tokens{1};
  if (vocabulary.size() > 0) {
    auto encoded = vocabulary.tokenize(prompt, {});
    if (!encoded) return encoded.error();
    tokens = *std::move(encoded);
  }
  auto session = (*engine)->open_session();
  if (!session) return session.error();
  infer::GenerateOptions options;
  options.max_tokens = max_tokens;
  const auto result = (*session)->generate(tokens, options, [&](int32_t token, auto text) {
    if (vocabulary.size() == 0) {
      std::printf("%d ", token);
    } else {
      std::fwrite(text.data(), 1, text.size(), stdout);
    }
    std::fflush(stdout);
    return true;
  });
  if (!result) return result.error();
  std::fprintf(stderr, "\n%lld tokens in %.2f s\n",
               static_cast<long long>(result->generated_tokens), result->generate_seconds);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: complete MODEL.gguf [PROMPT [TOKENS]]\n");
    return 2;
  }
  const infer::Status status = complete(argv[1], argc > 2 ? argv[2] : "Once upon a time",
                                        argc > 3 ? std::atoi(argv[3]) : 64);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", infer::status_code_name(status.code()),
               status.message().c_str());
  return 1;
}
