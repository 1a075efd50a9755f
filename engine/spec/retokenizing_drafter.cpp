#include "engine/spec/retokenizing_drafter.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace infer {
namespace {

/// Text before the end that is tokenised again when more comes: a word that was not complete may
/// become other tokens.
constexpr size_t kReadAgain = 48;
/// The same within a word that has no end: as few of its tokens as possible change.
constexpr size_t kReadWithin = 8;
/// Text that is searched for the beginning of a word, in bytes. Where there is none, tokens made
/// from the middle of a word may differ from those of the whole text: that is worth less than the
/// time to read all of it again.
constexpr size_t kLongestWord = 128;
/// What a measurement of time weighs beside the ones before.
constexpr double kNews = 0.2;
/// Tokens of a history whose reading takes as long as what is done whatever their number is.
constexpr double kReadAtLeast = 16;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void follow(double& average, double value) {
  average = average == 0 ? value : average + kNews * (value - average);
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

/// A place at or before `at` where a word begins, so that what is tokenised from there on is as in
/// the whole text. If there is none within kLongestWord bytes, `otherwise`, or where its character
/// begins.
size_t word_start(std::string_view text, size_t at, size_t otherwise) {
  at = std::min(at, text.size());
  const size_t first = at > kLongestWord ? at - kLongestWord : 0;
  for (size_t i = at; i > first; --i) {
    const bool space = i < text.size() && (text[i] == ' ' || text[i] == '\n');
    if (space && text[i - 1] != ' ' && text[i - 1] != '\n') return i;
  }
  if (first == 0) return 0;
  const auto continues = [&](size_t i) { return (static_cast<uint8_t>(text[i]) & 0xc0) == 0x80; };
  at = std::min(otherwise, text.size() - 1);
  for (int i = 0; i < 3 && at > 0 && continues(at); ++i) --at;
  return at;
}

/// The tokens of a text that follows another: without the space that some vocabularies put before
/// what a text begins with. What follows a line end gets none.
Result<std::vector<int32_t>> encode_after(const Tokenizer& tokenizer, std::string_view text) {
  if (tokenizer.adds_space_prefix()) {
    INFER_TRY(std::vector<int32_t> tokens,
              tokenizer.encode("\n" + std::string(text), {false, true}));
    std::string begins;
    for (size_t n = 0; n < tokens.size() && begins.size() < 2;) {
      begins += tokenizer.piece(tokens[n++]);
      if (begins != "\n" && begins != " \n") continue;
      tokens.erase(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n));
      return tokens;
    }
  }
  return tokenizer.encode(text, {false, true});
}

/// Tokens that end at or before `bytes`.
size_t count_within(std::span<const size_t> ends, size_t bytes) {
  return static_cast<size_t>(std::ranges::upper_bound(ends, bytes) - ends.begin());
}

void append(const Tokenizer& tokenizer, std::span<const int32_t> added,
            std::vector<int32_t>& tokens, std::vector<size_t>& ends) {
  size_t end = ends.empty() ? 0 : ends.back();
  for (const int32_t token : added) {
    tokens.push_back(token);
    // Tokens that stand for no text: the beginning of one.
    end += tokenizer.is_control(token) && ends.empty() ? 0 : tokenizer.piece(token).size();
    ends.push_back(end);
  }
}

}  // namespace

RetokenizingDrafter::RetokenizingDrafter(std::shared_ptr<DraftModel> model,
                                         std::shared_ptr<const Tokenizer> draft_tokenizer,
                                         std::shared_ptr<const Tokenizer> tokenizer)
    : model_(std::move(model)),
      draft_tokenizer_(std::move(draft_tokenizer)),
      tokenizer_(std::move(tokenizer)),
      sampler_(greedy()) {}

/// Brings a sequence up to its history.
Status RetokenizingDrafter::read(Held& held, std::span<const int32_t> history) {
  const Clock::time_point start = Clock::now();
  const auto same =
      static_cast<size_t>(std::ranges::mismatch(held.history, history).in1 - held.history.begin());
  held.history.resize(same);
  held.history_ends.resize(same);
  held.text.resize(same == 0 ? 0 : held.history_ends.back());
  const size_t unchanged = held.text.size();
  append(*tokenizer_, history.subspan(same), held.history, held.history_ends);
  for (size_t i = same; i < history.size(); ++i) {
    const size_t begin = i == 0 ? 0 : held.history_ends[i - 1];
    if (held.history_ends[i] > begin) held.text += tokenizer_->piece(history[i]);
  }
  // The draft model's tokens of all that cannot have changed stay.
  size_t from = word_start(held.text, unchanged > kReadAgain ? unchanged - kReadAgain : 0,
                           unchanged > kReadWithin ? unchanged - kReadWithin : 0);
  const size_t kept = from == 0 ? 0 : count_within(held.ends, from);
  if (kept == 0 || held.ends[kept - 1] != from) from = kept == 0 ? 0 : held.ends[kept - 1];
  held.tokens.resize(kept);
  held.ends.resize(kept);
  const std::string_view changed = std::string_view(held.text).substr(from);
  encoded_bytes_ += std::ssize(changed);
  INFER_TRY_S(const std::vector<int32_t> rest,
              kept > 0 ? encode_after(*draft_tokenizer_, changed)
                       : draft_tokenizer_->encode(changed, {draft_tokenizer_->adds_bos(), true}));
  append(*draft_tokenizer_, rest, held.tokens, held.ends);
  const auto news = static_cast<double>(history.size() - same);
  follow(read_seconds_, seconds_since(start) / (news + kReadAtLeast));
  return {};
}

/// The text drafted so far in tokens of the model: all but the last, which more text may change.
Status RetokenizingDrafter::translate(const Held& held, std::string_view drafted,
                                      std::span<const DraftToken> draft, DraftRequest& request) {
  request.tokens.clear();
  // From a word's beginning, so that the first drafted bytes may complete a token of the history
  // no other way than the model's own tokens do.
  const size_t last = held.text.size() > 1 ? held.text.size() - 1 : 0;
  const size_t from = word_start(held.text, last, last);
  const size_t first = count_within(held.history_ends, from);
  const size_t begin = first == 0 ? 0 : held.history_ends[first - 1];
  std::string text = held.text.substr(begin);
  text += drafted;
  encoded_bytes_ += std::ssize(text);
  INFER_TRY_S(std::vector<int32_t> tokens, begin > 0 ? encode_after(*tokenizer_, text)
                                                     : tokenizer_->encode(text, {false, true}));
  const std::span<const int32_t> before = std::span(held.history).subspan(first);
  if (tokens.size() <= before.size() || !std::equal(before.begin(), before.end(), tokens.begin())) {
    INFER_TRY_S(tokens, encode_after(*tokenizer_, drafted));
  } else {
    tokens.erase(tokens.begin(), tokens.begin() + std::ssize(before));
  }
  if (tokens.empty() || !tokenizer_->is_eog(tokens.back())) {
    if (!tokens.empty()) tokens.pop_back();
  }
  // As sure as the drafted token that its last byte comes from.
  size_t end = 0, drafted_end = 0, place = 0;
  for (const int32_t token : tokens) {
    if (std::ssize(request.tokens) >= request.most) break;
    end += tokenizer_->piece(token).size();
    int32_t confidence = kConfidenceLevels - 1;
    while (place < draft.size() && drafted_end < end) {
      drafted_end += draft_tokenizer_->piece(draft[place].token).size();
      confidence = std::min(confidence, draft[place++].confidence);
    }
    request.tokens.push_back({token, confidence});
  }
  return {};
}

Status RetokenizingDrafter::draft(DraftRequest& request, Held& held) {
  request.tokens.clear();
  INFER_CHECK(read(held, request.history));
  if (held.tokens.empty()) return {};
  const Clock::time_point begin = Clock::now();
  const auto length = std::ssize(held.tokens);
  const double first = model_->seconds(request.id, length, 1);
  const double further = model_->seconds(request.id, length, 2) - first;
  INFER_TRY_S(const bool ready, model_->prepare(request.id, held.tokens));
  if (!ready) return {};
  std::string drafted;
  std::vector<DraftToken> draft;
  double text_seconds = 0;
  sampler_.begin(held.tokens, 0, nullptr);
  while (std::ssize(request.tokens) < request.most) {
    INFER_TRY_S(const auto logits, model_->next({&request.id, 1}));
    if (logits[0].empty()) break;
    const DraftToken token = sampler_.next(logits[0]);
    if (token.token < 0) break;
    draft.push_back(token);
    drafted += draft_tokenizer_->piece(token.token);
    const Clock::time_point start = Clock::now();
    INFER_CHECK(translate(held, drafted, draft, request));
    text_seconds += seconds_since(start);
    // Without a token yet the draft is still too short to say.
    const bool enough = !request.tokens.empty() && request.go_on && !request.go_on(request);
    if (enough || std::ssize(draft) >= 4 * request.most) break;
    model_->append(request.id, token.token);
  }
  model_->rest(request.id);
  if (draft.empty()) return {};
  const auto made = static_cast<double>(draft.size());
  follow(text_seconds_, text_seconds / made);
  const double model_seconds = seconds_since(begin) - text_seconds;
  const double reckoned = first + (made - 1) * further;
  if (reckoned > 0) follow(model_factor_, std::clamp(model_seconds / reckoned, 0.2, 50.0));
  // The last one only shows that the one before it is complete.
  const auto proposed = static_cast<double>(request.tokens.size());
  if (proposed > 0) follow(made_for_each_, std::max(made - 1, 1.0) / proposed);
  return {};
}

Status RetokenizingDrafter::propose(std::span<DraftRequest* const> requests) {
  for (DraftRequest* request : requests) {
    INFER_CHECK(draft(*request, sequences_[request->id]));
  }
  return {};
}

double RetokenizingDrafter::seconds(int64_t id, std::span<const int32_t> history,
                                    int64_t tokens) const {
  const auto found = sequences_.find(id);
  int64_t length = std::ssize(history);
  int64_t unread = length;
  if (found != sequences_.end()) {
    length += std::ssize(found->second.tokens) - std::ssize(found->second.history);
    unread = std::max<int64_t>(0, unread - std::ssize(found->second.history));
  }
  const double made = std::ceil(static_cast<double>(tokens) * std::max(made_for_each_, 1.0)) + 1;
  const double factor = model_factor_ == 0 ? 1 : model_factor_;
  return factor * model_->seconds(id, length, static_cast<int64_t>(made)) + made * text_seconds_ +
         (static_cast<double>(unread) + kReadAtLeast) * read_seconds_;
}

void RetokenizingDrafter::forget(int64_t id) {
  sequences_.erase(id);
  model_->forget(id);
}

}  // namespace infer
