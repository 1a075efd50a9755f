// Vectors and scores of texts for all interfaces. They are computed beside the workers, since the
// library's functions return only when they are done.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/api/api.h"

namespace infer::server {

/// At most so many texts in a request.
inline constexpr size_t kMostTexts = 2048;

/// A text, tokens, or an array of either: texts, and EmbedOptions::tokens. Throws Problem.
std::vector<std::string> read_input(Fields& fields, const char* name, const Engine& engine,
                                    EmbedOptions& options);
/// `dimensions`; 0: all. Throws Problem.
int32_t read_dimensions(Fields& fields, const Engine& engine);

/// Computes the vectors and calls `answer`, unless the reader has gone away meanwhile: the
/// computation then ends after its present step. `field`: the one that has the texts. Throws
/// Problem if the model makes none.
void embed(const Call& call, const char* field, std::vector<std::string> texts,
           const EmbedOptions& options, std::function<void(const Embeddings&)> answer);
/// The same with scores.
void rerank(const Call& call, std::string query, std::vector<std::string> texts,
            const RerankOptions& options, std::function<void(const Ranking&)> answer);

/// A vector as an array of the shortest numbers that give its float32 values again.
Json vector_json(const Embeddings& made, size_t index);

}  // namespace infer::server
