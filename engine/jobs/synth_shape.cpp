#include "engine/jobs/synth_shape.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace infer {
namespace {

Status check(const SynthShape& s, int64_t min_tokens) {
  const auto in = [](int64_t x, int64_t low, int64_t high) { return x >= low && x <= high; };
  constexpr int64_t kWide = int64_t{1} << 20;
  if (!in(s.layers, 1, 1024) || !in(s.embedding, 1, kWide) || !in(s.feed_forward, 1, kWide) ||
      !in(s.heads, 1, 4096) || !in(s.kv_heads, 1, s.heads) || !in(s.experts, 0, 65536) ||
      !in(s.expert_width(), 1, kWide) || !in(s.head_dim, 0, kWide) ||
      !in(s.context, 1, int64_t{1} << 31)) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': give layers, embedding, feed-forward and heads within reason",
                 s.name);
  }
  if ((s.head_dim == 0 && s.embedding % s.heads != 0) || s.head_size() % 2 != 0 ||
      (s.rope_size() < 2 && s.latent.latent == 0) || s.heads % s.kv_heads != 0) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': heads must divide the embedding into even parts and be a multiple "
                 "of the key-value heads",
                 s.name);
  }
  if (s.experts > 0 && !in(s.experts_used, 1, s.experts)) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': expected 1 to {} experts used, found {}", s.name, s.experts,
                 s.experts_used);
  }
  if (const SynthWindow& w = s.window; w.shared > 0 && s.layers - w.shared < w.period) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': of {} layers {} would share the keys of the {} before them, which "
                 "have to be at least {}; expected more layers",
                 s.name, s.layers, w.shared, s.layers - w.shared, w.period);
  }
  if (!in(s.tokens, min_tokens, int64_t{1} << 24)) {
    return error(StatusCode::invalid_argument, "shape '{}': expected {} to {} tokens, found {}",
                 s.name, min_tokens, int64_t{1} << 24, s.tokens);
  }
  return {};
}

}  // namespace

std::vector<std::string> synth_shapes() {
  std::vector<std::string> names;
  for (const SynthShape& shape : all_synth_shapes()) names.push_back(shape.name);
  return names;
}

Result<SynthShape> synth_shape(const SynthOptions& o) {
  const auto all = all_synth_shapes();
  const auto found = std::ranges::find(all, o.shape, &SynthShape::name);
  if (found == all.end()) {
    return fail(StatusCode::invalid_argument, "unknown shape '{}'; expected one of {}", o.shape,
                fmt::join(synth_shapes(), ", "));
  }
  SynthShape s = *found;
  const auto replace = [](int64_t& own, int64_t given) { own = given != 0 ? given : own; };
  replace(s.layers, o.layers);
  replace(s.embedding, o.embedding);
  replace(s.feed_forward, o.feed_forward);
  replace(s.heads, o.heads);
  replace(s.kv_heads, o.kv_heads);
  replace(s.head_dim, o.head_dim);
  replace(s.tokens, o.tokens);
  replace(s.experts, o.experts);
  replace(s.experts_used, o.experts_used);
  replace(s.expert_feed_forward, o.expert_feed_forward);
  replace(s.context, o.context);
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  s.window.shared = s.window.shared * s.layers / std::max<int64_t>(found->layers, 1);
  if (s.tokens == 0) s.tokens = 32000;
  INFER_CHECK_R(check(s, o.vocabulary.empty() ? kMinSynthTokens : 1));
  return s;
}

}  // namespace infer
