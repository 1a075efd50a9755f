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
  pace.ran(1, 0.1);                // says nothing of prompts
  CHECK(pace.most_rows() == 384);
  pace.ran(512, 1e-4);
  CHECK(pace.most_rows() > 100'000);
  pace.ran(512, 0);
  CHECK(pace.most_rows() == 1'000'000);
}

}  // namespace infer
