// Importance matrices: how much an error in each column of each weight matters, measured as the
// mean of the squared activations that the column is multiplied with. A weight that large values
// meet has to be kept more exactly.
//
// Files are those of llama.cpp: GGUF with general.type "imatrix" and, for each matrix, the sums
// NAME.in_sum2 [columns, experts] and how many activations they are of, NAME.counts [1, experts],
// both F32. Its older format ("imatrix.dat") is read too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/core/status.h"

namespace infer {

struct ImportanceEntry {
  int64_t columns = 0;
  int64_t experts = 1;
  std::vector<float> sums;    ///< [columns, experts] of squares
  std::vector<float> counts;  ///< [experts] activations

  /// Mean squares [columns, experts]; ones for an expert that no activation met.
  std::vector<float> means() const;
};

struct ImportanceMatrix {
  std::vector<std::string> datasets;  ///< files or names of the texts
  int64_t chunks = 0;
  int64_t chunk_tokens = 0;
  std::map<std::string, ImportanceEntry> entries;  ///< by the weight's name
};

/// not_found, io; bad_file naming the entry where a shape, a count or a value (negative, NaN,
/// infinite) makes no sense, or if nothing is in it.
Result<ImportanceMatrix> load_importance(const std::string& path);

/// Writes the GGUF form; the file is there in full or not at all. io.
Status save_importance(const std::string& path, const ImportanceMatrix& matrix);

}  // namespace infer
