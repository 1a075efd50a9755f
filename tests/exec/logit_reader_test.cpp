// Rows of logits from a device that finds those that matter.
#include "engine/exec/logit_reader.h"

#include <doctest.h>

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "tests/test_device.h"

namespace infer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kColumns = 1000;

struct Rows {
  explicit Rows(test::TestDevice& on) : device(on) {
    buffer = device.alloc(kColumns * 4 * int64_t{sizeof(float)}, Purpose::activations).value();
  }
  std::vector<float> read(const std::vector<float>& values, const LogitsNeeded& needed) {
    REQUIRE(device.write(std::as_bytes(std::span(values)), {buffer.get(), 0}).ok());
    const auto rows = static_cast<int64_t>(values.size()) / kColumns;
    const auto got = reader.read(device, {buffer.get(), 0}, kColumns, rows, needed).value();
    return {got.begin(), got.end()};
  }

  test::TestDevice& device;
  std::unique_ptr<Buffer> buffer;
  LogitReader reader;
};

/// `near` values within 2 of the largest, which is 10, at places that depend on the turn.
std::vector<float> row(int64_t near, int64_t turn) {
  std::vector<float> values(kColumns, -5.0f);
  for (int64_t i = 0; i < near; ++i) {
    values[static_cast<size_t>((i * 7 + turn * 13) % kColumns)] = i == 0 ? 10.0f : 8.5f;
  }
  return values;
}

std::vector<float> only_near(std::vector<float> values) {
  for (float& x : values) {
    if (x < 8) x = -kInf;
  }
  return values;
}

TEST_CASE("rows hold what is needed and nothing of the rows before") {
  test::TestDevice device("far");
  device.visible = false;
  device.searches = true;
  Rows rows(device);
  for (int64_t turn = 0; turn < 5; ++turn) {
    for (const int64_t count : {3, 1, 2}) {
      std::vector<float> values;
      for (int64_t r = 0; r < count; ++r) {
        const std::vector<float> one = row(3 + r, turn + r);
        values.insert(values.end(), one.begin(), one.end());
      }
      CHECK(rows.read(values, {2, 3}) == only_near(values));
      CHECK(rows.read(values, {2, 4}) == values);  // the first row has three
      CHECK(rows.read(values, {2, 3}) == only_near(values));
    }
  }
  CHECK(device.searched > 0);
}

TEST_CASE("rows are read whole where what was found is not enough") {
  test::TestDevice device("far");
  device.visible = false;
  device.searches = true;
  Rows rows(device);
  CHECK(rows.read(row(3, 0), {2, 4}) == row(3, 0));      // too few
  CHECK(rows.read(row(900, 0), {2, 4}) == row(900, 0));  // more than are listed
  std::vector<float> endless = row(5, 0);
  endless[17] = kInf;
  CHECK(rows.read(endless, {2, 1}) == endless);
  const int64_t before = device.searched;
  CHECK(rows.read(row(5, 0), {}) == row(5, 0));  // all are needed: no search
  device.visible = true;
  CHECK(rows.read(row(5, 0), {2, 1}) == row(5, 0));  // in place
  CHECK(device.searched == before);
}

TEST_CASE("a failed search fails the read") {
  test::TestDevice device("far");
  device.visible = false;
  device.searches = true;
  Rows rows(device);
  CHECK(rows.read(row(5, 0), {2, 1}) == only_near(row(5, 0)));
  device.lost->store(true);
  const auto got = rows.reader.read(device, {rows.buffer.get(), 0}, kColumns, 1, {2, 1});
  REQUIRE(!got.has_value());
  CHECK(got.error().code() == StatusCode::device);
  device.lost->store(false);
  CHECK(rows.read(row(6, 1), {2, 1}) == only_near(row(6, 1)));
}

}  // namespace
}  // namespace infer
