// The cache under random use: whatever is shared, copied, given up, moved or taken back, every
// sequence finds at every slot that it may see what was computed for its own tokens.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "engine/kv/kv_cache.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr int32_t kWindow = 100;
constexpr int64_t kContext = 700;
constexpr int64_t kPageBytes = kPageTokens * int64_t{sizeof(uint64_t)};
constexpr int64_t kRows = 90;

KvLayout two_kinds() { return {{{0, kPageBytes}, {kWindow, kPageBytes}}, {}}; }

std::unique_ptr<Device> open_cpu() {
  DeviceOptions options;
  options.threads = 1;
  auto device = open_device("cpu", options);
  REQUIRE(device.has_value());
  return *std::move(device);
}

std::unique_ptr<KvCache> make(Device& device, std::vector<int32_t> pages, bool reuse = true,
                              const std::string& folder = "", int64_t stored_pages = 0) {
  Device* const devices[] = {&device};
  auto cache = KvCache::create(devices, two_kinds(), pages,
                               {kContext, reuse, folder, 2 * stored_pages * kPageBytes});
  REQUIRE(cache.has_value());
  return *std::move(cache);
}

/// Stand for the keys: each depends on its token and all before it.
std::vector<uint64_t> keys_of(std::span<const int32_t> tokens, size_t kind) {
  std::vector<uint64_t> keys;
  uint64_t h = 1469598103934665603u + kind;
  for (const int32_t token : tokens) {
    h = (h ^ static_cast<uint64_t>(token)) * 1099511628211u;
    keys.push_back(h);
  }
  return keys;
}

/// Sequences and what they should find.
struct World {
  KvCache& cache;
  std::map<int32_t, std::vector<int32_t>> sequences;

  uint64_t* slot(int32_t id, size_t kind, int64_t s) {
    const KvCache::SequenceId ids[] = {id};
    return reinterpret_cast<uint64_t*>(cache.pages(ids)[kind].page(0, s)) + s % kPageTokens;
  }

  /// One step of at most kRows rows, as the scheduler does it. False if there was no room.
  bool compute(int32_t id) {
    std::vector<int32_t>& tokens = sequences[id];
    const int64_t before = cache.length(id);
    if (cache.reuse(id, tokens, static_cast<int64_t>(tokens.size()) - 1) != before) check(id);
    const int64_t first = cache.length(id);
    const int64_t count = std::min(kRows, static_cast<int64_t>(tokens.size()) - first);
    if (count <= 0) return true;
    if (!cache.reserve(id, count).ok()) return false;
    for (size_t kind = 0; kind < cache.kinds(); ++kind) {
      const std::vector<uint64_t> keys = keys_of(tokens, kind);
      for (int64_t s = first; s < first + count; ++s) {
        *slot(id, kind, s) = keys[static_cast<size_t>(s)];
      }
    }
    cache.commit(id, tokens, count);
    return true;
  }

  void check(int32_t id) {
    const int64_t length = cache.length(id);
    const std::vector<int32_t>& tokens = sequences[id];
    REQUIRE(length <= static_cast<int64_t>(tokens.size()));
    for (size_t kind = 0; kind < cache.kinds(); ++kind) {
      // What the next token sees.
      const int64_t from = kind == 0 ? 0 : std::max<int64_t>(0, length - kWindow + 1);
      const std::vector<uint64_t> keys = keys_of(tokens, kind);
      int64_t wrong = 0;
      for (int64_t s = from; s < length; ++s) {
        wrong += *slot(id, kind, s) != keys[static_cast<size_t>(s)] ? 1 : 0;
      }
      REQUIRE(wrong == 0);
    }
  }
};

}  // namespace

TEST_CASE("random use: every sequence finds its own") {
  const auto device = open_cpu();
  const TempDir folder;
#ifdef INFER_SANITIZED
  const uint32_t seeds = all_cases() ? 30 : 8;
#else
  constexpr uint32_t seeds = 30;
#endif
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    };
    const auto cache = make(*device, {40, 24}, true, seed % 2 == 0 ? folder.path("") : "",
                            seed % 4 == 0 ? 6 : 1000);
    World world{*cache, {}};
    int32_t pages[2] = {40, 24};
    for (int step = 0; step < 300; ++step) {
      const auto any = [&] {
        auto it = world.sequences.begin();
        std::advance(it, below(static_cast<int64_t>(world.sequences.size())));
        return it->first;
      };
      const int64_t what = below(20);
      if (world.sequences.empty() || what < 3) {
        const int32_t id = cache->add_sequence();
        // Few tokens, so that many sequences begin alike.
        world.sequences[id].assign(static_cast<size_t>(1 + below(300)),
                                   static_cast<int32_t>(below(2)));
        cache->set_in_use(id, true);
      } else if (what < 5) {
        const int32_t id = any();
        cache->remove_sequence(id);
        world.sequences.erase(id);
      } else if (what < 7) {
        const int32_t id = any();
        const int32_t twin = cache->fork(id);
        world.sequences[twin] = world.sequences[id];
        world.check(twin);
      } else if (what < 9) {
        const int32_t id = any();
        const int64_t length = cache->rollback(id, below(kContext));
        auto& tokens = world.sequences[id];
        if (length > 0) {
          tokens.resize(static_cast<size_t>(length));
          tokens.push_back(static_cast<int32_t>(below(3)));
        }
      } else if (what == 9) {
        cache->set_in_use(any(), below(2) == 0);
      } else if (what == 10) {
        // Now and then so many that slabs become larger.
        pages[0] = static_cast<int32_t>(20 + below(40) * (below(3) == 0 ? 8 : 1));
        pages[1] = static_cast<int32_t>(16 + below(20) * (below(3) == 0 ? 9 : 1));
        const Status status = cache->resize(pages);
        CHECK((status.ok() || status.code() == StatusCode::does_not_fit));
        if (status.ok()) {
          CHECK(cache->size(0) <= pages[0]);
          CHECK(cache->size(1) <= pages[1]);
        }
      } else {
        const int32_t id = any();
        auto& tokens = world.sequences[id];
        if (static_cast<int64_t>(tokens.size()) + 40 < kContext) {
          for (int64_t i = below(40); i > 0; --i) tokens.push_back(static_cast<int32_t>(below(2)));
        }
        cache->set_in_use(id, true);
        if (!world.compute(id)) cache->rollback(id, 0);
        cache->set_in_use(id, below(3) > 0);
      }
      for (const auto& [id, tokens] : world.sequences) world.check(id);
    }
    for (const auto& [id, tokens] : world.sequences) cache->remove_sequence(id);
    cache->clear_kept();
    for (size_t kind = 0; kind < 2; ++kind) CHECK(cache->held(kind) == 0);
  }
  CHECK(device->allocated(Purpose::kv) == 0);
}

TEST_CASE("a second sequence takes over what the first computed, and shares its pages") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 12});
  World world{*cache, {}};
  const int32_t first = cache->add_sequence();
  world.sequences[first].assign(200, 7);
  while (cache->length(first) < 200) REQUIRE(world.compute(first));
  CHECK(cache->held(0) == 4);
  const int32_t second = cache->add_sequence();
  auto tokens = world.sequences[first];
  tokens[150] = 8;  // alike for two pages and a part of the third
  world.sequences[second] = tokens;
  CHECK(cache->reuse(second, tokens, 199) == 150);
  world.check(second);
  CHECK(cache->held(0) == 4);
  while (cache->length(second) < 200) REQUIRE(world.compute(second));
  CHECK(cache->held(0) == 6);
  world.check(first);
  world.check(second);

  cache->remove_sequence(first);
  cache->remove_sequence(second);
  CHECK(cache->held(0) == 0);
  const int32_t third = cache->add_sequence();  // what is left behind is known still
  world.sequences = {{third, tokens}};
  CHECK(cache->reuse(third, tokens, 192) == 192);
  world.check(third);
  cache->clear_kept();  // what is held stays known
  CHECK(cache->rollback(third, 0) == 0);
  CHECK(cache->reuse(third, tokens, 192) == 192);
  CHECK(cache->rollback(third, 0) == 0);
  cache->clear_kept();
  CHECK(cache->reuse(third, tokens, 192) == 0);
}

TEST_CASE("a sequence in the middle takes over what another has computed since") {
  const auto device = open_cpu();
  const auto cache = make(*device, {16, 16});
  World world{*cache, {}};
  std::vector<int32_t> tokens(500);
  std::iota(tokens.begin(), tokens.end(), 7);
  const auto behind = cache->add_sequence();
  const auto ahead = cache->add_sequence();
  for (const auto id : {behind, ahead}) {
    world.sequences[id] = tokens;
    cache->set_in_use(id, true);
  }
  REQUIRE(world.compute(behind));  // 90 tokens, in the middle of a page
  while (cache->length(ahead) < 400) REQUIRE(world.compute(ahead));
  CHECK(cache->reuse(behind, tokens, 91) == 90);  // less than it has
  CHECK(cache->reuse(behind, tokens, 300) == 300);
  world.check(behind);
  CHECK(cache->reuse(behind, tokens, 499) == 384);
  world.check(behind);
  // Its own pages went: the two hold the same.
  CHECK(cache->held(0) == 7);
  while (cache->length(behind) < 500) REQUIRE(world.compute(behind));
  world.check(behind);
  world.check(ahead);
  const auto other = cache->add_sequence();
  world.sequences[other] = tokens;
  world.sequences[other][70] = 1;
  REQUIRE(world.compute(other));
  CHECK(cache->reuse(other, world.sequences[other], 499) == cache->length(other));
  CHECK(cache->length(other) == 70 + 90);
}

TEST_CASE("where roles count, pages are known by them") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 12});
  const std::vector<int32_t> tokens(200, 7);
  const std::vector<bool> given;  // beyond its end all are
  std::vector<bool> generated(130, false);
  generated[100] = generated[129] = true;
  const auto reused = [&](const PageKeys& keys) {
    const KvCache::SequenceId id = cache->add_sequence();
    const int64_t length = cache->reuse(id, keys, 199);
    cache->remove_sequence(id);
    return length;
  };
  const KvCache::SequenceId id = cache->add_sequence();
  REQUIRE(cache->reserve(id, 200).ok());
  cache->commit(id, PageKeys(tokens, generated), 200);
  CHECK(reused(PageKeys(tokens, generated)) == 192);
  CHECK(reused(PageKeys(tokens, given)) == 100);
  CHECK(reused(tokens) == 100);
  generated[129] = false;
  CHECK(reused(PageKeys(tokens, generated)) == 128);
  generated.resize(101);
  CHECK(reused(PageKeys(tokens, generated)) == 128);
}

TEST_CASE("what has to leave memory goes to a file and comes back") {
  const auto device = open_cpu();
  const TempDir folder;
  const auto cache = make(*device, {6, 6}, true, folder.path(""), 100);
  World world{*cache, {}};
  for (int round = 0; round < 2; ++round) {
    for (int text = 0; text < 5; ++text) {
      const int32_t id = cache->add_sequence();
      world.sequences = {{id, std::vector<int32_t>(300, text)}};
      CHECK(cache->reuse(id, world.sequences[id], 299) == (round == 0 ? 0 : 256));
      world.check(id);
      while (cache->length(id) < 300) REQUIRE(world.compute(id));
      cache->remove_sequence(id);
    }
  }
  Device* const devices[] = {device.get()};
  CHECK(!KvCache::create(devices, two_kinds(), std::vector<int32_t>{6, 6},
                         {kContext, true, folder.path("none"), 1 << 20}));
}

TEST_CASE("without reuse nothing is known") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 12}, false);
  World world{*cache, {}};
  const int32_t first = cache->add_sequence();
  world.sequences[first].assign(128, 7);
  while (cache->length(first) < 128) REQUIRE(world.compute(first));
  const int32_t second = cache->add_sequence();
  CHECK(cache->reuse(second, world.sequences[first], 127) == 0);
}

TEST_CASE("pages behind a window are let go, and a far rollback starts anew") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 6});
  World world{*cache, {}};
  const int32_t id = cache->add_sequence();
  cache->set_in_use(id, true);
  world.sequences[id].resize(640);
  std::iota(world.sequences[id].begin(), world.sequences[id].end(), 0);
  while (cache->length(id) < 640) REQUIRE(world.compute(id));
  CHECK(cache->held(0) == 10);
  CHECK(cache->held(1) <= 4);
  world.check(id);
  CHECK(cache->rollback(id, 600) == 600);
  world.check(id);
  CHECK(cache->rollback(id, 300) == 0);
  CHECK(cache->held(0) == 0);
}

TEST_CASE("what nobody uses gives way, the oldest first; what is in use does not") {
  const auto device = open_cpu();
  const auto cache = make(*device, {6, 6});
  World world{*cache, {}};
  int32_t ids[3];
  for (int i = 0; i < 3; ++i) {
    ids[i] = cache->add_sequence();
    world.sequences[ids[i]].assign(120, i);
    cache->set_in_use(ids[i], true);
    while (cache->length(ids[i]) < 120) REQUIRE(world.compute(ids[i]));
    cache->set_in_use(ids[i], i == 0);
  }
  const int32_t more = cache->add_sequence();
  cache->set_in_use(more, true);
  world.sequences[more].assign(100, 9);
  while (cache->length(more) < 100) REQUIRE(world.compute(more));
  CHECK(cache->length(ids[0]) == 120);
  CHECK(cache->length(ids[1]) == 0);
  CHECK(cache->length(ids[2]) == 120);
  for (const int32_t id : ids) world.check(id);
  const Status full = cache->reserve(ids[0], 200);
  CHECK(full.code() == StatusCode::does_not_fit);
  CHECK(cache->length(ids[0]) == 120);
  world.check(ids[0]);
}

TEST_CASE("room is found although an idle sequence shares the page that is written next") {
  const auto device = open_cpu();
  const auto cache = make(*device, {8, 8});
  World world{*cache, {}};
  const int32_t idle = cache->add_sequence();
  world.sequences[idle].assign(448, 1);
  while (cache->length(idle) < 448) REQUIRE(world.compute(idle));
  const int32_t id = cache->add_sequence();
  cache->set_in_use(id, true);
  CHECK(cache->reuse(id, world.sequences[idle], 448) == 448);
  CHECK(cache->rollback(id, 400) == 400);
  const Status status = cache->reserve(id, 60);  // one page more, and the context holds it
  CHECK_MESSAGE(status.ok(), status.message());
}

TEST_CASE("a takeover brings what taking tokens back needs, from files as well") {
  const auto device = open_cpu();
  const TempDir folder;
  for (const bool stored : {false, true}) {
    const auto cache = make(*device, {12, 12}, true, stored ? folder.path("") : "", 100);
    World world{*cache, {}};
    const int32_t first = cache->add_sequence();
    world.sequences[first].assign(400, 1);
    while (cache->length(first) < 400) REQUIRE(world.compute(first));
    if (stored) {
      cache->remove_sequence(first);
      cache->clear_kept();
    }
    const int32_t id = cache->add_sequence();
    world.sequences[id].assign(400, 1);
    CHECK(cache->reuse(id, world.sequences[id], 399) == 384);
    CHECK(cache->rollback(id, 384 - kKvRollback) == 384 - kKvRollback);
    world.check(id);
  }
}

TEST_CASE("a sequence restored without pages takes part in sharing, one with pages does not") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 12});
  World world{*cache, {}};
  for (const int64_t length : {0, 64}) {
    const int32_t id = cache->add_sequence();
    REQUIRE(cache->restore(id, length, std::vector<int64_t>{0, 0}).ok());
    CHECK(cache->length(id) == length);
    world.sequences[id].assign(128, static_cast<int32_t>(length));
    while (cache->length(id) < 128) REQUIRE(world.compute(id));
    const int32_t other = cache->add_sequence();
    CHECK(cache->reuse(other, world.sequences[id], 128) == (length == 0 ? 128 : 0));
  }
  const int32_t too_long = cache->add_sequence();
  CHECK(cache->restore(too_long, kContext + 1, std::vector<int64_t>{0, 0}).code() ==
        StatusCode::does_not_fit);
}
