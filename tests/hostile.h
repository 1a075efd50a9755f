// Inputs made to exhaust time or memory: tests/data/hostile/*.json, and what a test may use for
// one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace infer::test {

/// One input. Its texts are spelt in parts: a string, or a list of strings and of pairs [text,
/// times], in whose text <i> stands for the number of the repetition.
struct Hostile {
  std::string name;
  std::string source;
  std::string input;  ///< what the source works on, if anything
};

/// The inputs of one file, whose objects have `name` and the two named members. Checks that there
/// are enough. Programs built with a sanitizer get every eighth.
std::vector<Hostile> read_hostile(const std::string& file, const std::string& source,
                                  const std::string& input, size_t at_least);

/// Runs `work` for an input and checks that it keeps within 2 s of this thread's processor time and
/// 1 GB of memory. `work` runs again, twice at most, while it takes too long. Programs built with a
/// sanitizer have more of both.
void check_bounded(const Hostile& hostile, const std::function<void()>& work);

}  // namespace infer::test
