// The shape of what sequences remember: keys and values in pages of 64 tokens, recurrent states in
// one page, found through block tables and slabs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/dtype.h"

namespace infer {

inline constexpr int kPageTokens = 64;

/// One layer's share of the cache: the keys and values of an attention, or a recurrent state. A
/// layer of the model may have several of them or none.
struct KvLayerShape {
  int32_t heads = 0;   ///< key–value heads
  int32_t k_dim = 0;   ///< elements of a key
  int32_t v_dim = 0;   ///< elements of a value
  int32_t window = 0;  ///< tokens that a token sees, itself included; 0: all
  /// A value is the first v_dim elements of its key (multi-head latent attention). If keys and
  /// values have the same type, they share their bytes.
  bool v_in_k = false;
  int32_t place = 0;  ///< number of the device that keeps it
  int32_t layer = 0;  ///< of the model: it is kept where that layer's attention is computed
  int64_t state = 0;  ///< float32 elements of a recurrent state; 0: keys and values
  /// Tokens of a block that has one key and one value, at its last token: slots [b·tokens,
  /// (b + 1)·tokens) are block b. More than 1: a single kv head.
  int32_t tokens = 1;
};

/// Rows of recurrent states are padded to a multiple of this many elements.
inline constexpr int64_t kStatePad = 16;
/// The columns of a scan's matrix are in blocks of this many (graph/params.h).
inline constexpr int64_t kStateColumns = 64;
/// Taps of a causal convolution.
inline constexpr int64_t kMostTaps = 16;

// Elements of a state (graph/params.h): the inputs that a causal convolution keeps, and the matrix
// of each head of a scan.
int64_t conv_state(int64_t taps, int64_t channels);
int64_t scan_state(int64_t heads, int64_t rows, int64_t columns);

/// All layers of one model and the types they are stored in.
struct KvGeometry {
  std::vector<KvLayerShape> layers;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
};

/// A kind of layer: layers of one device with the same window, or with a recurrent state. They
/// share their pages. A kind with a window frees its pages as they fall behind the window. A
/// sequence has one page of states, whatever its length: it holds the states after the last
/// committed token.
struct KvKind {
  int32_t window = 0;  ///< tokens that a token sees, itself included; 0: all
  int64_t page_bytes = 0;
  int32_t place = 0;   ///< number of the device that keeps the pages
  bool state = false;  ///< of recurrent states

  /// Pages in the table of a sequence of so many tokens.
  int64_t table_pages(int64_t tokens) const;
};

/// Where the keys and values of a layer are in a page of its kind, in bytes. A state is at
/// k_offset.
///
/// Keys are [heads][kPageTokens][k_row] bytes, values [heads][kPageTokens][v_row] bytes. Transposed
/// keys (k_element > 0) are [heads][k_dim][kPageTokens] elements, because a kernel computes the
/// scores of a vector of keys at once; they take the same memory. Values that are part of their
/// keys (v_in_k) have the offset and the row of the keys. Then v_row is the size of a key, and
/// storing a value writes the bytes that its key has there already.
///
/// With blocks of more than one token a page has `rows` keys and values in place of kPageTokens:
/// those of the blocks that end in it, the one that ends at slot s at (s mod kPageTokens) / tokens.
/// The keys are not transposed.
struct KvLayerLayout {
  int32_t kind = 0;
  int64_t k_offset = 0;
  int64_t v_offset = 0;
  int64_t k_row = 0;      ///< bytes of one key
  int64_t v_row = 0;      ///< bytes of one value
  int64_t k_element = 0;  ///< bytes of an element of transposed keys; 0: they are not transposed
  int32_t tokens = 1;     ///< KvLayerShape
  int64_t rows = kPageTokens;

  /// The row in its page of a slot that ends a block.
  int64_t row(int64_t slot) const { return slot % kPageTokens / tokens; }
  bool ends_block(int64_t slot) const { return (slot + 1) % tokens == 0; }
};

/// The canonical layout of pages: the layers of a kind follow one another, each with keys before
/// values, aligned to 64 bytes. Keys are transposed unless their type has blocks, they share
/// their bytes with values, or several tokens share a key.
struct KvLayout {
  std::vector<KvKind> kinds;
  std::vector<KvLayerLayout> layers;
};

KvLayout canonical_kv_layout(const KvGeometry& geometry);

/// Pages behind a window are kept for this many more tokens, so that a sequence can be rolled back
/// by as many.
inline constexpr int64_t kKvRollback = 64;

/// Pages of one kind for `context` tokens in all, of at most `sequences` sequences, if a step has
/// up to `rows` tokens. A recurrent state has a page for each sequence and each
/// checkpoint; there are at most as many checkpoints as full pages of tokens.
int64_t kv_pages(const KvKind& kind, int64_t context, int64_t sequences, int64_t rows);
/// Bytes of the pages of all kinds.
int64_t kv_bytes(const KvLayout& layout, int64_t context, int64_t sequences, int64_t rows);

/// The pages of one kind for one step. Page p is number p % pages_per_slab of slab
/// p / pages_per_slab.
struct KvPages {
  std::byte* const* slabs = nullptr;
  int32_t pages_per_slab = 1;
  int64_t page_bytes = 0;
  /// [sequences][table_stride] page ids. Ids of pages behind the window are not valid.
  const int32_t* block_tables = nullptr;
  int32_t table_stride = 0;

  /// Of recurrent states.
  float* state(int32_t sequence, int64_t offset) const {
    return reinterpret_cast<float*>(page(sequence, 0) + offset);
  }
  std::byte* page(int32_t sequence, int64_t slot) const {
    const int32_t id = block_tables[int64_t{sequence} * table_stride + slot / kPageTokens];
    return slabs[id / pages_per_slab] + int64_t{id % pages_per_slab} * page_bytes;
  }
};

}  // namespace infer
