#include "server/models/model.h"

#include <nlohmann/json.hpp>

#include "chat/images.h"
#include "chat/messages.h"
#include "chat/prompt.h"

namespace infer::server {

using Json = nlohmann::ordered_json;

Status for_clients(const Status& status, const std::string& path, const std::string& name) {
  std::string message = status.message();
  const size_t at = path.empty() ? std::string::npos : message.find(path);
  if (at == std::string::npos) return status;
  return {status.code(), message.replace(at, path.size(), name)};
}

Result<std::unique_ptr<ServedModel>> ServedModel::create(std::unique_ptr<Engine> engine,
                                                         std::string name, std::string source,
                                                         int32_t slots, int32_t most_waiting) {
  auto model = std::make_unique<ServedModel>();
  model->engine_ = std::move(engine);
  model->name_ = std::move(name);
  if (source.empty()) {
    model->source_ = model->engine_->model().chat_template;
    model->tool_source_ = model->engine_->model().tool_template;
  } else {
    model->source_ = std::move(source);
  }
  model->slots_ = slots;
  for (const AdapterDescription& adapter : model->engine_->adapters()) {
    model->adapters_.push_back(adapter.scale);
  }
  if (most_waiting >= 0) model->most_requests_ = int64_t{slots} + most_waiting;
  if (model->source_.empty()) return model;
  auto parsed = ChatTemplate::parse(model->source_);
  if (!parsed) return tl::unexpected(parsed.error());
  model->template_ = *std::move(parsed);
  if (model->tool_source_.empty()) return model;
  auto for_tools = ChatTemplate::parse(model->tool_source_);
  if (!for_tools) return tl::unexpected(for_tools.error());
  model->tool_template_ = *std::move(for_tools);
  return model;
}

std::vector<float> ServedModel::adapters() const {
  const std::lock_guard lock(adapters_mutex_);
  return adapters_;
}

void ServedModel::set_adapters(std::vector<float> factors) {
  const std::lock_guard lock(adapters_mutex_);
  adapters_ = std::move(factors);
}

bool ServedModel::take_place() {
  int64_t taken = requests_;
  while (most_requests_ < 0 || taken < most_requests_) {
    if (requests_.compare_exchange_weak(taken, taken + 1)) return true;
  }
  ++refused_;
  return false;
}

Result<std::string> ServedModel::render(Json variables, size_t images) const {
  if (template_ == nullptr) {
    return tl::unexpected(
        Status(StatusCode::invalid_argument,
               engine_->makes_embeddings()
                   ? "the model has no chat template; it makes vectors or scores of texts only"
                   : "the model has no chat template; it completes texts only"));
  }
  const SpecialTokenIds ids = engine_->vocabulary().special();
  variables["bos_token"] = chat::spelling(engine_->vocabulary(), ids.bos);
  variables["eos_token"] = chat::spelling(engine_->vocabulary(), ids.eos);
  if (!variables.contains("add_generation_prompt")) variables["add_generation_prompt"] = true;
  const bool for_tools = tool_template_ && chat::has_tools(variables);
  const ChatTemplate& chosen = for_tools ? *tool_template_ : *template_;
  return chat::render_with_images(*engine_, chosen, std::move(variables), images);
}

}  // namespace infer::server
