// What tests of heads share: a model with its head, steps of both by hand, generated texts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/session/opened_model.h"
#include "infer/infer.hpp"
#include "tests/golden/golden.h"

namespace infer::test {

/// The one with this name.
GoldenModel golden_model(const std::string& name);

LoadOptions without_head();
/// A head in a file of its own is to draft.
LoadOptions with_head(const std::string& head);
/// Why a model and a head cannot be loaded together; ok if they can.
Status refusal_of_head(const std::string& main, const std::string& head);

// Damaged files.

/// Changes the number of 4 bytes at `at` bytes behind a key of a GGUF file. Scalars begin 4 bytes
/// behind their key, the elements of arrays 16 bytes.
void change_key(std::string& bytes, const std::string& key, size_t at, int32_t value);
/// Renames a tensor to a name of equal length.
void rename_in(std::string& bytes, const std::string& from, const std::string& to);

/// Hidden states that the rows of a step take, one after the other.
struct GivenStates {
  std::span<const float> main;
  std::span<const float> own;  ///< ModelInfo::takes_own
};

/// Runs the rows [begin, end) of one sequence, with the result of every row. The sequence has a
/// place for each token from `first` on. Adds what the step returns as "hidden" to `states`.
std::vector<float> run_rows(Executor& executor, KvCache& cache, KvCache::SequenceId id,
                            std::span<const int32_t> tokens, size_t begin, size_t end,
                            const GivenStates& given, std::vector<float>* states, size_t first = 0);

/// A model and the heads that draft for it, in float32.
struct ModelAndHead {
  OpenedModels models;
  std::unique_ptr<Executor> executor, head;
  std::unique_ptr<KvCache> cache, head_cache;
  /// The heads after the first one, in their order.
  struct Further {
    std::unique_ptr<Executor> head;
    std::unique_ptr<KvCache> cache;
  };
  std::vector<Further> further;

  /// `draft`: the head's file; empty: the head is in the model's. `apart`: as for devices with two
  /// numeric classes.
  explicit ModelAndHead(const std::string& path, const std::string& draft = "", bool apart = false);
};

std::unique_ptr<Engine> load_engine(const std::string& path, const LoadOptions& options);

/// Greedy for the seed 0, else sampled. `drafts`: GenerateOptions::draft_tokens.
GenerateOptions generating(int32_t tokens, uint64_t seed, int32_t drafts);

struct DraftedText {
  std::vector<int32_t> tokens;
  int64_t drafted = 0, accepted = 0;
};

DraftedText generated_text(Session& session, std::span<const int32_t> prompt,
                           const GenerateOptions& options);

/// Checks that a model writes the same `tokens` tokens with a head and without, greedily and
/// sampled, with different numbers of drafts and of rows in a step. Adds what was drafted to `all`.
void expect_same_texts(const GoldenModel& model, const LoadOptions& plain, LoadOptions with_head,
                       int32_t tokens, DraftedText& all);

/// Texts of several turns, of a truncated, a restored and a forked beginning.
std::vector<std::vector<int32_t>> texts_of_turns(Engine& engine, std::span<const int32_t> prompt,
                                                 const std::string& folder, int32_t drafts);

/// Texts of four sessions that generate at the same time, with different numbers of drafts.
std::vector<std::vector<int32_t>> texts_at_once(Engine& engine, std::span<const int32_t> prompt);
/// The same one after another, without drafts.
std::vector<std::vector<int32_t>> texts_in_turn(Engine& engine, std::span<const int32_t> prompt);

}  // namespace infer::test
