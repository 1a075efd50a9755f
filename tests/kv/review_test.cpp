// Review of the cache: each case is a scenario that is to hold and did not at c609b2a.
#include <doctest.h>

#include <chrono>
#include <cstring>

#include "engine/kv/kv_cache.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr int64_t kPageBytes = 4096;

std::unique_ptr<Device> open_cpu() {
  DeviceOptions options;
  options.threads = 1;
  return open_device("cpu", options).value();
}

std::unique_ptr<KvCache> make(Device& device, int32_t pages, int64_t context,
                              std::vector<KvKind> kinds = {{0, kPageBytes}}) {
  const std::vector<int32_t> of_kind(kinds.size(), pages);
  return KvCache::create(device, {std::move(kinds), {}}, of_kind, {context, true, "", 0}).value();
}

void compute(KvCache& cache, KvCache::SequenceId id, const std::vector<int32_t>& tokens) {
  while (cache.length(id) < static_cast<int64_t>(tokens.size())) {
    const int64_t count =
        std::min<int64_t>(64, static_cast<int64_t>(tokens.size()) - cache.length(id));
    REQUIRE(cache.reserve(id, count).ok());
    cache.commit(id, tokens, count);
  }
}

}  // namespace

TEST_CASE("shrinking gives up what is not in use before it refuses, whatever the slabs' size") {
  const auto device = open_cpu();
  const auto cache = make(*device, 64, 2000);  // slabs of 4 pages
  const auto id = cache->add_sequence();       // not in use
  compute(*cache, id, std::vector<int32_t>(6 * 64, 1));
  CHECK(cache->held(0) == 6);
  const int32_t pages[] = {7};  // whole slabs: 4, less than the idle sequence holds
  const Status status = cache->resize(pages);
  CHECK_MESSAGE(status.ok(), status.message());
  CHECK(cache->size(0) == 4);
}

TEST_CASE("room is found although an idle sequence shared the page that is written next") {
  const auto device = open_cpu();
  const auto cache = make(*device, 8, 512);
  const std::vector<int32_t> tokens(7 * 64, 1);
  const auto idle = cache->add_sequence();
  compute(*cache, idle, tokens);
  const auto id = cache->add_sequence();
  cache->set_in_use(id, true);
  CHECK(cache->reuse(id, tokens, 448) == 448);
  CHECK(cache->rollback(id, 400) == 400);
  const Status status = cache->reserve(id, 60);  // one page more, and the context holds it
  CHECK_MESSAGE(status.ok(), status.message());
}

TEST_CASE("a restored sequence without pages takes part in sharing") {
  const auto device = open_cpu();
  const auto cache = make(*device, 8, 512);
  const auto id = cache->add_sequence();
  REQUIRE(cache->restore(id, {}, {}).ok());
  const std::vector<int32_t> tokens(128, 1);
  compute(*cache, id, tokens);
  const auto other = cache->add_sequence();
  CHECK(cache->reuse(other, tokens, 128) == 128);
}

TEST_CASE("rollback by up to 64 tokens keeps a window's pages also after a takeover") {
  const auto device = open_cpu();
  const auto cache = make(*device, 32, 1000, {{0, kPageBytes}, {100, kPageBytes}});
  const std::vector<int32_t> tokens(400, 1);
  const auto first = cache->add_sequence();
  compute(*cache, first, tokens);
  const auto id = cache->add_sequence();
  CHECK(cache->reuse(id, tokens, 399) == 384);
  CHECK(cache->rollback(id, 340) == 340);
}

TEST_CASE("a small cache grows to a large one in time proportional to its pages") {
  const auto device = open_cpu();
  const auto seconds = [&](int32_t pages) {
    const auto cache = make(*device, 4, 256);  // slabs of one page
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(cache->resize(std::span(&pages, 1)).ok());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double few = seconds(25000);
  const double many = seconds(100000);
  MESSAGE(few << " s and " << many << " s");
  CHECK(many < 8 * few);
}
