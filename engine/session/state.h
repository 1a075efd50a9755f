// Sessions in files: tokens and cache pages under a checksum.
//
// state_file.h has the format. Pages are copied on the engine's thread, a few at a time between
// steps; everything else is done on the caller's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/session/engine_impl.h"

namespace infer {

/// What a session is beside its pages.
struct SessionState {
  std::vector<int32_t> tokens;
  std::vector<bool> generated;  ///< Sequence::generated
  int64_t cached = 0;           ///< of them in the cache, the first ones
  int64_t shifted = 0;
  uint64_t seed = 0;
  std::vector<float> adapters;  ///< Sequence::adapters
};

/// A sequence of an engine's cache, removed with the object.
class CacheSequence {
 public:
  explicit CacheSequence(Engine::Impl& engine);
  ~CacheSequence();
  CacheSequence(const CacheSequence&) = delete;
  CacheSequence& operator=(const CacheSequence&) = delete;

  KvCache::SequenceId id = 0;
  std::unique_ptr<EngineThread::Task> removal;

 private:
  Engine::Impl& engine_;
};

/// Writes the state of a sequence that nobody computes meanwhile; of `state`, `cached` does not
/// matter. Where others take its pages while they are copied, the tokens are saved alone. io.
Status save_state(Engine::Impl& engine, const std::string& path, const SessionState& state,
                  KvCache::SequenceId id);

/// Reads it into an empty sequence that nobody uses yet, of a session with these factors of
/// adapters. Where the cache has no room for the pages the state's `cached` is 0. Errors
/// as those of Session::restore.
Result<SessionState> restore_state(Engine::Impl& engine, const std::string& path,
                                   KvCache::SequenceId id, std::span<const float> adapters);

}  // namespace infer
