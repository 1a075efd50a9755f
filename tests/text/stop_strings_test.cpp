#include <doctest.h>

#include <string>
#include <vector>

#include "engine/text/stop_strings.h"

using infer::StopStrings;

namespace {

struct Outcome {
  std::string text;
  bool found;
  bool operator==(const Outcome&) const = default;
};

Outcome feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings matcher(stops);
  std::string out;
  for (const std::string& piece : pieces) out += matcher.push(piece);
  out += matcher.finish();
  return {out, matcher.found()};
}

/// All ways to cut a text into pieces.
std::vector<std::vector<std::string>> cuts(const std::string& text) {
  std::vector<std::vector<std::string>> all;
  const size_t gaps = text.empty() ? 0 : text.size() - 1;
  for (size_t mask = 0; mask < size_t{1} << gaps; ++mask) {
    std::vector<std::string> pieces(1);
    for (size_t i = 0; i < text.size(); ++i) {
      pieces.back() += text[i];
      if (i < gaps && (mask >> i & 1) != 0) pieces.emplace_back();
    }
    all.push_back(pieces);
  }
  return all;
}

}  // namespace

TEST_CASE("a stop string ends the text wherever it is cut") {
  const std::vector<std::string> stops{"abcd", "bc", "dd", "", "xyxyz"};
  for (const std::string text :
       {"aabcdx", "abcx", "addb", "ab", "xyxyxyz", "aaaa", "b", "", "abdda", "xyxyd"}) {
    size_t first = std::string::npos;
    for (const std::string& s : stops) {
      if (!s.empty()) first = std::min(first, text.find(s));
    }
    const Outcome expected{text.substr(0, first), first != std::string::npos};
    for (const auto& pieces : cuts(text)) {
      CAPTURE(text);
      CAPTURE(pieces.size());
      CHECK(feed(stops, pieces) == expected);
    }
  }
}

TEST_CASE("text comes out as soon as it is certain") {
  StopStrings matcher({"\n\nUser:"});
  CHECK(matcher.push("Hello\n") == "Hello");
  CHECK(matcher.push("there") == "\nthere");
  CHECK(matcher.push("\n\nUse") == "");
  CHECK(matcher.push("d") == "\n\nUsed");
  CHECK(matcher.push("\n\nUser: x") == "");
  CHECK(matcher.found());
  CHECK(matcher.push("more") == "");
  CHECK(matcher.finish() == "");
}
