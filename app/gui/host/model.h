// A loaded model, and what is asked of models. For the engine's host alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/conversation.h"
#include "gui/host/answers.h"
#include "gui/host/engine_events.h"

namespace infer::gui {

/// What uses the model counts itself, so that it goes only when nobody does.
struct Model {
  std::string path;
  std::unique_ptr<Engine> engine;
  int64_t context = 0;
  std::unique_ptr<Answers> answers;
  // Of the thread that counts tokens.
  ChatForm counted_form;
  std::unique_ptr<chat::Conversation> counted;
  int users = 0;
  bool ending = false;  ///< nobody may begin to use it
};

Result<DescriptionPtr> describe(const std::string& path);
/// What fits in place of what does not; empty if the status is another one.
std::vector<Alternative> advice(const std::string& path, const LoadOptions& options,
                                const Status& status);
Planned plan_of(const PlanRequest& request);
/// Fills all of `counted` but the request and the status. On the thread that counts tokens.
Status count_tokens(Model& model, const CountRequest& request, Counted& counted);

}  // namespace infer::gui
