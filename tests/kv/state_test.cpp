// Recurrent states in the cache: whatever is shared, copied, given up or taken back, a sequence's
// states are those after its last committed token.
#include <doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "engine/kv/kv_cache.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr int64_t kContext = 700;
constexpr int64_t kPageBytes = kPageTokens * int64_t{sizeof(uint64_t)};
constexpr int64_t kRows = 90;
constexpr size_t kStates = 1;  ///< number of the kind

KvLayout layout() {
  KvKind states{0, 2 * kPageBytes, 0, true};
  return {{{0, kPageBytes}, states}, {}};
}

std::unique_ptr<Device> open_cpu() {
  DeviceOptions options;
  options.threads = 1;
  auto device = open_device("cpu", options);
  REQUIRE(device.has_value());
  return *std::move(device);
}

std::unique_ptr<KvCache> make(Device& device, std::vector<int32_t> pages, bool reuse = true,
                              const std::string& folder = "", int64_t draft_states = 0) {
  Device* const devices[] = {&device};
  auto cache = KvCache::create(devices, layout(), pages,
                               {kContext, reuse, folder, 100 * kPageBytes, draft_states});
  REQUIRE(cache.has_value());
  return *std::move(cache);
}

/// Stands for the state after these tokens.
uint64_t state_after(std::span<const int32_t> tokens) {
  uint64_t h = 1469598103934665603u;
  for (const int32_t token : tokens) h = (h ^ static_cast<uint64_t>(token)) * 1099511628211u;
  return h;
}

struct World {
  KvCache& cache;
  std::map<int32_t, std::vector<int32_t>> sequences;
  int64_t kept = 0;   ///< partly refused drafts after which the accepted tokens stayed
  int64_t again = 0;  ///< after which they did not

  uint64_t* state(int32_t id) {
    const KvCache::SequenceId ids[] = {id};
    return reinterpret_cast<uint64_t*>(cache.pages(ids)[kStates].state(0, kPageBytes));
  }

  /// What a step does with a sequence's states: changes them in place, and keeps those after the
  /// rows whose pages are in the table. True if there are such rows.
  bool compute(int32_t id, std::span<const int32_t> all, int64_t first) {
    const KvCache::SequenceId ids[] = {id};
    const KvPages pages = cache.pages(ids)[kStates];
    for (int32_t e = 1; e < pages.table_stride; ++e) {
      if (pages.block_tables[e] < 0) continue;
      std::byte* const page = pages.page(0, int64_t{e} * kPageTokens) + kPageBytes;
      const uint64_t made = state_after(all.first(static_cast<size_t>(first + e)));
      std::memcpy(page, &made, sizeof(made));
    }
    *state(id) = state_after(all);
    return pages.table_stride > 1;
  }

  /// A step of `count` tokens with `drafted` more, of which `accepted` are right. It ends at full
  /// pages, as the scheduler's do.
  bool step(int32_t id, int64_t count, int64_t drafted = 0, int64_t accepted = 0) {
    std::vector<int32_t>& tokens = sequences[id];
    const int64_t before = cache.length(id);
    if (cache.reuse(id, tokens, static_cast<int64_t>(tokens.size()) - 1) != before) check(id);
    const int64_t first = cache.length(id);
    count = std::min(count, static_cast<int64_t>(tokens.size()) - first);
    const int64_t full = (first + count) / kPageTokens * kPageTokens;
    if (full > first) count = full - first;
    if (count <= 0) return true;
    if (first + count < static_cast<int64_t>(tokens.size())) drafted = accepted = 0;
    if (!cache.reserve(id, count).ok()) return false;
    if (drafted > 0 && !cache.reserve(id, count + drafted, drafted).ok()) drafted = accepted = 0;
    // In place, from what is there.
    const auto known = std::span(tokens).first(static_cast<size_t>(first));
    if (first > 0) REQUIRE(*state(id) == state_after(known));
    for (int64_t i = 0; i < accepted; ++i) tokens.push_back(1);
    std::vector<int32_t> all(tokens.begin(), tokens.begin() + first + count + accepted);
    all.resize(static_cast<size_t>(first + count + drafted), -1);
    const bool keeps = compute(id, all, first);
    CHECK((drafted > 0 || !keeps));
    cache.commit(id, tokens, count + accepted);
    CHECK(cache.length(id) == (accepted == drafted || keeps ? first + count + accepted : first));
    if (accepted < drafted) ++(keeps ? kept : again);
    return true;
  }

  void check(int32_t id) {
    const int64_t length = cache.length(id);
    REQUIRE(length <= static_cast<int64_t>(sequences[id].size()));
    if (length == 0) return;
    REQUIRE(*state(id) == state_after(std::span(sequences[id]).first(static_cast<size_t>(length))));
  }
};

}  // namespace

TEST_CASE("random use: the states of a sequence are those after its last token") {
  const auto device = open_cpu();
  const TempDir folder;
  int64_t kept = 0, again = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
    };
    const auto cache = make(*device, {40, static_cast<int32_t>(2 + seed % 9)}, seed % 5 != 0,
                            seed % 2 == 0 ? folder.path("") : "");
    World world{*cache, {}};
    for (int turn = 0; turn < 300; ++turn) {
      const auto any = [&] {
        auto it = world.sequences.begin();
        std::advance(it, below(static_cast<int64_t>(world.sequences.size())));
        return it->first;
      };
      const int64_t what = below(20);
      if (world.sequences.empty() || what < 2) {
        const int32_t id = cache->add_sequence();
        world.sequences[id].assign(static_cast<size_t>(1 + below(300)),
                                   static_cast<int32_t>(below(2)));
        cache->set_in_use(id, true);
      } else if (what < 4) {
        const int32_t id = any();
        cache->remove_sequence(id);
        world.sequences.erase(id);
      } else if (what < 6) {
        const int32_t id = any();
        const int32_t twin = cache->fork(id);
        world.sequences[twin] = world.sequences[id];
        world.check(twin);
      } else if (what < 8) {
        const int32_t id = any();
        const int64_t before = cache->length(id);
        const int64_t wanted = below(kContext);
        const int64_t length = cache->rollback(id, wanted);
        CHECK(length <= std::min(wanted, before));
        if (wanted >= before) CHECK(length == before);
        if (length < before) CHECK(length % kPageTokens == 0);
        world.check(id);
        if (length > 0) {
          world.sequences[id].resize(static_cast<size_t>(length));
          world.sequences[id].push_back(static_cast<int32_t>(below(3)));
        }
      } else if (what == 8) {
        cache->set_in_use(any(), below(2) == 0);
      } else if (what == 9) {
        const std::vector<int32_t> pages{static_cast<int32_t>(30 + below(30)),
                                         static_cast<int32_t>(2 + below(20))};
        const Status status = cache->resize(pages);
        CHECK((status.ok() || status.code() == StatusCode::does_not_fit));
      } else {
        const int32_t id = any();
        auto& tokens = world.sequences[id];
        if (static_cast<int64_t>(tokens.size()) + 80 < kContext) {
          for (int64_t i = below(40); i > 0; --i) tokens.push_back(static_cast<int32_t>(below(2)));
        }
        cache->set_in_use(id, true);
        const bool whole = cache->length(id) + kRows >= static_cast<int64_t>(tokens.size());
        const int64_t drafted = whole && below(2) == 0 ? 1 + below(5) : 0;
        if (!world.step(id, kRows, drafted, drafted > 0 ? below(drafted + 1) : 0)) {
          cache->rollback(id, 0);
        }
        cache->set_in_use(id, below(3) > 0);
      }
      for (const auto& [id, tokens] : world.sequences) world.check(id);
    }
    kept += world.kept;
    again += world.again;
    for (const auto& [id, tokens] : world.sequences) cache->remove_sequence(id);
    cache->clear_kept();
    for (size_t kind = 0; kind < 2; ++kind) CHECK(cache->held(kind) == 0);
  }
  CHECK(device->allocated(Purpose::kv) == 0);
  CHECK(kept > 100);
  CHECK(again > 100);
}

TEST_CASE("refused drafts leave the accepted tokens, and give their room back") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 6});
  World world{*cache, {}};
  const int32_t id = cache->add_sequence();
  world.sequences[id].assign(62, 7);
  REQUIRE(world.step(id, 62, 5, 3));
  CHECK(cache->length(id) == 65);
  CHECK(cache->held(kStates) == 1);
  CHECK(cache->held(0) == 2);
  world.check(id);
  CHECK(cache->rollback(id, 65) == 65);  // nothing to take back
  world.check(id);
  world.sequences[id].push_back(5);
  REQUIRE(world.step(id, 1, 4, 0));
  CHECK(cache->length(id) == 66);
  world.check(id);
}

TEST_CASE("drafts take the room that is theirs, whatever checkpoints are there") {
  const auto device = open_cpu();
  for (const int64_t planned : {0, 4}) {
    const auto cache = make(*device, {60, 6}, true, "", planned);
    World world{*cache, {}};
    for (int32_t text = 0; text < 8; ++text) {  // each leaves a checkpoint
      const int32_t id = cache->add_sequence();
      world.sequences[id].assign(64, 10 + text);
      REQUIRE(world.step(id, 64));
      cache->remove_sequence(id);
      world.sequences.erase(id);
    }
    CHECK(cache->held(kStates) == 0);
    const int32_t id = cache->add_sequence();
    for (int round = 0; round < 3; ++round) {
      const int32_t other = cache->add_sequence();
      world.sequences[other].assign(64, 30 + round);
      REQUIRE(world.step(other, 64));
      world.sequences[id].resize(world.sequences[id].size() + 3, 7);
      REQUIRE(world.step(id, 3, 4, 1));
      world.check(id);
      cache->remove_sequence(other);
      world.sequences.erase(other);
    }
    CHECK((planned == 0 ? world.again : world.kept) > 0);
    if (planned > 0) CHECK(world.again == 0);
  }
}

TEST_CASE("a draft takes nothing from a sequence that is not in use") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 2}, false, "", 4);
  World world{*cache, {}};
  const int32_t idle = cache->add_sequence();
  const int32_t id = cache->add_sequence();
  for (const int32_t each : {idle, id}) {
    cache->set_in_use(each, true);
    world.sequences[each].assign(20, each);
    REQUIRE(world.step(each, 20));
  }
  cache->set_in_use(idle, false);
  world.sequences[id].push_back(5);
  REQUIRE(cache->reserve(id, 1).ok());
  CHECK(cache->reserve(id, 3, 2).code() == StatusCode::does_not_fit);
  CHECK(cache->length(idle) == 20);
  REQUIRE(world.step(id, 1));
  world.check(id);
  world.check(idle);
}

TEST_CASE("less room than was made") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 6});
  World world{*cache, {}};
  const int32_t id = cache->add_sequence();
  world.sequences[id].assign(300, 7);
  REQUIRE(cache->reserve(id, 300).ok());
  CHECK(cache->held(0) == 5);
  cache->shorten(id, 128);
  CHECK(cache->held(0) == 2);
  *world.state(id) = state_after(std::span(world.sequences[id]).first(128));
  cache->commit(id, world.sequences[id], 128);
  CHECK(cache->length(id) == 128);
  world.check(id);
  REQUIRE(world.step(id, 172));
  world.check(id);
}

TEST_CASE("a step that failed leaves no states behind") {
  const auto device = open_cpu();
  const auto cache = make(*device, {12, 6});
  World world{*cache, {}};
  const int32_t id = cache->add_sequence();
  world.sequences[id].assign(100, 7);
  REQUIRE(world.step(id, 100));  // to the full page
  REQUIRE(world.step(id, 10));
  CHECK(cache->length(id) == 74);
  CHECK(cache->rollback(id, 74) == 74);
  REQUIRE(cache->reserve(id, 5).ok());
  *world.state(id) = 0;  // half of the step
  CHECK(cache->rollback(id, 74) == 64);
  world.check(id);
}

TEST_CASE("checkpoints: lasting ones stay, of the others the last one") {
  const auto device = open_cpu();
  const auto cache = make(*device, {60, 8});
  const std::vector<int32_t> tokens(650, 7);
  const auto rolled_back_to = [&](KvCache::SequenceId id, int64_t length) {
    const KvCache::SequenceId twin = cache->fork(id);
    const int64_t found = cache->rollback(twin, length);
    cache->remove_sequence(twin);
    return found;
  };
  const KvCache::SequenceId id = cache->add_sequence();
  for (int64_t end = 64; end <= 640; end += 64) {
    REQUIRE(cache->reserve(id, 64).ok());
    cache->commit(id, tokens, 64, end == 192);
  }
  CHECK(rolled_back_to(id, 640) == 640);
  CHECK(rolled_back_to(id, 639) == 192);
  CHECK(rolled_back_to(id, 191) == 0);
  REQUIRE(cache->reserve(id, 1).ok());  // the checkpoint at 640 is a page of its own now
  cache->commit(id, tokens, 1);
  CHECK(cache->length(id) == 641);
  CHECK(rolled_back_to(id, 640) == 640);
}
