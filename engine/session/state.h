// Sessions in files: tokens and cache pages under a checksum.
//
// Little endian: the header below; tokens, int32 each; then the pages that the next token sees,
// kind by kind, as the device keeps them; last the XXH3-64 of all before.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/kv_cache.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// What a session is beside its pages.
struct SessionState {
  std::vector<int32_t> tokens;
  int64_t cached = 0;  ///< of them in the cache, the first ones
  int64_t shifted = 0;
  uint64_t seed = 0;
};

/// Whose pages they are: weights, types and layout. Files of other models are told apart by the
/// names, shapes and first bytes of all weights. io if the model cannot be read.
Result<uint64_t> model_fingerprint(const WeightSource& source, const KvGeometry& geometry,
                                   const KvLayout& layout);

/// Writes the state of a sequence. io.
Status save_state(const std::string& path, uint64_t fingerprint, const SessionState& state,
                  Device& device, const KvCache& cache, KvCache::SequenceId id);

/// Reads it into an empty sequence. Errors as those of Session::restore; the sequence is as it was
/// then.
Result<SessionState> restore_state(const std::string& path, uint64_t fingerprint,
                                   int64_t vocabulary, Device& device, KvCache& cache,
                                   KvCache::SequenceId id);

}  // namespace infer
