// The C API of conversations: chat templates, and what generated text means.
#include "engine/session/c_api.h"

using namespace infer::c;

static_assert(INFER_OUTPUT_TOOL_CALL == static_cast<int>(infer::OutputEvent::Kind::tool_call));

struct infer_chat_template {
  std::unique_ptr<infer::ChatTemplate> owned;
};

struct infer_output_parser {
  std::unique_ptr<infer::OutputParser> owned;
  std::string format;
  bool finished = false;
  // The results of the last call. The items point into the events.
  std::vector<infer::OutputEvent> events;
  std::vector<infer_output_event> items;
};

namespace {

infer_status set_events(infer_output_parser* parser, size_t* count,
                        infer::Result<std::vector<infer::OutputEvent>> (*take)(infer::OutputParser&,
                                                                               std::string_view),
                        std::string_view text) {
  return checked([&]() -> Status {
    if (parser == nullptr) return null_argument("parser");
    if (text.data() == nullptr && !text.empty()) return null_argument("text");
    if (count == nullptr) return null_argument("count");
    if (parser->finished) {
      return infer::error(StatusCode::invalid_argument, "the parser's text has ended");
    }
    INFER_TRY_S(std::vector<infer::OutputEvent> events, take(*parser->owned, text));
    parser->items.clear();
    parser->events = std::move(events);
    for (const infer::OutputEvent& e : parser->events) {
      parser->items.push_back({static_cast<int32_t>(e.kind), e.text.c_str(), e.text.size(),
                               e.call.id.c_str(), e.call.name.c_str(), e.call.arguments.c_str()});
    }
    *count = parser->items.size();
    return {};
  });
}

}  // namespace

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

infer_status infer_output_parser_create(const char* template_source, size_t template_length,
                                        const char* prompt, size_t prompt_length,
                                        infer_output_parser** parser) {
  return infer_output_parser_create_with_tools(template_source, template_length, prompt,
                                               prompt_length, nullptr, 0, parser);
}

infer_status infer_output_parser_create_with_tools(const char* template_source,
                                                   size_t template_length, const char* prompt,
                                                   size_t prompt_length, const char* tools_json,
                                                   size_t tools_length,
                                                   infer_output_parser** parser) {
  return checked([&]() -> Status {
    if (template_source == nullptr && template_length > 0) return null_argument("template_source");
    if (prompt == nullptr && prompt_length > 0) return null_argument("prompt");
    if (tools_json == nullptr && tools_length > 0) return null_argument("tools_json");
    if (parser == nullptr) return null_argument("parser");
    infer::OutputOptions options;
    if (tools_length > 0) options.declared_tools.assign(tools_json, tools_length);
    auto made = std::make_unique<infer_output_parser>();
    INFER_TRY_S(made->owned, infer::OutputParser::create({template_source, template_length},
                                                         {prompt, prompt_length}, options));
    made->format = made->owned->format();
    *parser = made.release();
    return {};
  });
}

void infer_output_parser_free(infer_output_parser* parser) { delete parser; }

const char* infer_output_parser_format(const infer_output_parser* parser) {
  return parser == nullptr ? "" : parser->format.c_str();
}

infer_status infer_output_parser_push(infer_output_parser* parser, const char* text, size_t length,
                                      size_t* count) {
  return set_events(parser, count,
                    [](infer::OutputParser& p, std::string_view more) { return p.push(more); },
                    {text, length});
}

infer_status infer_output_parser_finish(infer_output_parser* parser, size_t* count) {
  const infer_status status = set_events(
      parser, count, [](infer::OutputParser& p, std::string_view) { return p.finish(); }, {});
  if (status == INFER_OK) parser->finished = true;
  return status;
}

const infer_output_event* infer_output_parser_event(const infer_output_parser* parser,
                                                    size_t index) {
  if (parser == nullptr || index >= parser->items.size()) return nullptr;
  return &parser->items[index];
}
