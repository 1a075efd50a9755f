#include "engine/session/grammars.h"

#include "engine/sample/grammar/gbnf.h"
#include "engine/sample/grammar/json_schema.h"

namespace infer {

Result<std::shared_ptr<TokenGrammar>> Grammars::find(bool is_schema, const std::string& text) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->is_schema != is_schema || entry->text != text) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->grammar;
  }
  INFER_TRY(auto compiled, is_schema ? compile_json_schema(text) : compile_gbnf(text));
  if (tokens_ == nullptr) tokens_ = TokenTrie::of(*tokenizer_);
  INFER_TRY(auto grammar, TokenGrammar::create(std::move(compiled), tokens_));
  entries_.push_front({is_schema, text, grammar});
  if (entries_.size() > kKept) entries_.pop_back();
  return grammar;
}

Result<std::unique_ptr<Constraint>> Grammars::constraint(const GenerateOptions& options) {
  if (options.grammar.empty() && options.json_schema.empty()) return std::unique_ptr<Constraint>();
  if (!options.grammar.empty() && !options.json_schema.empty()) {
    return fail(StatusCode::invalid_argument, "expected a grammar or a JSON schema, found both");
  }
  const bool is_schema = options.grammar.empty();
  INFER_TRY(auto grammar, find(is_schema, is_schema ? options.json_schema : options.grammar));
  return make_constraint(std::move(grammar));
}

}  // namespace infer
