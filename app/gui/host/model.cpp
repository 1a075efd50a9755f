#include "gui/host/model.h"

#include <utility>

#include "gui/host/chat_json.h"
#include "gui/host/guard.h"

namespace infer::gui {

Result<DescriptionPtr> describe(const std::string& path) {
  Result<ModelDescription> described = describe_model(path);
  if (!described) return tl::unexpected(described.error());
  return std::make_shared<const ModelDescription>(*std::move(described));
}

std::vector<Alternative> advice(const std::string& path, const LoadOptions& options,
                                const Status& status) {
  if (status.code() != StatusCode::does_not_fit) return {};
  return alternatives(path, options).value_or(std::vector<Alternative>());
}

Planned plan_of(const PlanRequest& request) {
  Planned planned;
  planned.request = request.request;
  planned.path = request.path;
  planned.status = guarded([&]() -> Status {
    LoadOptions options = request.options;
    options.progress = {};
    Result<DescriptionPtr> described = describe(request.path);
    if (!described) return described.error();
    planned.model = *std::move(described);
    ForecastOptions what;
    what.on = request.on;
    Result<Forecast> plan = forecast(request.path, options, what);
    if (plan) {
      planned.plan = std::move(plan->memory);
      planned.speed = std::move(plan->speed);
      if (plan->absent) planned.absent = plan->absent->name;
      return {};
    }
    if (request.on.empty()) planned.alternatives = advice(request.path, options, plan.error());
    return plan.error();
  });
  return planned;
}

Status count_tokens(Model& model, const CountRequest& request, Counted& counted) {
  counted.context = model.context;
  if (model.counted == nullptr || !(model.counted_form == request.form)) {
    auto opened = open_conversation(*model.engine, request.form);
    if (!opened) return opened.error();
    model.counted = *std::move(opened);
    model.counted_form = request.form;
  }
  const auto draft = model.engine->tokenize(request.draft, {false, false});
  if (!draft) return draft.error();
  counted.draft_tokens = static_cast<int64_t>(draft->size());
  std::vector<Message> messages = request.messages;
  if (!request.draft.empty()) messages.push_back({"user", request.draft});
  if (messages.empty()) return {};
  auto json = messages_json(messages, model.engine->reads_images());
  if (!json) return json.error();
  model.counted->messages() = *std::move(json);
  const Result<int64_t> tokens = model.counted->count();
  if (!tokens) return tokens.error();
  counted.tokens = *tokens;
  return {};
}

}  // namespace infer::gui
