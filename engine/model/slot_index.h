// The index that chooses the tokens that queries see ("lightning indexer": DeepSeek-V3.2): small
// queries and keys of their own, "indexer.…".
#pragma once

#include <string>
#include <vector>

#include "engine/model/builder.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

namespace infer {

struct SlotIndex {
  int64_t heads = 1;
  int64_t key = 1;  ///< elements of a key
  int32_t count = 1;
  op::Rope::Style style = op::Rope::Style::half_split;
  int64_t unturned = 0;  ///< first elements of a key that RoPE leaves alone; the rest is turned
  bool rotates = true;   ///< RoPE on keys and queries
  float eps = 1e-6f;     ///< of the norm of keys
  /// Tokens of a block. Blocks of more than one are chosen as a whole, by one key: a mean of those
  /// of its tokens by gates of each element ("indexer_compressor_*"; Z.ai 2026).
  int32_t block = 1;
  std::vector<int32_t> states;  ///< by layer: index in ModelInfo::kv_layers of what blocks need
  /// By layer: index in ModelInfo::kv_layers; −1: the layer takes what the last one before it has
  /// chosen. Empty: queries see all tokens.
  std::vector<int32_t> caches;

  /// Elements of such a state.
  int64_t pool_state() const;
  /// Reads its keys, and gives each layer that `has` marks a cache. `least`: elements of a key.
  /// Failures stay in the reader.
  void read(HparamReader& reader, const std::vector<bool>& has, int64_t least,
            std::vector<KvLayerShape>& layers);
};

/// The slots that a layer's queries see. `latent`: what queries are projected from.
ValueId choose_slots(ModelBuilder& m, ValueId x, ValueId latent, int64_t layer,
                     const SlotIndex& index);

/// The means of blocks by gates [width, 1, rows] and a table of what each place in a block adds to
/// them, [width, block]: right in the rows that end a block.
ValueId pool_blocks(ModelBuilder& m, ValueId value, ValueId gate, const std::string& table,
                    const op::BlockPool& pool);

/// The keys of a checkpoint's index and its tensors. `heads`: where the configuration does not say.
/// `has`: which layers have one. `halves`: the last elements of keys that RoPE turns; those that it
/// turns together lie half of these apart in the checkpoint. 0: they are stored as they are used.
void map_slot_index(CheckpointMap& m, int64_t heads, const std::vector<bool>& has,
                    int64_t halves = 0);

/// Copies a matrix, or a vector, and its bias, if the checkpoint has it: of each head's `rows` the
/// last `turned`, which RoPE turns in pairs half of these apart, become neighbours.
void put_turned(CheckpointMap& m, const std::string& from, const std::string& to, int64_t rows,
                int64_t heads, int64_t turned);

/// Which layers have an index, by "indexer_types"; empty if there is no such list.
std::vector<bool> indexed_layers(CheckpointConfig& config, int64_t layers);

}  // namespace infer
