#include "engine/sched/prompt_pace.h"

#include <doctest.h>

namespace infer {

TEST_CASE("prompts have whole pages of rows, as many as take a fifth of a second") {
  PromptPace pace;
  CHECK(pace.most_rows() == 1'000'000);  // not measured: no limit
  pace.ran(512, 5.12);
  CHECK(pace.most_rows() == kPageTokens);  // 20 rows: fewer than a page are not worth it
  pace.ran(64, 0.03);
  CHECK(pace.most_rows() == 384);  // 426 rows
  pace.ran(1, 0.1);                // one step may have been held up
  CHECK(pace.most_rows() == 384);
  pace.ran(512, 1e-4);
  CHECK(pace.most_rows() > 100'000);
  pace.ran(512, 0);
  CHECK(pace.most_rows() == 1'000'000);
}

/// Rows of a step's prompt, after some steps, where a step takes `fixed` seconds and `each` for a
/// row.
int64_t settled(double fixed, double each) {
  PromptPace pace;
  for (int i = 0; i < 3; ++i) pace.ran(1, fixed + each);
  int64_t rows = 512;
  for (int i = 0; i < 10; ++i) {
    pace.ran(rows, fixed + static_cast<double>(rows) * each);
    rows = pace.most_rows();
  }
  return rows;
}

TEST_CASE("prompts have more rows where a step takes long without any") {
  CHECK(settled(0, 1e-3) == 192);
  CHECK(settled(0.05, 1e-3) == 128);  // 150 ms of rows
  CHECK(settled(0.15, 1e-3) == 128);  // twice 0.15 s
  CHECK(settled(20, 1e-2) > 1900);    // weights from a disk
  CHECK(settled(0.5, 0.1) == kPageTokens);
}

}  // namespace infer
