// Searches by meaning: search MODEL FILE QUERY prints the lines of FILE whose vectors are nearest
// to that of QUERY. MODEL makes vectors of texts, such as all-MiniLM-L6-v2.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <infer/infer.hpp>
#include <numeric>
#include <string>
#include <vector>

namespace {

infer::Status search(const std::string& path, const std::string& file, const std::string& query) {
  infer::LoadOptions load;
  load.embeddings = true;  // for models that are made to generate, too
  auto engine = infer::Engine::load(path, load);
  if (!engine) return engine.error();

  std::vector<std::string> lines;
  std::ifstream in(file);
  if (!in) return {infer::StatusCode::not_found, file + ": cannot be opened"};
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  infer::EmbedOptions options;
  options.truncate = true;
  const auto texts = (*engine)->embed(lines, options);
  if (!texts) return texts.error();
  const auto wanted = (*engine)->embed(std::vector{query}, options);
  if (!wanted) return wanted.error();

  // The vectors have length 1: their dot product is the cosine of the angle between them.
  std::vector<double> scores;
  for (size_t i = 0; i < lines.size(); ++i) {
    const float* vector = texts->values.data() + i * static_cast<size_t>(texts->dimensions);
    scores.push_back(std::inner_product(wanted->values.begin(), wanted->values.end(), vector, 0.0));
  }
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  for (size_t i = 0; i < std::min<size_t>(5, order.size()); ++i) {
    std::printf("%.3f  %s\n", scores[order[i]], lines[order[i]].c_str());
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: search MODEL FILE QUERY\n");
    return 2;
  }
  const infer::Status status = search(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", infer::status_code_name(status.code()),
               status.message().c_str());
  return 1;
}
