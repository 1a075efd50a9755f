#include "server/models/model.h"

#include <nlohmann/json.hpp>

#include "chat/prompt.h"
#include "chat/template_input.h"

namespace infer::server {

using Json = nlohmann::ordered_json;

Result<std::unique_ptr<ServedModel>> ServedModel::create(std::unique_ptr<Engine> engine,
                                                         std::string name, std::string source,
                                                         int32_t slots) {
  auto model = std::make_unique<ServedModel>();
  model->engine_ = std::move(engine);
  model->name_ = std::move(name);
  model->source_ = source.empty() ? model->engine_->model().chat_template : std::move(source);
  model->slots_ = slots;
  if (model->source_.empty()) return model;
  auto parsed = ChatTemplate::parse(model->source_);
  if (!parsed) return tl::unexpected(parsed.error());
  model->template_ = *std::move(parsed);
  return model;
}

Result<std::string> ServedModel::render(Json variables) const {
  if (template_ == nullptr) {
    return tl::unexpected(Status(StatusCode::invalid_argument,
                                 "the model has no chat template; it completes texts only"));
  }
  const SpecialTokenIds ids = engine_->vocabulary().special();
  variables["bos_token"] = chat::spelling(engine_->vocabulary(), ids.bos);
  variables["eos_token"] = chat::spelling(engine_->vocabulary(), ids.eos);
  if (!variables.contains("add_generation_prompt")) variables["add_generation_prompt"] = true;
  return chat::render_conversation(*template_, std::move(variables));
}

}  // namespace infer::server
