// Importance matrices: how much an error in each column of each weight matters. The measure is the
// mean of the squared activations that are multiplied with the column: a weight that is multiplied
// with large values has to be stored more exactly.
//
// The files are those of llama.cpp: GGUF with general.type "imatrix". For each matrix NAME.in_sum2
// [columns, experts] has the sums and NAME.counts [1, experts] the number of activations, both F32.
// The older format ("imatrix.dat") is read too.
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

  /// Mean squares [columns, experts]; 1 for all columns of an expert without activations.
  std::vector<float> means() const;
};

struct ImportanceMatrix {
  std::vector<std::string> datasets;  ///< files or names of the texts
  int64_t chunks = 0;
  int64_t chunk_tokens = 0;
  std::map<std::string, ImportanceEntry> entries;  ///< by the weight's name
};

/// Reads a file. Errors: not_found, io; bad_file, with the entry, for an invalid shape, count or
/// value (negative, NaN, infinite), and for a file without entries.
Result<ImportanceMatrix> load_importance(const std::string& path);

/// Writes a GGUF file, which appears complete or not at all. Errors: io.
Status save_importance(const std::string& path, const ImportanceMatrix& matrix);

}  // namespace infer
