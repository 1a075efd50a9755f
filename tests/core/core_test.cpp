#include <doctest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>

#include "engine/core/checked.h"
#include "engine/core/half.h"
#include "engine/core/tensor_desc.h"
#include "engine/core/thread_pool.h"

using namespace infer;

TEST_CASE("checked arithmetic refuses what does not fit") {
  CHECK(checked_add<int64_t>(1, 2) == 3);
  CHECK_FALSE(checked_add<int64_t>(INT64_MAX, 1));
  CHECK_FALSE(checked_mul<uint64_t>(uint64_t{1} << 33, uint64_t{1} << 31));
  CHECK(checked_round_up<uint64_t>(33, 32) == 64);
  CHECK_FALSE(checked_round_up<uint64_t>(UINT64_MAX - 1, 32));
  CHECK_FALSE(checked_cast<int32_t>(uint64_t{1} << 31));
}

TEST_CASE("binary16 round trips for every bit pattern and rounds to nearest even") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = f16_to_f32(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      CHECK(std::isnan(f16_to_f32(f32_to_f16(f))));
    } else if (f32_to_f16(f) != h) {
      FAIL("binary16 pattern ", h);
    }
  }
  CHECK(f32_to_f16(65519.0f) == 0x7bff);
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(1.0f + 0x1p-11f) == 0x3c00);      // tie to even
  CHECK(f32_to_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);  // tie to even, upwards
  CHECK(f32_to_f16(0x1p-25f) == 0);                  // tie to zero
  CHECK(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)) == 1);
  CHECK(f32_to_bf16(1.0f + 0x1p-8f) == 0x3f80);
}

TEST_CASE("tensor descriptions are checked") {
  const std::array<int64_t, 2> shape{64, 3};
  const TensorDesc desc = make_tensor(DType::q4_0, shape).value();
  CHECK(desc.row_bytes() == 36);
  CHECK(desc.extent_bytes() == 108);
  CHECK(desc.contiguous());
  CHECK(to_string(desc) == "Q4_0 [64, 3]");
  CHECK_FALSE(make_tensor(DType::q4_0, std::array<int64_t, 1>{33}));
  CHECK_FALSE(make_tensor(DType::f32, std::array<int64_t, 2>{INT64_MAX, 2}));
  CHECK_FALSE(make_tensor(DType::f32, std::array<int64_t, 3>{0, INT64_MAX, 2}));
  CHECK_FALSE(make_tensor(DType::f32, std::array<int64_t, 1>{-1}));
}

TEST_CASE("the thread pool runs every part once and its barrier separates phases") {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> first{0};
      std::atomic<bool> wrong{false};
      pool.run([&](int) {
        first.fetch_add(1);
        pool.barrier();
        if (first.load() != threads) wrong = true;
        pool.barrier();
      });
      CHECK(first.load() == threads);
      CHECK_FALSE(wrong.load());
    }
  }
}

TEST_CASE("an exception in one thread is rethrown and the pool stays usable") {
  ThreadPool pool(3);
  for (int culprit = 0; culprit < 3; ++culprit) {
    CHECK_THROWS_AS(pool.run([&](int thread) {
      if (thread == culprit) throw std::bad_alloc();
      pool.barrier();
    }),
                    std::bad_alloc);
    std::atomic<int> ran{0};
    pool.run([&](int) {
      pool.barrier();
      ran.fetch_add(1);
    });
    CHECK(ran.load() == 3);
  }
}

TEST_CASE("ranges cover everything once") {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    for (const int threads : {1, 2, 7}) {
      for (const int64_t grain : {1, 4, 16}) {
        int64_t next = 0;
        for (int t = 0; t < threads; ++t) {
          const Range r = split_range(count, t, threads, grain);
          CHECK(r.begin == std::min(next, count));
          CHECK(r.end >= r.begin);
          next = r.end;
        }
        CHECK(next == count);
      }
    }
  }
}
