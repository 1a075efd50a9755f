// Chat templates of the public API.
#include "engine/session/engine_impl.h"
#include "engine/text/chat_template.h"

namespace infer {

struct ChatTemplate::Impl {
  std::unique_ptr<TemplateProgram> program;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  return guarded([&]() -> Result<std::unique_ptr<ChatTemplate>> {
    auto impl = std::make_unique<Impl>();
    INFER_TRY(impl->program, TemplateProgram::parse(source));
    return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
  });
}

Result<std::string> ChatTemplate::render(std::string_view variables_json,
                                         std::string_view now) const {
  return guarded([&] { return impl_->program->render(variables_json, now); });
}

}  // namespace infer
