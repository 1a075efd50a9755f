#include "engine/generate/grammars.h"

#include <algorithm>
#include <utility>

#include "engine/plan/format_bytes.h"
#include "engine/sample/grammar/gbnf.h"
#include "engine/sample/grammar/json_schema.h"
#include "engine/sample/grammar/marked_constraint.h"

namespace infer {

Grammars::Grammars(std::shared_ptr<const Tokenizer> tokenizer, int64_t most, Compile compile)
    : tokenizer_(std::move(tokenizer)), most_(most), compile_(std::move(compile)) {
  if (compile_) return;
  compile_ = [vocabulary = tokenizer_](bool is_schema, const std::string& text) {
    return is_schema ? compile_json_schema(text) : compile_gbnf(text, vocabulary.get());
  };
}

Result<std::shared_ptr<TokenGrammar>> Grammars::make(bool is_schema, const std::string& text) {
  INFER_TRY(auto compiled, compile_(is_schema, text));
  std::shared_ptr<const TokenTrie> tokens;
  {
    const std::lock_guard lock(mutex_);
    tokens = tokens_;
  }
  if (tokens == nullptr) {
    // Two threads may come here at once: the first one's is taken.
    tokens = TokenTrie::of(*tokenizer_);
    const std::lock_guard lock(mutex_);
    if (tokens_ == nullptr) tokens_ = tokens;
    tokens = tokens_;
  }
  return TokenGrammar::create(std::move(compiled), std::move(tokens));
}

Result<std::shared_ptr<TokenGrammar>> Grammars::find(bool is_schema, const std::string& text) {
  std::shared_ptr<Entry> entry;
  {
    std::unique_lock lock(mutex_);
    const auto found = std::ranges::find_if(entries_, [&](const std::shared_ptr<Entry>& e) {
      return e->is_schema == is_schema && e->text == text;
    });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      entry = *found;
      compiled_.wait(lock, [&] { return entry->done; });
      if (entry->grammar == nullptr) return tl::unexpected(entry->failure);
      return entry->grammar;
    }
    entry = std::make_shared<Entry>(Entry{is_schema, text, nullptr, {}, false});
    entries_.push_front(entry);
  }
  // Threads that wait for it are told in every case.
  Result<std::shared_ptr<TokenGrammar>> made = nullptr;
  try {
    made = make(is_schema, text);
  } catch (...) {
    entry->failure = Status(StatusCode::out_of_memory, "out of memory");  // takes no memory itself
    settle(entry);
    throw;
  }
  if (made) {
    entry->grammar = *made;
  } else {
    entry->failure = made.error();
  }
  if (!settle(entry)) return tl::unexpected(entry->failure);
  return made;
}

/// Ends the compilation of an entry. What failed is not kept, nor is what there is no room for:
/// then this returns false, as for every failure.
bool Grammars::settle(const std::shared_ptr<Entry>& entry) {
  const std::lock_guard lock(mutex_);
  entry->done = true;
  compiled_.notify_all();
  if (entry->grammar != nullptr && trim_locked(entry->grammar.get())) return true;
  if (entry->grammar != nullptr) {
    entry->failure =
        error(StatusCode::busy,
              "this grammar needs {}, but the grammars of other running calls take nearly all of "
              "the {} that grammars may use; try again when a call has ended",
              format_bytes(static_cast<int64_t>(entry->grammar->bytes())), format_bytes(most_));
    entry->grammar.reset();
  }
  entries_.remove(entry);
  return false;
}

int64_t Grammars::bytes_locked() const {
  size_t sum = tokens_ == nullptr ? 0 : tokens_->bytes();
  for (const std::shared_ptr<Entry>& entry : entries_) {
    sum += entry->text.size();
    if (entry->done) sum += entry->grammar->bytes();
  }
  for (const std::weak_ptr<TokenGrammar>& weak : dropped_) {
    if (const std::shared_ptr<TokenGrammar> grammar = weak.lock()) sum += grammar->bytes();
  }
  return static_cast<int64_t>(sum);
}

int64_t Grammars::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_locked();
}

void Grammars::trim() {
  const std::lock_guard lock(mutex_);
  trim_locked(nullptr);
}

/// Does not give up `keep`. Whether all is within the limits then.
bool Grammars::trim_locked(const TokenGrammar* keep) {
  std::erase_if(dropped_, [](const std::weak_ptr<TokenGrammar>& weak) { return weak.expired(); });
  int64_t excess = bytes_locked() - most_;
  // Unused ones. A thread that waited for one may still take it now: hence `dropped_`.
  for (auto it = entries_.end(); it != entries_.begin();) {
    if (excess <= 0 && entries_.size() <= kMostKept) return true;
    --it;
    const Entry& entry = **it;
    if (!entry.done || entry.grammar.use_count() > 1 || entry.grammar.get() == keep) continue;
    dropped_.push_back(entry.grammar);
    excess -= static_cast<int64_t>(entry.text.size() + entry.grammar->bytes());
    it = entries_.erase(it);
  }
  const auto give_up = [&](TokenGrammar& grammar) {
    if (excess <= 0 || &grammar == keep) return;
    const size_t before = grammar.bytes();
    grammar.give_up_tables();
    excess -= static_cast<int64_t>(before - grammar.bytes());
  };
  for (const std::weak_ptr<TokenGrammar>& weak : dropped_) {
    if (const std::shared_ptr<TokenGrammar> grammar = weak.lock()) give_up(*grammar);
  }
  for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
    if ((*it)->done) give_up(*(*it)->grammar);
  }
  return excess <= 0;
}

Result<std::unique_ptr<Constraint>> Grammars::constraint(const GenerateOptions& options) {
  if (options.grammar.empty() && options.json_schema.empty()) return std::unique_ptr<Constraint>();
  if (!options.grammar.empty() && !options.json_schema.empty()) {
    return fail(StatusCode::invalid_argument, "expected a grammar or a JSON schema, found both");
  }
  const bool is_schema = options.grammar.empty();
  INFER_TRY(auto grammar, find(is_schema, is_schema ? options.json_schema : options.grammar));
  const GrammarStart& start = options.grammar_start;
  if (start.marks.empty() && start.first.empty()) return make_constraint(std::move(grammar));
  return make_marked_constraint(std::move(grammar), tokenizer_, start);
}

}  // namespace infer
