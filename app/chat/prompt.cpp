#include "chat/prompt.h"

namespace infer::chat {

std::string spelling(const Vocabulary& vocabulary, int32_t token) {
  return token < 0 ? std::string() : std::string(vocabulary.piece(token));
}

Result<std::vector<int32_t>> prompt_tokens(const Engine& engine, const std::string& text,
                                           std::span<const ModelImage> images) {
  const SpecialTokenIds ids = engine.vocabulary().special();
  const std::string bos = spelling(engine.vocabulary(), ids.bos);
  const bool has_bos = !bos.empty() && text.starts_with(bos);
  auto all = engine.tokenize(text, {!has_bos, true}, images);
  // A last token that ends a text does not belong before an answer.
  if (all && !has_bos && ids.adds_eos && !all->empty() && all->back() == ids.eos) all->pop_back();
  return all;
}

}  // namespace infer::chat
