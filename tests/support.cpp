#include "tests/support.h"

#include <doctest.h>
#include <stdlib.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace infer::test {

std::string data_path(const std::string& name) { return std::string(INFER_TEST_DATA "/") + name; }

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::vector<float> read_f32(const std::string& path) {
  const std::string bytes = read_text(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

void write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  REQUIRE_MESSAGE(file.good(), path);
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "infer-test-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  root_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

double nmse(std::span<const float> x, std::span<const float> ref) {
  if (x.size() != ref.size()) return std::numeric_limits<double>::infinity();
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double delta = static_cast<double>(x[i]) - ref[i];
    error += delta * delta;
    power += static_cast<double>(ref[i]) * ref[i];
  }
  const double ratio = error == 0 ? 0 : error / power;
  return std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
}

double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

bool all_cases() { return std::getenv("INFER_ALL_CASES") != nullptr; }

void skipped(const std::string& why) { std::fprintf(stderr, "SKIPPED: %s\n", why.c_str()); }

}  // namespace infer::test
