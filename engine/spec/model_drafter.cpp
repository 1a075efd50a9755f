#include "engine/spec/model_drafter.h"

#include <algorithm>

#include "engine/spec/draft_sampler.h"

namespace infer {

Status ModelDrafter::propose(std::span<DraftRequest* const> requests) {
  const auto each = static_cast<size_t>(model_->max_outputs());
  while (requests.size() > each) {
    INFER_CHECK(propose_some(requests.first(each)));
    requests = requests.subspan(each);
  }
  return propose_some(requests);
}

Status ModelDrafter::propose_some(std::span<DraftRequest* const> requests) {
  std::vector<DraftRequest*> active;
  for (DraftRequest* request : requests) {
    INFER_TRY_S(const bool ready, model_->prepare(request->id, request->history));
    if (ready) active.push_back(request);
  }
  std::vector<int64_t> ids;
  while (!active.empty()) {
    ids.clear();
    for (const DraftRequest* request : active) ids.push_back(request->id);
    INFER_TRY_S(const auto logits, model_->next(ids));
    size_t kept = 0;
    for (size_t i = 0; i < active.size(); ++i) {
      DraftRequest& request = *active[i];
      if (logits[i].empty()) continue;
      const auto known = static_cast<size_t>(vocabulary_);
      const DraftToken token =
          request.sampler->next(logits[i].first(std::min(logits[i].size(), known)));
      if (token.token < 0) continue;
      request.tokens.push_back(token);
      if (static_cast<int64_t>(request.tokens.size()) >= request.most) continue;
      if (request.go_on && !request.go_on(request)) continue;
      model_->append(request.id, token.token);
      active[kept++] = &request;
    }
    active.resize(kept);
  }
  for (const DraftRequest* request : requests) model_->rest(request->id);
  return {};
}

}  // namespace infer
