#include "engine/spec/draft_model.h"

#include <algorithm>
#include <chrono>

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

/// The next tokens of these sequences, `most` of each, with the logits of each one's last.
Result<std::span<const float>> DraftModel::compute(std::span<Held* const> parts, int64_t most) {
  batch_.clear();
  ids_.clear();
  for (Held* part : parts) {
    const int64_t first = cache_->length(part->kv);
    const int64_t end = std::min(first + most, static_cast<int64_t>(part->tokens.size()));
    batch_.begin_sequence(std::span(part->tokens).first(static_cast<size_t>(first)));
    for (int64_t t = first; t < end; ++t) {
      batch_.tokens.push_back(part->tokens[static_cast<size_t>(t)]);
      batch_.positions.push_back(static_cast<int32_t>(t));
      batch_.slots.push_back(static_cast<int32_t>(t));
      batch_.sequences.push_back(static_cast<int32_t>(ids_.size()));
    }
    batch_.output_rows.push_back(static_cast<int32_t>(batch_.tokens.size()) - 1);
    ids_.push_back(part->kv);
  }
  // The class changes what is drafted, not what comes of it: the one that is faster.
  if (batch_.rows() == static_cast<int64_t>(parts.size())) batch_.generated = batch_.rows();
  batch_.pages = cache_->pages(ids_);
  const Clock::time_point start = Clock::now();
  INFER_TRY(const std::span<const float> logits, executor_->run(batch_));
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const int64_t rows = batch_.rows();
  if (rows == static_cast<int64_t>(parts.size())) {
    costs_.update(rows, seconds);
  } else if (rows >= StepCosts::kRows / 2) {
    const double each = seconds / static_cast<double>(rows);
    token_seconds_ = token_seconds_ == 0 ? each : token_seconds_ + 0.2 * (each - token_seconds_);
  }
  for (Held* part : parts) {
    const auto left = static_cast<int64_t>(part->tokens.size()) - cache_->length(part->kv);
    cache_->commit(part->kv, part->tokens, std::min(left, most));
  }
  return logits;
}

Result<bool> DraftModel::prepare(int64_t id, std::span<const int32_t> tokens) {
  const auto size = static_cast<int64_t>(tokens.size());
  if (size > cache_->context()) return false;
  const auto [found, fresh] = sequences_.try_emplace(id);
  Held& held = found->second;
  if (fresh) {
    try {
      held.kv = cache_->add_sequence();
    } catch (...) {
      sequences_.erase(found);
      throw;
    }
  }
  cache_->set_in_use(held.kv, true);
  int64_t same = std::min({common_length(tokens, held.tokens), cache_->length(held.kv), size - 1});
  const auto foreign = [&](int32_t token) { return token >= vocabulary_; };
  if (std::ranges::any_of(tokens.subspan(static_cast<size_t>(same)), foreign)) return false;
  same = cache_->rollback(held.kv, same);
  held.tokens.assign(tokens.begin(), tokens.end());
  if (same == 0) cache_->reuse(held.kv, held.tokens, size - 1);
  Held* const part = &held;
  for (;;) {
    const int64_t left = size - cache_->length(held.kv);
    if (left <= few()) return true;
    const int64_t count = std::min(left - 1, max_rows_);
    if (!cache_->reserve(held.kv, count).ok()) return false;
    if (const auto logits = compute({&part, 1}, count); !logits) {
      return tl::unexpected(logits.error());
    }
  }
}

Result<std::vector<std::span<const float>>> DraftModel::next(std::span<const int64_t> ids) {
  std::vector<std::span<const float>> results(ids.size());
  std::vector<Held*> parts;
  std::vector<size_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    Held& held = sequences_.at(ids[i]);
    const int64_t left = static_cast<int64_t>(held.tokens.size()) - cache_->length(held.kv);
    if (!cache_->reserve(held.kv, left).ok()) continue;
    parts.push_back(&held);
    places.push_back(i);
  }
  if (parts.empty()) return results;
  INFER_TRY(const std::span<const float> logits, compute(parts, few()));
  const auto each = static_cast<size_t>(vocabulary_);
  for (size_t i = 0; i < parts.size(); ++i) results[places[i]] = logits.subspan(i * each, each);
  return results;
}

void DraftModel::rest(int64_t id) {
  const auto found = sequences_.find(id);
  if (found != sequences_.end()) cache_->set_in_use(found->second.kv, false);
}

void DraftModel::forget(int64_t id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  cache_->remove_sequence(found->second.kv);
  sequences_.erase(found);
}

double DraftModel::seconds(int64_t id, int64_t length, int64_t count) const {
  const auto found = sequences_.find(id);
  const int64_t held = found == sequences_.end() ? 0 : cache_->length(found->second.kv);
  // What is held is nearly always the beginning of the tokens; some at its end were rejected.
  const int64_t behind = std::max<int64_t>(1, length - held);
  const double further = static_cast<double>(count - 1) * costs_.seconds(1);
  if (behind <= StepCosts::kRows || token_seconds_ == 0) return further + costs_.seconds(behind);
  return further + static_cast<double>(behind) * token_seconds_;
}

}  // namespace infer
