#include "chat/conversation.h"

#include <algorithm>

namespace infer::chat {
namespace {

std::string spelling(const Vocabulary& vocabulary, int32_t token) {
  return token < 0 ? std::string() : std::string(vocabulary.piece(token));
}

Json message_of(const Answer& answer) {
  Json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ToolCall& call : answer.calls) {
    const Json arguments = Json::parse(call.arguments, nullptr, false);
    Json entry = {{"type", "function"},
                  {"function",
                   {{"name", call.name},
                    {"arguments", arguments.is_discarded() ? Json(call.arguments) : arguments}}}};
    if (!call.id.empty()) entry["id"] = call.id;
    message["tool_calls"].push_back(std::move(entry));
  }
  return message;
}

}  // namespace

Conversation::Conversation(Engine& engine, std::string source, Json variables)
    : engine_(engine), source_(std::move(source)), variables_(std::move(variables)) {}

Result<std::unique_ptr<Conversation>> Conversation::open(Engine& engine, std::string source,
                                                         Json variables) {
  if (source.empty()) source = engine.model().chat_template;
  if (source.empty()) {
    return tl::unexpected(
        Status(StatusCode::bad_file,
               engine.model().path + ": the model has no chat template; give one with --template"));
  }
  std::unique_ptr<Conversation> made(
      new Conversation(engine, std::move(source), std::move(variables)));
  auto parsed = ChatTemplate::parse(made->source_);
  if (!parsed) return tl::unexpected(parsed.error());
  made->template_ = *std::move(parsed);
  auto session = engine.open_session();
  if (!session) return tl::unexpected(session.error());
  made->session_ = *std::move(session);
  const SpecialTokenIds ids = engine.vocabulary().special();
  for (const auto& [name, id] : {std::pair{"bos_token", ids.bos}, {"eos_token", ids.eos}}) {
    if (!made->variables_.contains(name)) {
      made->variables_[name] = spelling(engine.vocabulary(), id);
    }
  }
  made->variables_["add_generation_prompt"] = true;
  return made;
}

/// The tokens to append to the session, of which it keeps what the text begins with.
Result<std::vector<int32_t>> Conversation::new_tokens(const std::string& text) {
  if (static_cast<int64_t>(held_.size()) != session_->length()) spoken_.clear();
  const auto tokens_of = [&](std::string_view part, bool parse_special) {
    return engine_.tokenize(part, {false, parse_special});
  };
  // What is new begins with a special token, so that it has the same tokens by itself as within the
  // whole text.
  if (!spoken_.empty() && text.size() > spoken_.size() && text.starts_with(spoken_)) {
    const std::string_view part = std::string_view(text).substr(spoken_.size());
    const auto tokens = tokens_of(part, true);
    if (!tokens) return tokens;
    const auto plain = tokens_of(part, false);
    if (!plain) return plain;
    if (!tokens->empty() && (plain->empty() || plain->front() != tokens->front())) return tokens;
  }
  const SpecialTokenIds ids = engine_.vocabulary().special();
  const std::string bos = spelling(engine_.vocabulary(), ids.bos);
  const bool has_bos = !bos.empty() && text.starts_with(bos);
  auto all = engine_.tokenize(text, {!has_bos, true});
  if (!all) return all;
  // A last token that ends a text does not belong before an answer.
  if (!has_bos && ids.adds_eos && !all->empty() && all->back() == ids.eos) all->pop_back();
  size_t same = 0;
  if (static_cast<int64_t>(held_.size()) == session_->length()) {
    const size_t most = std::min(held_.size(), all->empty() ? 0 : all->size() - 1);
    while (same < most && held_[same] == (*all)[same]) ++same;
  }
  if (const Status status = session_->truncate(static_cast<int64_t>(same)); !status.ok()) {
    return tl::unexpected(status);
  }
  held_.resize(same);
  return std::vector<int32_t>(all->begin() + static_cast<ptrdiff_t>(same), all->end());
}

Result<Answer> Conversation::answer(const GenerateOptions& options, const EventFn& on_event) {
  cancelled_ = false;
  Json variables = variables_;
  variables["messages"] = messages_;
  const auto text =
      template_->render(variables.dump(-1, ' ', false, Json::error_handler_t::replace), "");
  if (!text) return tl::unexpected(text.error());
  auto parser = OutputParser::create(source_, *text);
  if (!parser) return tl::unexpected(parser.error());
  const auto prompt = new_tokens(*text);
  if (!prompt) return tl::unexpected(prompt.error());

  Answer answer;
  if (cancelled_) {
    answer.result.reason = FinishReason::cancelled;
    messages_.push_back(message_of(answer));
    return answer;
  }
  answer.computed_tokens = static_cast<int64_t>(prompt->size());
  std::string raw;
  std::vector<int32_t> generated;
  Status failure;
  const auto take = [&](const Result<std::vector<OutputEvent>>& events) {
    if (!events) {
      failure = events.error();
      return false;
    }
    bool go_on = true;
    for (const OutputEvent& event : *events) {
      switch (event.kind) {
        case OutputEvent::Kind::content: answer.content += event.text; break;
        case OutputEvent::Kind::reasoning: answer.reasoning += event.text; break;
        case OutputEvent::Kind::tool_call: answer.calls.push_back(event.call); break;
      }
      go_on = (!on_event || on_event(event)) && go_on;
    }
    return go_on;
  };
  GenerateOptions own = options;
  own.special_text = true;
  const auto result = session_->generate(*prompt, own, [&](int32_t token, std::string_view piece) {
    if (token >= 0) generated.push_back(token);
    raw += piece;
    return take((*parser)->push(piece)) && !cancelled_;
  });
  if (!result) {
    spoken_.clear();
    held_.clear();
    return tl::unexpected(result.error());
  }
  take((*parser)->finish());
  if (!failure.ok()) return tl::unexpected(failure);
  answer.result = *result;
  held_.insert(held_.end(), prompt->begin(), prompt->end());
  held_.insert(held_.end(), generated.begin(), generated.end());
  spoken_ = *text + raw;
  messages_.push_back(message_of(answer));
  return answer;
}

}  // namespace infer::chat
