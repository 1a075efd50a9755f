// When one thread computes in place of all of them.
#include "backends/cpu/lone_thread.h"
#include "tests/support.h"

using infer::cpu::StepTimes;
using infer::cpu::ThreadChoice;

namespace {

// Two threads: together a processor each, or waiting for each other most of the time.
constexpr StepTimes kQuiet{.work = 1e6, .seconds = 0.001, .busy = 0.0019};
constexpr StepTimes kHeldUp{.work = 1e6, .seconds = 0.020, .busy = 0.002};
constexpr StepTimes kOne{.work = 1e6, .seconds = 0.004, .busy = 0.002};
constexpr StepTimes kSlowOne{.work = 1e6, .seconds = 0.030, .busy = 0.002};

}  // namespace

TEST_CASE("one thread: not on a quiet machine, nor after a single delay") {
  ThreadChoice choice;
  CHECK(!choice.one(1));
  for (int i = 0; i < 5; ++i) {
    choice.all_computed(1, kQuiet);
    CHECK(!choice.one(1));
    choice.all_computed(1, kHeldUp);
    CHECK(!choice.one(1));
  }
}

TEST_CASE("one thread: while threads hold each other up; all are tried again") {
  ThreadChoice choice;
  choice.all_computed(1, kHeldUp);
  choice.all_computed(1, kHeldUp);
  CHECK(choice.one(1));
  for (int i = 0; i < 20; ++i) choice.one_computed(1.01, kOne);
  CHECK(choice.one(1.17));
  CHECK(!choice.one(1.19));  // ten times what the last one lost
  choice.all_computed(2, kHeldUp);
  CHECK(choice.one(2));  // still held up
  choice.all_computed(3, kQuiet);
  choice.all_computed(3, kHeldUp);
  CHECK(!choice.one(3));
}

TEST_CASE("one thread: not for long where it is no faster") {
  ThreadChoice choice;
  choice.all_computed(1, kHeldUp);
  choice.all_computed(1, kHeldUp);
  for (int i = 0; i < 3; ++i) {
    CHECK(choice.one(1.1));
    choice.one_computed(1.1, kSlowOne);
  }
  choice.one_computed(1.1, kSlowOne);
  CHECK(!choice.one(1.1));
  for (int i = 0; i < 5; ++i) choice.all_computed(2, kHeldUp);
  CHECK(!choice.one(2));
  choice.all_computed(4, kHeldUp);
  CHECK(choice.one(4));
}

TEST_CASE("one thread: the wait for the next try has bounds") {
  ThreadChoice choice;
  const StepTimes longest{.work = 1e9, .seconds = 100, .busy = 1};
  choice.all_computed(1, longest);
  choice.all_computed(1, longest);
  CHECK(choice.one(2.9));
  CHECK(!choice.one(3.1));
  const StepTimes shortest{.work = 1e6, .seconds = 1e-4, .busy = 6e-5};
  choice.all_computed(4, shortest);
  CHECK(choice.one(4.019));
  CHECK(!choice.one(4.021));
}
