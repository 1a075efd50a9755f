// What several test programs need: test data, files, comparison, skipping in the open.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace infer::test {

/// The built-in model.
inline const std::string kDemo = INFER_SOURCE_DIR "/app/demo/infer-demo.gguf";

/// The path of a file in tests/data.
std::string data_path(const std::string& name);

/// Whole files; a failure fails the test.
std::string read_text(const std::string& path);
std::vector<float> read_f32(const std::string& path);
void write_bytes(const std::string& path, std::span<const std::byte> bytes);
inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A directory of its own, removed with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string path(const std::string& name) const { return root_ + "/" + name; }

 private:
  std::string root_;
};

/// Σ(x−ref)² / Σref², in double. Infinite if the sizes differ or a value is not finite where the
/// reference is.
double nmse(std::span<const float> x, std::span<const float> ref);

/// The processor time that this thread has taken, in seconds. It does not grow while other programs
/// run in its place.
double thread_seconds();

/// Whether INFER_ALL_CASES stands in the environment: tests that take long then run the cases as
/// well that are much like others. tools/check.sh sets it.
bool all_cases();

/// Prints "SKIPPED: why" on stderr.
void skipped(const std::string& why);

}  // namespace infer::test
