// Memory nodes as a system describes them, and threads and work that are spread over them.
#include "engine/core/platform/memory_nodes.h"

#include <doctest.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/thread_pool.h"
#include "tests/support.h"

namespace infer {
namespace {

using os::MemoryNode;

/// Processors 0 to count − 1.
std::vector<int> first_processors(int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// What /sys/devices/system/node says of nodes with these lists of processors.
std::vector<MemoryNode> nodes_of(const std::vector<std::pair<std::string, std::string>>& lists,
                                 const std::vector<int>& usable) {
  const test::TempDir folder;
  for (const auto& [name, list] : lists) {
    std::filesystem::create_directory(folder.path(name));
    std::ofstream(folder.path(name) + "/cpulist") << list << '\n';
  }
  return os::memory_nodes(folder.path(""), usable);
}

/// Which processors the calling thread may use.
std::set<int> allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof(set), &set) == 0);
  std::set<int> all;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &set)) all.insert(p);
  }
  return all;
}

TEST_CASE("memory nodes: those that have processors which may be used") {
  const auto all =
      nodes_of({{"node10", "6"}, {"node0", "0-2,4"}, {"node1", "3,5"}}, first_processors(8));
  REQUIRE(all.size() == 3);
  CHECK(all[0].id == 0);
  CHECK(all[0].processors == std::vector{0, 1, 2, 4});
  CHECK(all[1].id == 1);
  CHECK(all[1].processors == std::vector{3, 5});
  CHECK(all[2].id == 10);
  CHECK(all[2].processors == std::vector{6});

  const auto some =
      nodes_of({{"node0", "0-2,4"}, {"node1", "3,5"}, {"node2", ""}}, std::vector{1, 4, 5, 900});
  REQUIRE(some.size() == 2);
  CHECK(some[0].processors == std::vector{1, 4});
  CHECK(some[1].processors == std::vector{5});
}

TEST_CASE("memory nodes: fewer than two are none") {
  CHECK(nodes_of({}, first_processors(8)).empty());
  CHECK(nodes_of({{"node0", "0-7"}}, first_processors(8)).empty());
  CHECK(nodes_of({{"node0", "0-3"}, {"node1", "4-7"}}, first_processors(4)).empty());
  CHECK(nodes_of({{"node0", "0-3"}, {"node1", "4-7"}}, {}).empty());
  CHECK(os::memory_nodes("/no/such/folder", first_processors(8)).empty());
}

TEST_CASE("memory nodes: what is no list of processors is passed over") {
  for (const std::string list :
       {"x", "1-", "-1", "1--2", "0x3", " 4", "4 ", "99999999999999999999", "4,,5", "70000"}) {
    CAPTURE(list);
    CHECK(nodes_of({{"node0", "0-3"}, {"node1", list}}, first_processors(8)).empty());
  }
  CHECK(nodes_of({{"node0", "0-3"}, {"node1x", "4-7"}, {"node", "4"}, {"node-1", "5"}},
                 first_processors(8))
            .empty());
  // A list that runs backwards has nothing in it; one that goes far beyond takes no time.
  CHECK(nodes_of({{"node0", "0-3"}, {"node1", "7-4"}}, first_processors(8)).empty());
  CHECK(nodes_of({{"node0", "0-3"}, {"node1", "4-65535"}}, first_processors(8)).size() == 2);
}

TEST_CASE("memory nodes: threads are spread over them, neighbours together") {
  const auto spread = [](int threads, const std::vector<int>& processors) {
    std::vector<MemoryNode> nodes;
    for (const int count : processors) {
      // Which ones does not matter here: none of them exists.
      nodes.push_back(
          {static_cast<int>(nodes.size()) + 3, std::vector<int>(static_cast<size_t>(count), 1000)});
    }
    const ThreadPool pool(threads, nodes);
    CHECK(pool.nodes().size() == (threads > 1 ? processors.size() : 0));
    std::vector<int> of_node(processors.size());
    int before = 0;
    for (int t = 0; t < threads && threads > 1; ++t) {
      const int node = pool.node(t)->id - 3;
      CHECK(node >= before);
      ++of_node[static_cast<size_t>(node)];
      before = node;
    }
    return of_node;
  };
  CHECK(spread(8, {4, 4}) == std::vector{4, 4});
  CHECK(spread(2, {16, 16}) == std::vector{1, 1});
  CHECK(spread(3, {16, 16}) == std::vector{1, 2});
  CHECK(spread(12, {16, 8}) == std::vector{8, 4});
  CHECK(spread(7, {1, 1, 1, 1}) == std::vector{2, 1, 2, 2});
  CHECK(spread(2, {1, 1, 1, 1}) == std::vector{0, 1, 0, 1});
  CHECK(spread(64, {1, 63}) == std::vector{1, 63});
  CHECK(spread(1, {2, 2}) == std::vector{0, 0});
}

TEST_CASE("memory nodes: a thread runs at its own within a job, and its caller anywhere after") {
  const std::set<int> before = allowed();
  if (before.size() < 2) {
    test::skipped("threads at nodes: this process may use one processor");
    return;
  }
  const int first = *before.begin();
  const int last = *before.rbegin();
  ThreadPool pool(4, {{0, {first}}, {1, {last}}});
  for (int job = 0; job < 3; ++job) {
    std::vector<std::set<int>> seen(4);
    pool.run([&](int thread) { seen[static_cast<size_t>(thread)] = allowed(); });
    CHECK(seen[0] == std::set{first});
    CHECK(seen[1] == std::set{first});
    CHECK(seen[2] == std::set{last});
    CHECK(seen[3] == std::set{last});
    CHECK(allowed() == before);
  }
  CHECK_THROWS_AS(pool.run([](int) { throw std::runtime_error("no"); }), std::runtime_error);
  CHECK(allowed() == before);
}

TEST_CASE("memory nodes: work is taken from threads of the same node first") {
  // All threads but one end at once, so that it takes the parts of all of them.
  WorkShare work(4, std::vector{0, 0, 1, 1});
  const auto order = [&](int thread) {
    work.begin_job();
    std::vector<int> owners;
    work.share(thread, 4000, false, [&](int64_t begin, int64_t) {
      const int owner = static_cast<int>(begin / 1000);
      if (owners.empty() || owners.back() != owner) owners.push_back(owner);
    });
    for (int t = 0; t < 4; ++t) {
      if (t != thread) work.share(t, 4000, false, [](int64_t, int64_t) { FAIL("taken twice"); });
    }
    return owners;
  };
  CHECK(order(0) == std::vector{0, 1, 2, 3});
  CHECK(order(1) == std::vector{1, 0, 2, 3});
  CHECK(order(2) == std::vector{2, 3, 0, 1});
  CHECK(order(3) == std::vector{3, 2, 0, 1});
}

TEST_CASE("memory nodes: each item of several runs is done once, a thread's own part of each") {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (const int64_t runs : {0, 1, 2, 8}) {
      for (const int64_t count : {0, 1, 5, 48, 1000}) {
        for (const bool small : {false, true}) {
          CAPTURE(threads);
          CAPTURE(runs);
          CAPTURE(count);
          std::vector<std::atomic<int>> times(static_cast<size_t>(runs * count));
          std::vector<std::atomic<int>> first(static_cast<size_t>(threads));
          pool.run([&](int thread) {
            pool.work().share_runs(thread, runs, count, small,
                                   [&](int64_t run, int64_t begin, int64_t end) {
                                     CHECK(begin < end);
                                     const Range own = split_range(count, thread, threads);
                                     // A thread begins with what is its own, unless others have
                                     // taken all of that.
                                     if (first[static_cast<size_t>(thread)]++ == 0 && small) {
                                       CHECK(begin == own.begin);
                                       CHECK(end == own.end);
                                     }
                                     for (int64_t i = begin; i < end; ++i) {
                                       ++times[static_cast<size_t>(run * count + i)];
                                     }
                                   });
          });
          for (const std::atomic<int>& each : times) CHECK(each == 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace infer
