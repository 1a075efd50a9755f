// The C API of chat templates.
#include "engine/session/c_api.h"

using namespace infer::c;

struct infer_chat_template {
  std::unique_ptr<infer::ChatTemplate> owned;
};

infer_status infer_chat_template_create(const char* source, size_t length,
                                        infer_chat_template** chat_template) {
  return checked([&]() -> Status {
    if (source == nullptr && length > 0) return null_argument("source");
    if (chat_template == nullptr) return null_argument("chat_template");
    auto made = std::make_unique<infer_chat_template>();
    INFER_TRY_S(made->owned, infer::ChatTemplate::parse({source, length}));
    *chat_template = made.release();
    return {};
  });
}

void infer_chat_template_free(infer_chat_template* chat_template) { delete chat_template; }

infer_status infer_chat_template_render(const infer_chat_template* chat_template,
                                        const char* variables_json, size_t json_length,
                                        const char* now, char* text, size_t capacity,
                                        size_t* length) {
  return checked([&]() -> Status {
    if (chat_template == nullptr) return null_argument("chat_template");
    if (variables_json == nullptr) return null_argument("variables_json");
    if (length == nullptr) return null_argument("length");
    INFER_TRY_S(const std::string rendered,
                chat_template->owned->render({variables_json, json_length},
                                             now == nullptr ? std::string_view() : now));
    return write_buffer(std::span(rendered), text, capacity, length);
  });
}
