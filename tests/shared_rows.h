// Lists of slots and attention to blocks, of which several groups of threads make a row's, on any
// device.
#pragma once

#include <cmath>
#include <functional>

#include "engine/jobs/conformance.h"
#include "tests/cache_run.h"

namespace infer::test {

/// A device that computes a row by one group of threads, or by several.
using OpenSplit = std::function<std::unique_ptr<Device>(bool whole)>;

struct SelectSetup {
  const char* name;
  int64_t heads, dim;
  op::SelectSlots params;
  DType type;
  int32_t tokens;
  bool weighted = true;
};

/// Lists of slots or blocks: more than a part, blocks, blocks by number and heads that choose for
/// themselves, in contexts of several tiles of keys.
inline const SelectSetup kSelectSetups[] = {
    {"slots", 20, 64, {0, 300}, DType::f16, 1500},
    {"few slots of odd keys", 3, 37, {0, 5}, DType::f32, 1100, false},
    {"blocks", 4, 32, {0, 64, 4}, DType::q8_0, 2500},
    {"blocks by number", 5, 64, {0, 96, 2, true}, DType::bf16, 1300},
    {"by head", 3, 32, {0, 60, 3, false, true}, DType::f16, 1400, false},
    {"more parts than are merged at once, equal scores", 1, 16, {0, 700}, DType::f16, 9000},
};

/// Checks that lists do not depend on how many parts they are made of, also those of a step of more
/// rows than attention splits.
inline void check_lists(const OpenSplit& open) {
  for (const SelectSetup& setup : kSelectSetups) {
    CAPTURE(setup.name);
    const auto dim = static_cast<int32_t>(setup.dim);
    const int32_t tokens = setup.params.numbers ? setup.params.block : 1;
    const KvGeometry geometry{
        {{.heads = 1, .k_dim = dim, .v_dim = dim, .v_in_k = true, .tokens = tokens}},
        setup.type,
        setup.type};
    const auto filled = [&](bool whole) {
      CacheRun run(geometry, setup.tokens, open(whole));
      run.store([&](const CacheGraph& graph) {
        const ValueId k = graph.input(0, dim);
        graph.g.add_all(op::KvStore{0}, {k, k, graph.slots, graph.sequences});
      });
      return run;
    };
    CacheRun whole = filled(true);
    CacheRun parts = filled(false);
    const auto build = [&](const CacheGraph& graph) {
      const ValueId weights = setup.weighted ? graph.input(2, setup.heads) : kNoValue;
      return graph.g.add(setup.params,
                         {graph.input(1, dim, setup.heads), weights, graph.slots, graph.sequences});
    };
    check_parts<int32_t>(whole, parts,
                         {setup.params.most() + 1, setup.tokens / 2, setup.tokens - 3}, build);
    constexpr int32_t kMany = 40;
    const int32_t slot = setup.tokens - kMany;
    CHECK((parts.run<int32_t>(slot, kMany, build) == whole.run<int32_t>(slot, kMany, build)));
  }
}

/// The same of attention to lists of slots, whose keys are latent.
inline void check_listed(const OpenSplit& open) {
  constexpr int32_t kTokens = 1500;
  constexpr int32_t kDim = 64;
  constexpr int64_t kHeads = 11;
  const KvLayerShape shape{.heads = 1, .k_dim = kDim, .v_dim = 48, .v_in_k = true};
  const auto filled = [&](bool whole) {
    CacheRun run({{shape, shape}, DType::f16, DType::f16}, kTokens, open(whole));
    run.store([&](const CacheGraph& graph) {
      for (const int32_t layer : {0, 1}) {
        const ValueId k = graph.input(layer, kDim);
        graph.g.add_all(op::KvStore{layer},
                        {k, graph.g.slice(k, 0, shape.v_dim), graph.slots, graph.sequences});
      }
    });
    return run;
  };
  CacheRun whole = filled(true);
  CacheRun parts = filled(false);
  const auto build = [&](const CacheGraph& graph) {
    const ValueId chosen =
        graph.g.add(op::SelectSlots{1, 300},
                    {graph.input(2, kDim, 4), graph.input(3, 4), graph.slots, graph.sequences});
    return graph.g.add(op::Attention{0, 0.15f}, {graph.input(4, kDim, kHeads), graph.slots,
                                                 graph.sequences, kNoValue, kNoValue, chosen});
  };
  check_parts<float>(whole, parts, {100, 700, kTokens - 3}, build);
  const SelftestReport report =
      run_conformance(*open(false), false, [](const OpDef& op, const OpCase& c) {
        return op.id == OpId::Attention && c.rows <= 33 && c.name.find(" chosen ") != c.name.npos;
      });
  for (const std::string& failure : report.failures) FAIL_CHECK(failure);
  CHECK(report.passed > 5);
}

struct PooledSetup {
  const char* name;
  int64_t heads;
  int32_t k_dim, v_dim, window, tokens;
  DType type;
};

/// One chunk and several, of one page and of several.
inline const PooledSetup kPooledSetups[] = {
    {"blocks of 4", 11, 64, 64, 100, 4, DType::f16},
    {"blocks of 1, odd sizes", 3, 37, 19, 20, 1, DType::f32},
};

/// Checks that attention to blocks does not depend on how many chunks of keys a group computes.
inline void check_pooled(const OpenSplit& open) {
  constexpr int32_t kTokens = 2200;
  for (const PooledSetup& setup : kPooledSetups) {
    CAPTURE(setup.name);
    const auto layer = [&](int32_t tokens) {
      return KvLayerShape{
          .heads = 1, .k_dim = setup.k_dim, .v_dim = setup.v_dim, .v_in_k = true, .tokens = tokens};
    };
    const auto filled = [&](bool whole) {
      CacheRun run({{layer(1), layer(setup.tokens)}, setup.type, setup.type}, kTokens, open(whole));
      run.store([&](const CacheGraph& graph) {
        for (const int32_t of : {0, 1}) {
          const ValueId k = graph.input(of, setup.k_dim);
          graph.g.add_all(op::KvStore{of},
                          {k, graph.g.slice(k, 0, setup.v_dim), graph.slots, graph.sequences});
        }
      });
      return run;
    };
    CacheRun whole = filled(true);
    CacheRun parts = filled(false);
    const auto build = [&](const CacheGraph& graph) {
      const float scale = 1.2f / std::sqrt(static_cast<float>(setup.k_dim));
      return graph.g.add(op::PooledAttention{0, 1, scale, setup.window},
                         {graph.input(2, setup.k_dim, setup.heads), graph.slots, graph.sequences,
                          kNoValue, kNoValue});
    };
    check_parts<float>(whole, parts, {0, 70, 700, kTokens - 3}, build);
  }
}

}  // namespace infer::test
