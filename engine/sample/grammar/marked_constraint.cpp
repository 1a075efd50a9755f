#include "engine/sample/grammar/marked_constraint.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace infer {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

/// The end of a free text, and the mark in it.
class Watch {
 public:
  explicit Watch(const GrammarStart& start)
      : place_(start.skipping            ? Place::passage
               : start.skip_open.empty() ? Place::answer
                                         : Place::opening) {}

  /// Appends a token; true if a mark has come with it.
  bool push(const GrammarStart& start, int32_t token, std::string_view piece) {
    if (piece.empty()) return false;
    tokens_.push_back({token, static_cast<ptrdiff_t>(tail_.size())});
    tail_ += piece;
    if (place_ == Place::passage && !leave_passage(start)) return false;
    if (place_ == Place::opening && !leave_opening(start)) return false;
    if (find(start)) return true;
    if (!at_start_) drop(tail_.size() - begun(start));
    return false;
  }

  /// Text of the mark, and of what follows it, that is before the first of tokens().
  std::string_view begun_text() const {
    const size_t end = tokens_.empty() ? tail_.size() : static_cast<size_t>(tokens_.front().begin);
    return std::string_view(tail_).substr(0, end);
  }
  struct Token {
    int32_t id;
    ptrdiff_t begin;  ///< in the tail; below 0 if a part was dropped
  };
  /// The tokens that begin within the mark or behind it.
  const std::vector<Token>& tokens() const { return tokens_; }

  /// Whether a mark may have begun.
  bool pending(const GrammarStart& start) const {
    return place_ != Place::passage && !tail_.empty() && (at_start_ || begun(start) > 0);
  }

  /// The text goes on behind what a grammar has held.
  void restart() {
    drop(tail_.size());
    at_start_ = false;
    place_ = Place::answer;
  }

 private:
  enum class Place { opening, passage, answer };

  bool leave_passage(const GrammarStart& start) {
    const size_t at = tail_.find(start.skip_close);
    if (at == std::string::npos) {
      drop(tail_.size() - std::min(tail_.size(), start.skip_close.size() - 1));
      return false;
    }
    drop(at + start.skip_close.size());
    place_ = Place::answer;
    return true;
  }

  /// False while it is not known whether the passage begins.
  bool leave_opening(const GrammarStart& start) {
    drop_space();
    if (tail_.starts_with(start.skip_open)) {
      drop(start.skip_open.size());
      place_ = Place::passage;
      return leave_passage(start);
    }
    if (start.skip_open.starts_with(tail_)) return false;
    place_ = Place::answer;
    return true;
  }

  /// Finds a mark, and drops what is before it.
  bool find(const GrammarStart& start) {
    size_t begin = std::string::npos;
    if (at_start_) {
      drop_space();
      bool may_come = tail_.empty();
      for (const std::string& mark : start.first) {
        if (tail_.starts_with(mark)) begin = 0;
        may_come = may_come || mark.starts_with(tail_);
      }
      at_start_ = may_come;
    }
    for (const std::string& mark : start.marks) begin = std::min(begin, tail_.find(mark));
    if (begin == std::string::npos) return false;
    drop(begin);
    std::erase_if(tokens_, [](const Token& token) { return token.begin < 0; });
    return true;
  }

  /// Bytes at the end that may begin a mark.
  size_t begun(const GrammarStart& start) const {
    size_t longest = 0;
    for (const std::string_view mark : start.marks) {
      for (size_t size = std::min(mark.size() - 1, tail_.size()); size > longest; --size) {
        if (std::string_view(tail_).ends_with(mark.substr(0, size))) longest = size;
      }
    }
    return longest;
  }

  void drop_space() { drop(std::min(tail_.find_first_not_of(kWhiteSpace), tail_.size())); }

  /// Drops bytes from the front, and the tokens that end there.
  void drop(size_t bytes) {
    if (bytes == 0) return;
    size_t gone = 0;
    const auto end_of = [&](size_t i) {
      return i + 1 < tokens_.size() ? tokens_[i + 1].begin : static_cast<ptrdiff_t>(tail_.size());
    };
    while (gone < tokens_.size() && end_of(gone) <= static_cast<ptrdiff_t>(bytes)) ++gone;
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(gone));
    for (Token& token : tokens_) token.begin -= static_cast<ptrdiff_t>(bytes);
    tail_.erase(0, bytes);
  }

  Place place_;
  bool at_start_ = true;  // nothing but the beginning of one of GrammarStart::first has come
  std::string tail_;
  std::vector<Token> tokens_;
};

class MarkedConstraint final : public Constraint {
 public:
  struct Shared {
    std::shared_ptr<TokenGrammar> grammar;
    std::shared_ptr<const Tokenizer> tokenizer;
    GrammarStart start;
  };

  explicit MarkedConstraint(std::shared_ptr<const Shared> shared)
      : shared_(std::move(shared)), watch_(shared_->start) {}
  MarkedConstraint(const MarkedConstraint& other)
      : Constraint(other),
        shared_(other.shared_),
        watch_(other.watch_),
        held_(other.held_ == nullptr ? nullptr : other.held_->clone()),
        ended_(other.ended_) {}
  MarkedConstraint& operator=(const MarkedConstraint&) = delete;
  ~MarkedConstraint() override = default;

  bool is_free() const override { return held_ == nullptr && !ended_; }

  bool allows(int32_t token) const override {
    if (ended_) return false;
    if (held_ != nullptr) return held_->allows(token);
    Watch watch = watch_;
    return !push(watch, token) || begin(watch) != nullptr;
  }

  void announce_mask() override {
    if (held_ != nullptr) held_->announce_mask();
  }

  bool mask_is_known() const override {
    return held_ != nullptr ? held_->mask_is_known() : !watch_.pending(shared_->start);
  }

  const TokenMask& mask() override {
    if (held_ != nullptr) return held_->mask();
    const int32_t size = shared_->tokenizer->vocab_size();
    free_ = TokenMask(size);
    for (int32_t token = 0; token < size; ++token) {
      if (allows(token)) free_.set(token);
    }
    return free_;
  }

  bool accept(int32_t token) override {
    if (ended_) return false;
    if (held_ != nullptr && !held_->accept(token)) return false;
    if (shared_->tokenizer->is_eog(token)) {
      ended_ = held_ != nullptr;  // a free text may go on
      return true;
    }
    if (held_ == nullptr && push(watch_, token)) {
      held_ = begin(watch_);
      watch_.restart();
    }
    if (held_ != nullptr && shared_->start.again && held_->must_end()) held_ = nullptr;
    return true;
  }

  bool complete() const override { return held_ == nullptr || held_->complete(); }

  bool must_end() const override { return held_ != nullptr && held_->must_end(); }

  std::unique_ptr<Constraint> clone() const override {
    return std::make_unique<MarkedConstraint>(*this);
  }

 private:
  bool push(Watch& watch, int32_t token) const {
    if (shared_->tokenizer->is_eog(token)) return false;
    return watch.push(shared_->start, token, shared_->tokenizer->piece(token));
  }

  /// The grammar's state behind the mark that has come; null if it does not read what has come.
  std::unique_ptr<Constraint> begin(const Watch& watch) const {
    auto held = make_constraint(shared_->grammar, watch.begun_text());
    for (const Watch::Token& token : watch.tokens()) {
      if (held == nullptr || !held->accept(token.id)) return nullptr;
    }
    return held;
  }

  std::shared_ptr<const Shared> shared_;
  Watch watch_;
  std::unique_ptr<Constraint> held_;  ///< null: the text is free
  bool ended_ = false;
  TokenMask free_;
};

}  // namespace

std::unique_ptr<Constraint> make_marked_constraint(std::shared_ptr<TokenGrammar> grammar,
                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                   const GrammarStart& start) {
  return std::make_unique<MarkedConstraint>(std::make_shared<const MarkedConstraint::Shared>(
      MarkedConstraint::Shared{std::move(grammar), std::move(tokenizer), start}));
}

}  // namespace infer
