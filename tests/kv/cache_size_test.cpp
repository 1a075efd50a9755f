// The number of pages: growing, shrinking, slabs.
#include <doctest.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "engine/kv/kv_cache.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kContext = 10000;

/// A CPU whose copies can be made to fail.
class FailingDevice final : public Device {
 public:
  int64_t copies_left = INT64_MAX;

  DeviceInfo info() const override { return cpu_->info(); }
  Ceilings measure_ceilings() override { return cpu_->measure_ceilings(); }
  Status capability(const Graph& graph, const Node& node) const override {
    return cpu_->capability(graph, node);
  }
  int64_t packed_bytes(const TensorDesc& desc) const override { return cpu_->packed_bytes(desc); }
  int64_t scratch_bytes(const Segment& segment) const override {
    return cpu_->scratch_bytes(segment);
  }
  std::vector<NodePhase> phases(const Segment& segment) const override {
    return cpu_->phases(segment);
  }
  int64_t alignment() const override { return cpu_->alignment(); }
  Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) override {
    return cpu_->alloc(bytes, purpose);
  }
  int64_t allocated(Purpose purpose) const override { return cpu_->allocated(purpose); }
  Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) override {
    return cpu_->load_weight(desc, read, to);
  }
  std::unique_ptr<Buffer> adopt(const TensorDesc& desc, std::span<const std::byte> bytes) override {
    return cpu_->adopt(desc, bytes);
  }
  Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) override {
    return cpu_->compile(spec);
  }
  Status read(const MemoryRef& from, std::span<std::byte> to) override {
    return cpu_->read(from, to);
  }
  Status write(std::span<const std::byte> from, const MemoryRef& to) override {
    return cpu_->write(from, to);
  }
  Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) override {
    if (copies_left-- <= 0) return {StatusCode::device, "the copy failed"};
    return cpu_->copy(from, to, bytes);
  }

 private:
  static std::unique_ptr<Device> open_cpu() {
    DeviceOptions options;
    options.threads = 1;
    return open_device("cpu", options).value();
  }
  std::unique_ptr<Device> cpu_ = open_cpu();
};

std::unique_ptr<KvCache> make(Device& device, int32_t pages, size_t kinds = 1) {
  const std::vector<int32_t> of_kind(kinds, pages);
  const KvLayout layout{std::vector<KvKind>(kinds, {0, kPageBytes}), {}};
  Device* const devices[] = {&device};
  return KvCache::create(devices, layout, of_kind, {kContext, true, "", 0}).value();
}

/// Fills whole pages, each with a byte of its own.
void compute(KvCache& cache, KvCache::SequenceId id, int32_t pages, int32_t token) {
  const std::vector<int32_t> tokens(static_cast<size_t>(pages) * kPageTokens, token);
  const KvCache::SequenceId ids[] = {id};
  while (cache.length(id) < static_cast<int64_t>(tokens.size())) {
    REQUIRE(cache.reserve(id, kPageTokens).ok());
    for (size_t kind = 0; kind < cache.kinds(); ++kind) {
      std::memset(cache.pages(ids)[kind].page(0, cache.length(id)),
                  token + static_cast<int>(cache.length(id) / kPageTokens), kPageBytes);
    }
    cache.commit(id, tokens, kPageTokens);
  }
}

/// Whether it finds them.
bool holds(KvCache& cache, KvCache::SequenceId id, int32_t token) {
  const KvCache::SequenceId ids[] = {id};
  bool right = true;
  for (size_t kind = 0; kind < cache.kinds(); ++kind) {
    for (int64_t slot = 0; slot < cache.length(id); slot += kPageTokens) {
      const std::byte* page = cache.pages(ids)[kind].page(0, slot);
      right &= static_cast<int64_t>(page[0]) == token + slot / kPageTokens;
      right &= page[0] == page[kPageBytes - 1];
    }
  }
  return right;
}

Status resize(KvCache& cache, int32_t pages) {
  return cache.resize(std::vector<int32_t>(cache.kinds(), pages));
}

}  // namespace

TEST_CASE("growing moves nothing, whatever the size of slabs; shrinking moves what is in use") {
  FailingDevice device;
  const auto cache = make(device, 32);
  const auto other = cache->add_sequence();
  cache->set_in_use(other, true);
  const auto id = cache->add_sequence();
  cache->set_in_use(id, true);
  compute(*cache, other, 12, 100);
  compute(*cache, id, 8, 50);
  const KvCache::SequenceId ids[] = {id};
  const std::byte* before = cache->pages(ids)[0].page(0, 100);
  for (const int32_t more : {64, 1000, 1003}) {
    REQUIRE(resize(*cache, more).ok());
    CHECK(cache->size(0) == more);
    CHECK(cache->pages(ids)[0].page(0, 100) == before);
    CHECK(holds(*cache, id, 50));
    CHECK(holds(*cache, other, 100));
  }
  const int64_t bytes = device.allocated(Purpose::kv);
  cache->remove_sequence(other);
  for (const int32_t fewer : {500, 31, 9, 8}) {  // also within a slab
    REQUIRE(resize(*cache, fewer).ok());
    CHECK(cache->size(0) == fewer);
    CHECK(device.allocated(Purpose::kv) == fewer * kPageBytes);
    CHECK(holds(*cache, id, 50));
  }
  CHECK(device.allocated(Purpose::kv) < bytes);
  CHECK(resize(*cache, 4).code() == StatusCode::does_not_fit);
  CHECK(holds(*cache, id, 50));
  cache->remove_sequence(id);
  CHECK(resize(*cache, 0).ok());
  CHECK(device.allocated(Purpose::kv) == 0);
}

TEST_CASE("shrinking gives up what is not in use before it refuses") {
  FailingDevice device;
  const auto cache = make(device, 64);    // slabs of 4 pages
  const auto id = cache->add_sequence();  // not in use
  compute(*cache, id, 6, 1);
  REQUIRE(resize(*cache, 7).ok());
  CHECK(cache->size(0) == 7);
  CHECK(holds(*cache, id, 1));
  CHECK(cache->length(id) == 6 * kPageTokens);
  REQUIRE(resize(*cache, 5).ok());
  CHECK(cache->size(0) == 5);
  CHECK(cache->length(id) == 0);
}

TEST_CASE("a copy that fails while shrinking loses no page") {
  FailingDevice device;
  for (const int32_t pages : {20, 18, 9}) {
    for (int64_t copies = 0; copies < 8; ++copies) {
      CAPTURE(pages);
      CAPTURE(copies);
      const auto cache = make(device, 64);
      // Places before it become free, so that it has to move.
      const auto first = cache->add_sequence();
      const auto second = cache->add_sequence();
      cache->set_in_use(second, true);
      compute(*cache, first, 16, 100);
      compute(*cache, second, 8, 1);
      cache->remove_sequence(first);
      cache->clear_kept();
      device.copies_left = copies;
      const Status status = resize(*cache, pages);
      device.copies_left = INT64_MAX;
      CHECK((status.ok() || status.code() == StatusCode::device));
      CHECK(cache->size(0) == (status.ok() ? pages : 64));
      CHECK(cache->held(0) == 8);
      CHECK(holds(*cache, second, 1));
      const auto rest = cache->add_sequence();
      compute(*cache, rest, cache->available(0), 30);
      CHECK(holds(*cache, second, 1));
      CHECK(cache->available(0) == 0);
    }
  }
}

TEST_CASE("a small cache grows to a large one in time proportional to its pages") {
  FailingDevice device;
  const auto seconds = [&](int32_t pages) {
    const auto cache = make(device, 4);  // slabs of one page
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(resize(*cache, pages).ok());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double few = seconds(25000);
  const double many = seconds(100000);
  CHECK(many < 8 * few + 0.1);
}

TEST_CASE(
    "a cache that may grow does so before sequences lose their pages, and where it is short") {
  FailingDevice device;
  // Two kinds, of which the first has room.
  const std::vector<int32_t> pages{64, 4};
  const KvLayout layout{{{0, kPageBytes}, {0, kPageBytes}}, {}};
  Device* const devices[] = {&device};
  const auto cache = KvCache::create(devices, layout, pages, {kContext, true, "", 0}).value();
  int asked = 0;
  cache->set_growth([&](size_t kind, KvCache::Want want) {
    CHECK(kind == 1);
    CHECK(want == KvCache::Want::pages);
    return ++asked <= 6 && cache->grow(kind, 1).ok();
  });
  const auto idle = cache->add_sequence();
  compute(*cache, idle, 4, 100);
  CHECK(asked == 0);
  const auto id = cache->add_sequence();
  cache->set_in_use(id, true);
  compute(*cache, id, 6, 1);
  CHECK(cache->size(0) == 64);
  CHECK(cache->size(1) == 10);
  CHECK(cache->length(idle) == 4 * kPageTokens);
  CHECK(holds(*cache, idle, 100));
  const std::vector<int32_t> tokens(7 * kPageTokens, 1);
  REQUIRE(cache->reserve(id, kPageTokens).ok());  // no more growth: the idle one gives way
  CHECK(cache->length(idle) == 0);
}

TEST_CASE("a cache grows before pages of earlier texts are lost, as long as it may for that") {
  FailingDevice device;
  const KvLayout layout{{{0, kPageBytes}}, {}};
  Device* const devices[] = {&device};
  const auto cache =
      KvCache::create(devices, layout, std::vector<int32_t>{4}, {kContext, true, "", 0}).value();
  cache->set_growth([&](size_t kind, KvCache::Want want) {
    return want == KvCache::Want::kept && cache->size(kind) < 8 && cache->grow(kind, 2).ok();
  });
  const auto kept_of = [&](uint32_t seed) {
    const auto id = cache->add_sequence();
    compute(*cache, id, 3, seed);
    cache->remove_sequence(id);
    return cache->count_pages().kept;
  };
  CHECK(kept_of(1) == 3);
  CHECK(kept_of(2) == 6);
  CHECK(cache->size(0) == 6);
  CHECK(kept_of(3) == 8);  // it has grown for the last time: the oldest page is lost
  CHECK(cache->size(0) == 8);
  // Without texts to keep there is nothing to grow for.
  cache->clear_kept();
  const auto id = cache->add_sequence();
  CHECK(cache->room(id) == 8 * kPageTokens);
  compute(*cache, id, 5, 4);
  CHECK(cache->room(id) == 8 * kPageTokens);
  const auto other = cache->add_sequence();
  compute(*cache, other, 2, 5);
  CHECK(cache->room(id) == 6 * kPageTokens);
}

TEST_CASE("pages count as untouched until they have been given away once") {
  FailingDevice device;
  const auto cache = make(device, 8);
  CHECK(cache->untouched_bytes(0) == 8 * kPageBytes);
  const auto id = cache->add_sequence();
  compute(*cache, id, 3, 1);
  CHECK(cache->untouched_bytes(0) == 5 * kPageBytes);
  cache->remove_sequence(id);
  cache->clear_kept();
  CHECK(cache->untouched_bytes(0) == 5 * kPageBytes);
  REQUIRE(resize(*cache, 16).ok());
  CHECK(cache->untouched_bytes(0) == 13 * kPageBytes);
  REQUIRE(resize(*cache, 0).ok());
  CHECK(cache->untouched_bytes(0) == 0);
}
