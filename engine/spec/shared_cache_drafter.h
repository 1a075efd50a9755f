// Drafts by a head that stores nothing: it attends to the main model's cache
// (ModelInfo::shares_cache), and takes a token and the hidden state that the main model made of the
// token before it. Every drafted token has the position of the last token of the text, since the
// cache holds nothing behind that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/spec/drafter.h"
#include "engine/spec/step_costs.h"

namespace infer {

class SharedCacheDrafter final : public Drafter {
 public:
  /// Bytes that are kept of a sequence, where a hidden state has `width` elements.
  static int64_t sequence_bytes(int64_t width);

  /// `name`: a constant. `cache`: the main model's, in which sequences have the ids that drafters
  /// know. A step has at most max_outputs rows.
  SharedCacheDrafter(const char* name, std::unique_ptr<Executor> executor, KvCache& cache,
                     int64_t max_outputs, const StepCosts& costs)
      : name_(name),
        executor_(std::move(executor)),
        cache_(cache),
        width_(executor_->info().takes_hidden),
        max_outputs_(max_outputs),
        costs_(costs) {}

  const char* name() const override { return name_; }
  bool takes_hidden() const override { return true; }
  void observe(int64_t id, std::span<const int32_t> tokens, std::span<const float> hidden) override;
  Status propose(std::span<DraftRequest* const> requests) override;
  double seconds(int64_t, std::span<const int32_t>, int64_t tokens) const override {
    return static_cast<double>(tokens) * costs_.seconds(1);
  }
  void forget(int64_t id) override { sequences_.erase(id); }

 private:
  struct Held {
    size_t length = 0;         ///< tokens that were seen
    int32_t token = -1;        ///< the last of them
    std::vector<float> state;  ///< its hidden state
  };
  /// A request while it is served.
  struct Active {
    DraftRequest* request;
    std::vector<float> state;  ///< for the token drafted next
  };

  const Held* ready(const DraftRequest& request) const;
  Status propose_some(std::span<DraftRequest* const> requests);

  const char* name_;
  std::unique_ptr<Executor> executor_;
  KvCache& cache_;
  int64_t width_;
  int64_t max_outputs_;
  StepCosts costs_;
  std::unordered_map<int64_t, Held> sequences_;
  StepBatch batch_;
  std::vector<KvCache::SequenceId> ids_;
};

}  // namespace infer
