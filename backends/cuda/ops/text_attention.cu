#include "backends/cuda/ops/text_attention.h"

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/step.h"
#include "backends/cuda/device/text_rows.h"

// A block computes 16 neighbouring rows of a head, text by text. Keys are visited 64 at a time from
// the begin of the text, whatever rows the block has, and a row skips what it does not see: so the
// rows beside it change no bit.
namespace infer::cuda {

/// kOwn: elements of values of a thread.
template <uint32_t kOwn>
INFER_DEVICE void attend_texts(const TextAttentionParams& p) {
  constexpr uint32_t kParts = kTextKeys / kTextQueries;  // threads that share a query's softmax
  constexpr uint32_t kPart = kTextKeys / kParts;         // keys of such a thread
  const SharedPtr<float> queries = dynamic_shared<float>(0, kTextQueries * p.k_dim);
  INFER_SHARED(float, weights, kTextQueries* kTextKeys);  // scores at first
  INFER_SHARED(float, largest, kTextKeys);
  INFER_SHARED(float, sums, kTextKeys);
  INFER_SHARED(float, shrinks, kTextQueries);
  const uint32_t head = block_y();
  const uint32_t rows = step_rows(p.step, p.rows);
  const uint32_t first = block_x() * kTextQueries;
  if (first >= rows) return;
  const uint32_t last = first + kTextQueries < rows ? first + kTextQueries : rows;
  const Global<const float> q(p.q);
  for (uint32_t i = thread(); i < kTextQueries * p.k_dim; i += kTextKeys) {
    const uint32_t row = first + i / p.k_dim;
    queries[i] = row < last ? q[place(p.q_strides, head, row) + i % p.k_dim] : 0.0f;
  }
  // The query whose softmax this thread shares.
  const uint32_t mine = thread() / kParts;
  const uint32_t part = thread() % kParts;
  const uint32_t row = first + mine < last ? first + mine : last - 1;
  const SeenRows seen = seen_rows(p, row);
  const float slope = p.slopes != 0 ? Global<const float>(p.slopes)[head] : 0.0f;
  float most = p.sinks != 0 ? Global<const float>(p.sinks)[head] : -infinity();
  float sum = p.sinks != 0 ? 1.0f : 0.0f;
  float mix[kOwn][kTextQueries] = {};
  sync_block();

  for (uint32_t from = first; from < last;) {  // the rows of one text
    const auto begin = static_cast<uint32_t>(Global<const int32_t>(p.begins)[from]);
    const auto end = static_cast<uint32_t>(Global<const int32_t>(p.ends)[from]);
    const uint32_t to = end < last ? end : last;
    const uint32_t keys_end = seen_rows(p, to - 1).end;
    const uint32_t keys_begin = seen_rows(p, from).begin;
    for (uint32_t page = begin + (keys_begin - begin) / kTextKeys * kTextKeys; page < keys_end;
         page += kTextKeys) {
      float score[kTextQueries] = {};
      if (page + thread() < keys_end) {
        const Global<const float> key(
            p.k + uint64_t{place(p.k_strides, head / p.group, page + thread())} * 4);
        for (uint32_t d = 0; d < p.k_dim; ++d) {
          const float element = key[d];
#pragma unroll
          for (uint32_t i = 0; i < kTextQueries; ++i) {
            score[i] = fused(queries[i * p.k_dim + d], element, score[i]);
          }
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < kTextQueries; ++i) weights[i * kTextKeys + thread()] = score[i];
      sync_block();
      const uint32_t own_at = mine * kTextKeys + part * kPart;
      float own[kPart];
      float best = -infinity();
#pragma unroll
      for (uint32_t i = 0; i < kPart; ++i) {
        const uint32_t key = page + part * kPart + i;
        const bool sees = row >= from && row < to && key >= seen.begin && key < seen.end;
        float x = weights[own_at + i] * p.scale;
        const auto distance =
            static_cast<float>(static_cast<int32_t>(row) - static_cast<int32_t>(key));
        if (p.slopes != 0) x = fused(-slope, magnitude_of(distance), x);
        if (p.softcap > 0) x = p.softcap * tanh_of(x / p.softcap);
        own[i] = sees ? x : -infinity();
        best = most_of(best, own[i]);
      }
      largest[thread()] = best;
      sync_block();
      float now = most;
#pragma unroll
      for (uint32_t i = 0; i < kParts; ++i) now = most_of(now, largest[mine * kParts + i]);
      const float shrink = now > most ? exp_of(most - now) : 1.0f;
      float part_sum = 0;
#pragma unroll
      for (uint32_t i = 0; i < kPart; ++i) {
        const float weight = own[i] > -infinity() ? exp_of(own[i] - now) : 0.0f;
        weights[own_at + i] = weight;
        part_sum = part_sum + weight;
      }
      sums[thread()] = part_sum;
      if (part == 0) shrinks[mine] = shrink;
      sync_block();
      float page_sum = 0;
#pragma unroll
      for (uint32_t i = 0; i < kParts; ++i) page_sum = page_sum + sums[mine * kParts + i];
      sum = fused(sum, shrink, page_sum);
      most = now;
      const uint32_t count = keys_end - page < kTextKeys ? keys_end - page : kTextKeys;
#pragma unroll
      for (uint32_t o = 0; o < kOwn; ++o) {
        const uint32_t d = thread() + o * kTextKeys;
        if (d >= p.v_dim) continue;
#pragma unroll
        for (uint32_t i = 0; i < kTextQueries; ++i) mix[o][i] = mix[o][i] * shrinks[i];
        for (uint32_t t = 0; t < count; ++t) {
          const float element =
              Global<const float>(p.v)[place(p.v_strides, head / p.group, page + t) + d];
#pragma unroll
          for (uint32_t i = 0; i < kTextQueries; ++i) {
            mix[o][i] = fused(weights[i * kTextKeys + t], element, mix[o][i]);
          }
        }
      }
      sync_block();
    }
    from = to;
  }
  if (part == 0) sums[mine] = sum;
  sync_block();
#pragma unroll
  for (uint32_t o = 0; o < kOwn; ++o) {
    const uint32_t d = thread() + o * kTextKeys;
#pragma unroll
    for (uint32_t i = 0; i < kTextQueries; ++i) {
      if (d < p.v_dim && first + i < last) {
        Global<float>(p.y)[place(p.y_strides, head, first + i) + d] = mix[o][i] / sums[i];
      }
    }
  }
}

INFER_KERNEL(text_attention_64, TextAttentionParams, kTextKeys, 1) { attend_texts<1>(p); }
INFER_KERNEL(text_attention_128, TextAttentionParams, kTextKeys, 1) { attend_texts<2>(p); }
INFER_KERNEL(text_attention_256, TextAttentionParams, kTextKeys, 1) { attend_texts<4>(p); }

}  // namespace infer::cuda
