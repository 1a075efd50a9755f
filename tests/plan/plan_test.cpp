// Placing values in the arena, what a cgroup's files say, and which plan is chosen.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "engine/core/platform/memory.h"
#include "engine/ops/op.h"
#include "engine/plan/arena.h"

namespace infer {
namespace {

/// A graph of sums over earlier values, some near and some far, so that lifetimes of all lengths
/// overlap.
Graph random_sums(std::mt19937& random, int nodes) {
  GraphBuilder builder(infer_outputs, 3, 3, KvGeometry{});
  std::vector<ValueId> values{builder.data_input(0, tensor(DType::f32, 40, 1, 3), Rows::tokens)};
  const auto pick = [&] {
    const size_t back = random() % 4 == 0 ? values.size() : std::min<size_t>(values.size(), 3);
    return values[values.size() - 1 - random() % back];
  };
  for (int i = 0; i < nodes; ++i) {
    values.push_back(builder.add(op::Add{1.0f}, {pick(), pick()}));
  }
  builder.output(values.back());
  return builder.finish().value();
}

TEST_CASE("values alive at the same time do not overlap, and the arena is no larger than needed") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const Graph graph = random_sums(random, 60);
    std::vector<NodePhase> phases;
    for (size_t n = 0; n < graph.nodes().size(); ++n)
      phases.push_back({static_cast<int32_t>(n / 2), true});
    const ArenaPlan plan = plan_arena(graph, phases, 64);

    struct Life {
      int64_t begin, end;
      int32_t first, last;
    };
    std::vector<Life> lives;
    for (size_t v = 0; v < graph.values().size(); ++v) {
      if (plan.offsets[v] < 0) continue;
      const auto id = static_cast<ValueId>(v);
      Life life{plan.offsets[v], plan.offsets[v] + graph.value(id).desc.extent_bytes(), 0, 0};
      for (size_t n = 0; n < graph.nodes().size(); ++n) {
        const Node& node = graph.nodes()[n];
        if (node.outputs[0] == id) life.first = life.last = phases[n].phase;
        if (std::ranges::count(node.inputs, id) > 0) life.last = phases[n].phase;
      }
      if (graph.outputs()[0] == id) life.last = INT32_MAX;
      CHECK(plan.offsets[v] % 64 == 0);
      CHECK(life.end <= plan.bytes);
      lives.push_back(life);
    }
    REQUIRE(lives.size() == 60);
    int64_t needed = 0;
    for (int32_t phase = 0; phase < 30; ++phase) {
      int64_t alive = 0;
      for (const Life& l : lives) alive += l.first <= phase && phase <= l.last ? 512 : 0;
      needed = std::max(needed, alive);
    }
    for (size_t a = 0; a < lives.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool overlap = lives[a].begin < lives[b].end && lives[b].begin < lives[a].end;
        CHECK_FALSE((together && overlap));
      }
    }
    CHECK(plan.bytes >= needed);
    CHECK(plan.bytes <= 2 * needed);
  }
}

TEST_CASE("cgroups of both versions limit what is free, page cache counts as free") {
  const std::filesystem::path dir = std::filesystem::temp_directory_path() / "infer-plan-cgroup";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  const auto write = [&](const char* name, const char* text) { std::ofstream(dir / name) << text; };
  os::HostMemory memory{10000, 9000, 0, 0};
  os::apply_cgroup_files(dir.string(), memory);
  CHECK(memory.available == 9000);  // no files

  write("memory.current", "3000\n");
  write("memory.max", "max\n");
  os::apply_cgroup_files(dir.string(), memory);
  CHECK(memory.available == 9000);  // no limit
  write("memory.max", "5000\n");
  write("memory.stat", "anon 2000\ninactive_file 600\nactive_file 400\n");
  os::apply_cgroup_files(dir.string(), memory);
  CHECK(memory.total == 5000);
  CHECK(memory.available == 3000);

  std::filesystem::remove(dir / "memory.current");
  write("memory.limit_in_bytes", "4000\n");
  write("memory.usage_in_bytes", "3900\n");
  write("memory.stat", "inactive_file 9\ntotal_inactive_file 500\ntotal_active_file 100\n");
  os::apply_cgroup_files(dir.string(), memory);
  CHECK(memory.total == 4000);
  CHECK(memory.available == 700);
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace infer
