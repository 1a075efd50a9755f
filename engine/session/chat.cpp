// Chat templates and parsing of output: the public API.
#include "engine/session/engine_impl.h"
#include "engine/text/chat_template.h"
#include "engine/text/output/call_grammar.h"
#include "engine/text/output/output_reader.h"

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

struct OutputParser::Impl {
  OutputReader reader;
};

OutputParser::OutputParser(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputParser::~OutputParser() = default;

Result<std::unique_ptr<OutputParser>> OutputParser::create(std::string_view template_source,
                                                           std::string_view prompt,
                                                           const OutputOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<OutputParser>> {
    INFER_TRY(DeclaredTools tools, DeclaredTools::read(options.declared_tools));
    return std::unique_ptr<OutputParser>(new OutputParser(std::unique_ptr<Impl>(
        new Impl{OutputReader(template_source, prompt, options, std::move(tools))})));
  });
}

bool OutputParser::is_constrained(std::string_view template_source,
                                  const GenerateOptions& options) {
  if (!options.grammar_start.marks.empty() || !options.grammar_start.first.empty()) return false;
  if (!options.json_schema.empty()) return true;
  const ReasoningMarks* reasoning = find_reasoning(template_source);
  return !options.grammar.empty() &&
         (reasoning == nullptr || options.grammar.find(reasoning->close) == std::string::npos);
}

Result<std::string> OutputParser::lead_to_answer(std::string_view template_source,
                                                 std::string_view prompt) {
  return guarded(
      [&]() -> Result<std::string> { return infer::lead_to_answer(template_source, prompt); });
}

Result<bool> OutputParser::hold_calls(std::string_view template_source, std::string_view prompt,
                                      OutputOptions& output, GenerateOptions& options) {
  return guarded([&] { return infer::hold_calls(template_source, prompt, output, options); });
}

Result<std::vector<OutputEvent>> OutputParser::push(std::string_view text) {
  return guarded([&]() -> Result<std::vector<OutputEvent>> {
    std::vector<OutputEvent> events;
    impl_->reader.push(text, events);
    return events;
  });
}

Result<std::vector<OutputEvent>> OutputParser::finish() {
  return guarded([&]() -> Result<std::vector<OutputEvent>> {
    std::vector<OutputEvent> events;
    impl_->reader.finish(events);
    return events;
  });
}

std::string_view OutputParser::format() const { return impl_->reader.format(); }

}  // namespace infer
