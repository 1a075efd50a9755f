#include "chat/conversation.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/messages.h"
#include "chat/prompt.h"

namespace infer::chat {
namespace {

Json message_of(const Answer& answer) {
  Json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ToolCall& call : answer.calls) message["tool_calls"].push_back(tool_call_json(call));
  return message;
}

/// Adds what an answer goes on with.
void extend(Json& message, const Answer& answer) {
  message["content"] = text_in(message, "content") + answer.content;
  for (const ToolCall& call : answer.calls) message["tool_calls"].push_back(tool_call_json(call));
}

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// How many messages stand before the first turn.
size_t system_messages(const Json& messages) {
  size_t count = 0;
  while (count < messages.size() &&
         (has_role(messages[count], "system") || has_role(messages[count], "developer"))) {
    ++count;
  }
  return count;
}

/// Where turns begin, but for the first one: nothing is dropped before that.
std::vector<size_t> turns_after_first(const Json& messages) {
  std::vector<size_t> turns;
  for (size_t i = system_messages(messages) + 1; i < messages.size(); ++i) {
    if (has_role(messages[i], "user")) turns.push_back(i);
  }
  return turns;
}

}  // namespace

Json tool_call_json(const ToolCall& call) {
  const Json arguments = Json::parse(call.arguments, nullptr, false);
  Json entry = {{"type", "function"},
                {"function",
                 {{"name", call.name},
                  {"arguments", arguments.is_discarded() ? Json(call.arguments) : arguments}}}};
  if (!call.id.empty()) entry["id"] = call.id;
  return entry;
}

Conversation::Conversation(Engine& engine, std::string source, Json variables)
    : engine_(engine), source_(std::move(source)), variables_(std::move(variables)) {}

Result<std::unique_ptr<Conversation>> Conversation::open(Engine& engine, std::string source,
                                                         Json variables) {
  auto session = engine.open_session();
  if (!session) return tl::unexpected(session.error());
  if (engine.vocabulary().size() == 0) {
    return tl::unexpected(Status(StatusCode::bad_file,
                                 engine.model().path + ": the model has no vocabulary, so that it "
                                                       "neither reads nor writes texts"));
  }
  if (source.empty() && has_tools(variables)) source = engine.model().tool_template;
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

void Conversation::forget_dropped() {
  const size_t first = system_messages(messages_);
  const size_t end = first + dropped_.size();
  bool same = end < messages_.size() && has_role(messages_[end], "user");
  for (size_t i = first; same && i < end; ++i) same = messages_[i] == dropped_[i - first];
  if (!same) dropped_ = Json::array();
}

Json Conversation::seen() const {
  Json messages = messages_;
  const auto first = messages.begin() + static_cast<ptrdiff_t>(system_messages(messages_));
  messages.erase(first, first + static_cast<ptrdiff_t>(dropped_.size()));
  return messages;
}

Result<std::string> Conversation::render() {
  Json variables = variables_;
  variables["messages"] = seen();
  auto images = message_images_.read(engine_, variables["messages"]);
  if (!images) return tl::unexpected(images.error());
  images_ = *std::move(images);
  if (continues_) variables["continue_final_message"] = true;
  return render_with_images(engine_, *template_, std::move(variables), images_.size());
}

Result<int64_t> Conversation::count() {
  const auto text = render();
  if (!text) return tl::unexpected(text.error());
  const auto tokens = prompt_tokens(engine_, *text, images_);
  if (!tokens) return tl::unexpected(tokens.error());
  return static_cast<int64_t>(tokens->size());
}

/// The tokens to append to the session. The session keeps its tokens that the text starts with.
Result<std::vector<int32_t>> Conversation::new_tokens(const std::string& text) {
  if (static_cast<int64_t>(held_.size()) != session_->length()) spoken_.clear();
  if (continues_ && !held_.empty() && text == spoken_) return std::vector<int32_t>();
  const std::span<const ModelImage> images = images_;
  // What is new begins with a special token, so that it has the same tokens by itself as within the
  // whole text.
  if (!spoken_.empty() && text.size() > spoken_.size() && text.starts_with(spoken_)) {
    const std::string_view part = std::string_view(text).substr(spoken_.size());
    const auto places = std::min(images.size(), static_cast<size_t>(engine_.image_places(part)));
    const auto tokens = engine_.tokenize(part, {false, true}, images.last(places));
    if (!tokens) return tokens;
    const auto plain = engine_.tokenize(part, {false, false});
    if (!plain) return plain;
    if (!tokens->empty() && (plain->empty() || plain->front() != tokens->front())) return tokens;
  }
  auto all = prompt_tokens(engine_, text, images);
  if (!all) return all;
  size_t same = 0;
  if (static_cast<int64_t>(held_.size()) == session_->length()) {
    const size_t most = std::min(held_.size(), all->empty() ? 0 : all->size() - 1);
    while (same < most && held_[same] == (*all)[same]) ++same;
    // An image is held whole or not at all.
    same = begin_of_image(*all, images, same);
  }
  spoken_.clear();  // of what is held only a part is left
  if (const Status status = session_->truncate(static_cast<int64_t>(same)); !status.ok()) {
    return tl::unexpected(status);
  }
  held_.resize(same);
  return std::vector<int32_t>(all->begin() + static_cast<ptrdiff_t>(same), all->end());
}

Status Conversation::drop_turns(int64_t most) {
  const size_t first = system_messages(messages_);
  const std::vector<size_t> turns = turns_after_first(messages_);
  const auto drop = [&](size_t turn) {
    dropped_ = Json::array();
    for (size_t i = first; i < turns[turn]; ++i) dropped_.push_back(messages_[i]);
  };
  // The more is dropped, the fewer tokens are left: the turn to begin with is found by halving.
  size_t low = 0;
  size_t high = turns.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    drop(middle);
    const auto text = render();
    if (!text) return text.error();
    const auto tokens = prompt_tokens(engine_, *text, images_);
    if (!tokens) return tokens.error();
    if (static_cast<int64_t>(tokens->size()) <= most) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (!turns.empty()) drop(std::min(low, turns.size() - 1));
  return {};
}

Result<Conversation::Prompt> Conversation::prompt(const GenerateOptions& options) {
  const bool shift = options.overflow == ContextOverflow::shift;
  const int64_t context = engine_.memory().longest;
  const int64_t room =
      options.max_tokens < 0 ? context / 4 : std::min<int64_t>(options.max_tokens, context / 2);
  forget_dropped();
  if (!shift) dropped_ = Json::array();
  Prompt prompt;
  for (bool again = false;; again = true) {
    auto text = render();
    if (text && OutputParser::is_constrained(source_, options) && !continues_) {
      text = OutputParser::lead_to_answer(source_, *text);
    }
    if (!text) return tl::unexpected(text.error());
    prompt.text = *std::move(text);
    auto tokens = new_tokens(prompt.text);
    if (!tokens) return tl::unexpected(tokens.error());
    prompt.tokens = *std::move(tokens);
    prompt.length = static_cast<int64_t>(held_.size() + prompt.tokens.size());
    if (!shift || again || prompt.length + room <= context) break;
    // Half of the context at most: with fewer turns dropped, the next ones would have to be dropped
    // at every answer, and what is left computed anew each time.
    const Status dropped = drop_turns(std::min(context - room, context / 2));
    if (!dropped.ok()) return tl::unexpected(dropped);
  }
  if (prompt.length <= context) return prompt;
  const bool alone = shift || turns_after_first(messages_).empty();
  too_long_ = alone ? TooLong::last_turn : TooLong::messages;
  return tl::unexpected(
      Status(StatusCode::does_not_fit,
             fmt::format("{} {} tokens, and the context holds {}",
                         alone && continues_
                             ? "the answer has filled the context: with it the model is given"
                         : alone ? "the message is too long: with it the model is given"
                                 : "the context is full: the messages have",
                         prompt.length, context)));
}

Result<Answer> Conversation::answer(const GenerateOptions& options, const EventFn& on_event) {
  continues_ = false;
  return generate(options, on_event);
}

Result<Answer> Conversation::continue_answer(const GenerateOptions& options,
                                             const EventFn& on_event) {
  if (messages_.empty() || !has_role(messages_.back(), "assistant")) {
    return tl::unexpected(Status(StatusCode::invalid_argument,
                                 "the last message is no answer that could be continued"));
  }
  const Json last = messages_.back();
  const bool blank = trimmed(text_in(last, "content")).empty();
  if (blank && !text_in(last, "reasoning_content").empty()) {
    return tl::unexpected(Status(StatusCode::unsupported,
                                 "the answer ended while the model was thinking, so that it cannot "
                                 "be continued; generate it again"));
  }
  if (blank) {
    messages_.erase(messages_.end() - 1);
    Result<Answer> anew = answer(options, on_event);
    if (!anew) messages_.push_back(last);
    return anew;
  }
  continues_ = true;
  Result<Answer> more = generate(options, on_event);
  continues_ = false;
  return more;
}

Result<Answer> Conversation::generate(const GenerateOptions& options, const EventFn& on_event) {
  cancelled_ = false;
  if (stop_ != nullptr && *stop_) cancelled_ = true;
  too_long_ = TooLong::nothing;
  const auto prompt = this->prompt(options);
  if (!prompt) return tl::unexpected(prompt.error());
  constexpr auto kReplace = Json::error_handler_t::replace;
  const auto tools = variables_.find("tools");
  const bool offered = tools != variables_.end();
  auto parser = OutputParser::create(
      source_, prompt->text,
      {.constrained = OutputParser::is_constrained(source_, options),
       .continues = continues_,
       .tools = offered,
       .declared_tools =
           offered && tools->is_array() ? tools->dump(-1, ' ', false, kReplace) : ""});
  if (!parser) return tl::unexpected(parser.error());

  Answer answer;
  answer.dropped_messages = static_cast<int64_t>(dropped_.size());
  const auto keep = [&] {
    if (continues_) {
      extend(messages_.back(), answer);
    } else {
      messages_.push_back(message_of(answer));
    }
  };
  if (cancelled_) {
    answer.result.reason = FinishReason::cancelled;
    keep();
    return answer;
  }
  answer.computed_tokens = static_cast<int64_t>(prompt->tokens.size());
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
  own.images = images_in(prompt->tokens, images_);
  // Where an answer is longer than its room, it loses its own beginning and not what it answers.
  own.keep = static_cast<int32_t>(std::min<int64_t>(prompt->length, INT32_MAX));
  const auto result =
      session_->generate(prompt->tokens, own, [&](int32_t token, std::string_view piece) {
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
  held_.insert(held_.end(), prompt->tokens.begin(), prompt->tokens.end());
  held_.insert(held_.end(), generated.begin(), generated.end());
  spoken_ = prompt->text + raw;
  keep();
  return answer;
}

}  // namespace infer::chat
