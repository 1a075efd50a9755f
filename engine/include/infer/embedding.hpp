// Vectors of texts, and scores of texts for a query: what Engine::embed() and Engine::rerank() take
// and return.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace infer {

struct EmbedOptions {
  /// Only the first so many elements of each vector, for models that are made for that (Kusupati et
  /// al. 2022, Matryoshka). 0: all.
  int32_t dimensions = 0;
  /// Divides each vector, after `dimensions`, by its length.
  bool normalise = true;
  /// A text that is too long for the model loses its last tokens before the token that ends it.
  /// False: such a text is an error.
  bool truncate = false;
  /// Gets the share of the texts that are done, before each step. Return false to cancel: the call
  /// then fails with StatusCode::cancelled.
  std::function<bool(double)> progress;
  /// By text: its tokens, which are computed as they are, in place of the text. None: the text is
  /// used, and control tokens that it spells out are those tokens. May be shorter than the texts.
  std::vector<std::vector<int32_t>> tokens;
};

struct Embeddings {
  int32_t dimensions = 0;     ///< elements of a vector
  std::vector<float> values;  ///< the vectors one after the other, each of `dimensions`
  /// The vectors of text i are those from begins[i] on and before begins[i + 1]: one, or with
  /// pooling "none" one for each token. [texts + 1]
  std::vector<int64_t> begins;
  int64_t tokens = 0;  ///< of all texts, as computed
};

struct RerankOptions {
  /// A document that is too long together with the query loses its last tokens. False: an error.
  bool truncate = false;
  /// As EmbedOptions::progress.
  std::function<bool(double)> progress;
};

struct RankedText {
  int32_t index = 0;   ///< in what was given
  float score = 0.0f;  ///< what the model's classifier makes; higher fits better
};

struct Ranking {
  std::vector<RankedText> texts;  ///< highest score first; of equal scores the lower index
  int64_t tokens = 0;             ///< of all queries and texts, as computed
};

}  // namespace infer
