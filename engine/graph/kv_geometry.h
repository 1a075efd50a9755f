// The shape of the key–value cache: pages of 64 tokens, found through block tables and slabs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/dtype.h"

namespace infer {

inline constexpr int kPageTokens = 64;

/// One attention layer's share of the cache.
struct KvLayerShape {
  int32_t heads = 0;   ///< key–value heads
  int32_t k_dim = 0;   ///< elements of a key
  int32_t v_dim = 0;   ///< elements of a value
  int32_t window = 0;  ///< tokens seen back, itself included; 0: all
  /// Values are the first v_dim elements of the keys (multi-head latent attention): where both are
  /// stored alike they share their bytes.
  bool v_in_k = false;
  int32_t place = 0;  ///< which of several devices keeps it
};

/// All layers of one model and the types they are stored in.
struct KvGeometry {
  std::vector<KvLayerShape> layers;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
};

/// Layers that look back equally far share their pages, on each device: those of a window let their
/// pages go as they fall behind it.
struct KvKind {
  int32_t window = 0;  ///< tokens seen back, the token itself included; 0: all
  int64_t page_bytes = 0;
  int32_t place = 0;  ///< which of several devices keeps them
};

/// Where a layer lies in a page of its kind, in bytes. Keys are [heads][kPageTokens][k_row], values
/// [heads][kPageTokens][v_row]. Keys that lie across are [heads][k_dim][kPageTokens] elements,
/// which is how scores are computed, for a vector of keys at a time; they take the same memory.
/// Shared values have the keys' offset and row, so that v_row may be more than a value takes, and
/// storing one writes the bytes that its key has there already.
struct KvLayerLayout {
  int32_t kind = 0;
  int64_t k_offset = 0;
  int64_t v_offset = 0;
  int64_t k_row = 0;      ///< bytes of one key
  int64_t v_row = 0;      ///< bytes of one value
  int64_t k_element = 0;  ///< bytes of an element of a key that lies across; 0: it does not
};

/// The canonical pages: layers of a kind one after another, keys before values, each aligned to 64
/// bytes. Keys lie across unless they are stored in blocks or shared with values.
struct KvLayout {
  std::vector<KvKind> kinds;
  std::vector<KvLayerLayout> layers;
};

KvLayout canonical_kv_layout(const KvGeometry& geometry);

/// Pages behind a window stay for this many tokens more, so that as many can be taken back.
inline constexpr int64_t kKvRollback = 64;

/// Pages of one kind that hold `context` tokens of at most `sequences` sequences together, in steps
/// of up to `rows` tokens.
int64_t kv_pages(const KvKind& kind, int64_t context, int64_t sequences, int64_t rows);
/// Bytes of all kinds of pages, likewise.
int64_t kv_bytes(const KvLayout& layout, int64_t context, int64_t sequences, int64_t rows);

/// The pages of one kind as a step sees them. Page p lies in slab p / pages_per_slab.
struct KvPages {
  std::byte* const* slabs = nullptr;
  int32_t pages_per_slab = 1;
  int64_t page_bytes = 0;
  /// [sequences][table_stride] page ids; those of pages behind the window are not valid.
  const int32_t* block_tables = nullptr;
  int32_t table_stride = 0;

  std::byte* page(int32_t sequence, int64_t slot) const {
    const int32_t id = block_tables[int64_t{sequence} * table_stride + slot / kPageTokens];
    return slabs[id / pages_per_slab] + int64_t{id % pages_per_slab} * page_bytes;
  }
};

}  // namespace infer
