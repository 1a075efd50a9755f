#include "engine/core/work_share.h"

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/core/thread_pool.h"

namespace infer {
namespace {

void dawdle(int thread, int64_t item) {
  if ((thread * 31 + item * 7) % 53 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

TEST_CASE("shared work: every item is done once, whichever call a thread is in") {
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    ThreadPool pool(threads);
    const std::vector<int64_t> counts{0, 1, 5, 0, 3, 64, 1000, 2, 999};
    for (int job = 0; job < 20; ++job) {
      std::vector<std::vector<std::atomic<int>>> shared(counts.size());
      std::vector<std::vector<std::atomic<int>>> queued(counts.size());
      for (size_t c = 0; c < counts.size(); ++c) {
        shared[c] = std::vector<std::atomic<int>>(static_cast<size_t>(counts[c]));
        queued[c] = std::vector<std::atomic<int>>(static_cast<size_t>(counts[c]));
      }
      pool.run([&](int thread) {
        for (size_t c = 0; c < counts.size(); ++c) {  // no barrier between the calls
          pool.work().share(thread, counts[c], c % 3 == 2, [&](int64_t begin, int64_t end) {
            CHECK(begin < end);
            dawdle(thread, begin);
            for (int64_t i = begin; i < end; ++i) ++shared[c][static_cast<size_t>(i)];
          });
          WorkShare::Queue queue = pool.work().queue(thread);
          for (int64_t i = queue.next(); i >= 0 && i < counts[c]; i = queue.next()) {
            dawdle(thread, i);
            ++queued[c][static_cast<size_t>(i)];
          }
        }
      });
      for (size_t c = 0; c < counts.size(); ++c) {
        for (const std::atomic<int>& times : shared[c]) CHECK(times == 1);
        for (const std::atomic<int>& times : queued[c]) CHECK(times == 1);
      }
    }
  }
}

TEST_CASE("shared work: a slow thread does less") {
  ThreadPool pool(3);
  std::vector<int64_t> done(3);
  pool.run([&](int thread) {
    pool.work().share(thread, 300, false, [&](int64_t begin, int64_t end) {
      if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      done[static_cast<size_t>(thread)] += end - begin;
    });
  });
  CHECK(done[0] + done[1] + done[2] == 300);
  CHECK(done[1] < 60);
}

TEST_CASE("shared work: a job that failed leaves nothing to the next one") {
  ThreadPool pool(3);
  for (int job = 0; job < 10; ++job) {
    CHECK_THROWS_AS(pool.run([&](int thread) {
      for (int call = 0; call <= thread; ++call) {
        pool.work().share(thread, 100, false, [&](int64_t, int64_t) {});
      }
      if (thread == 1) throw std::runtime_error("no");
      pool.barrier();
    }),
                    std::runtime_error);
    std::atomic<int64_t> done{0};
    pool.run([&](int thread) {
      pool.work().share(thread, 100, false,
                        [&](int64_t begin, int64_t end) { done += end - begin; });
    });
    CHECK(done == 100);
  }
}

}  // namespace
}  // namespace infer
