// What a draft head in a file of its own takes tokens by, and which tokens it gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/hparams.h"

namespace infer {

struct DraftVocabulary {
  std::string table;         ///< name of the table of tokens: its own, or the main model's
  std::string output;        ///< name of the output without ".weight": likewise
  int64_t rows = 0;          ///< of the output
  std::vector<int32_t> ids;  ///< "d2t", by row: the token of the main model; empty: the same
};

/// Reads it; the reader's source is a DraftSource. `width`: of the head. `tied`: a head with a
/// table of its own has its output there if it has no "output". Failures stay in the reader.
DraftVocabulary read_draft_vocabulary(HparamReader& reader, const ModelInfo& main, int64_t width,
                                      bool tied = false);

}  // namespace infer
