// infer chat: a conversation in the terminal, or driven by a script through a pipe.
#include <functional>
#include <new>

#include "chat/conversation.h"
#include "cli/arguments.h"
#include "cli/chat_commands.h"
#include "cli/chat_templates.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/sampling.h"
#include "cli/speculation.h"
#include "cli/statistics.h"
#include "platform/interrupt.h"
#include "platform/streams.h"

namespace infer::cli {
namespace {

struct ChatArgs {
  ModelArgs model;
  std::optional<std::string> prompt;
  std::string file;
  std::string system;
  std::string system_file;
  std::vector<std::string> images;
  bool escape = false;
  TemplateArgs chat_template;
  std::string template_variables;
  std::string reasoning = "auto";
  SamplingArgs sampling;
  ConstraintArgs constraint;
  SpeculationArgs speculation;
  GenerateOptions generate;
  bool shift = false;
  bool single_turn = false;
  bool no_history = false;
  bool json = false;
  /// What is said of an option, with the name that was given.
  std::function<std::string(const std::string&)> as_typed;
};

void declare_chat(Options options, ChatArgs& args) {
  args.as_typed = [options](const std::string& message) { return options.as_typed(message); };
  declare_load(options, args.model);
  const Option prompt =
      options.add("-p,--prompt", "TEXT", args.prompt, "The first message").may_be_empty();
  options.add("-f,--file", "FILE", args.file, "The first message from a file; '-': stdin")
      .excludes(prompt);
  const Option system =
      options.add("-sys,--system-prompt", "TEXT", args.system, "What the model is told to be")
          .may_be_empty();
  options.add("-sysf,--system-prompt-file", "FILE", args.system_file, "The same from a file")
      .excludes(system);
  declare_images(options, args.images);
  options.flag("-e,--escape,!--no-escape", args.escape,
               "\\n, \\t, \\\\, \\\", \\' and \\xNN in -p and -sys stand for those characters");
  options
      .add("-n,--n-predict,--predict", "N", args.generate.max_tokens,
           "Most tokens of an answer; -1: until it ends; -2: until it ends or the context is full")
      .range(-2, std::numeric_limits<int32_t>::max())
      .show_default();
  options.flag("-st,--single-turn", args.single_turn, "End after the first answer");
  options
      .add("--reasoning", "auto|show|hide", args.reasoning,
           "When to show what the model thinks before its answer: on a terminal, always or never")
      .one_of({"auto", "show", "hide"})
      .show_default();
  declare_template(options, args.chat_template);
  options.group(kTemplateGroup)
      .add("--chat-template-kwargs", "JSON", args.template_variables,
           "Further variables of the template, as a JSON object");
  declare_sampling(options, args.sampling);
  options.add("-r,--stop,--reverse-prompt", "TEXT", args.generate.stop,
              "End an answer before this text. May be given several times");
  declare_constraint(options, args.constraint);
  declare_speculation(options, args.speculation);
  options.flag("--context-shift", args.shift,
               "When the context is full, drop the oldest turns and continue");
  options.flag("--no-history", args.no_history, "Do not keep typed lines in a history file");
  options.example("infer chat model.gguf -sys \"Be brief.\"", "converse");
  options.example("infer chat model.gguf -p \"What is GGUF?\" -st", "one answer");
  options.group(kOutputGroup)
      .flag("--json", args.json, "Print JSON, one event per line: {\"event\": \"content\", …}");
}

Json variables_of(const ChatArgs& args) {
  if (args.template_variables.empty()) return Json::object();
  std::optional<Json> variables = parse_json(args.template_variables);
  if (!variables || !variables->is_object()) {
    usage("--chat-template-kwargs: expected a JSON object of at most 100 levels");
  }
  return *std::move(variables);
}

/// What an answer looks like while it comes.
class AnswerView {
 public:
  AnswerView(bool json, bool show_reasoning)
      : json_(json),
        show_reasoning_(show_reasoning),
        terminal_(platform::stdout_is_terminal()),
        dims_(stdout_colors_allowed()) {}

  bool show(const OutputEvent& event) {
    using Kind = OutputEvent::Kind;
    if (json_) return show_json(event);
    switch (event.kind) {
      case Kind::reasoning: return !show_reasoning_ || write(event.text, true);
      case Kind::content: return write(event.text, false);
      case Kind::tool_call:
        return write(fmt::format("[{}({})]\n", event.call.name, event.call.arguments), false);
    }
    return true;
  }
  /// The end of an answer: a line of its own for what follows.
  void end() {
    if (json_) return;
    if (reasons_ && dims_) write_out("\033[0m");
    reasons_ = false;
    if (!line_empty_) write_out("\n");
    line_empty_ = true;
  }

 private:
  bool write(const std::string& text, bool reasoning) {
    if (text.empty()) return true;
    if (terminal_ && reasoning != reasons_) {
      if (dims_) write_out(reasoning ? "\033[2m" : "\033[0m");
      if (!reasoning && !line_empty_) write_out("\n");
    }
    reasons_ = terminal_ && reasoning;
    line_empty_ = text.back() == '\n';
    return write_text(text);
  }
  static bool show_json(const OutputEvent& event) {
    using Kind = OutputEvent::Kind;
    if (event.kind == Kind::tool_call) {
      print_json({{"event", "tool_call"},
                  {"id", event.call.id},
                  {"name", event.call.name},
                  {"arguments", event.call.arguments}});
    } else {
      print_json({{"event", event.kind == Kind::reasoning ? "reasoning" : "content"},
                  {"text", event.text}});
    }
    return true;
  }

  bool json_;
  bool show_reasoning_;
  bool terminal_;
  bool dims_;             // reasoning, on a terminal
  bool reasons_ = false;  // on a terminal: what was written last
  bool line_empty_ = true;
};

Json statistics(const chat::Answer& answer, const Chat& chat) {
  const GenerateResult& r = answer.result;
  return {{"event", "end"},
          {"finish_reason", finish_name(r.reason)},
          {"seed", r.seed},
          {"prompt_tokens", r.prompt_tokens},
          {"reused_tokens", r.reused_tokens},
          {"prompt_seconds", r.prompt_seconds},
          {"generated_tokens", r.generated_tokens},
          {"generate_seconds", r.generate_seconds},
          {"first_token_seconds", r.first_token_seconds},
          {"dropped_messages", answer.dropped_messages},
          {"context_used", chat.conversation->context_used()},
          {"context", chat.engine->memory().longest},
          {"memory_bytes", chat.engine->memory().total},
          {"speculation", speculation_json(r.speculation)}};
}

std::string summary(const chat::Answer& answer, const Chat& chat) {
  const GenerateResult& r = answer.result;
  const MemoryReport memory = chat.engine->memory();
  return fmt::format(
      "[{} tokens at {:.1f} tokens/s; prompt {} tokens{} at {:.1f} tokens/s; first token after "
      "{:.2f} s; context {} of {}; memory {}{}{}]",
      r.generated_tokens, generate_rate(r), r.prompt_tokens, reused_text(r), prompt_rate(r),
      r.first_token_seconds, chat.conversation->context_used(), memory.longest,
      human_bytes(memory.total), speculation_summary(r.speculation),
      r.reason == FinishReason::context
          ? "; stopped: the context is full (/clear, a larger -c or --context-shift)"
      : r.reason == FinishReason::cancelled ? "; stopped"
      : r.reason == FinishReason::length    ? "; stopped: -n"
                                            : "");
}

/// Says what helps where the context is full.
[[noreturn]] void fail(const chat::Conversation& conversation, const Status& status) {
  using TooLong = chat::Conversation::TooLong;
  std::string text = status.message();
  if (conversation.too_long() != TooLong::nothing) text += "; the conversation is as before. ";
  if (conversation.too_long() == TooLong::messages) {
    text += "/undo, /clear, a larger -c or --context-shift make room";
  } else if (conversation.too_long() == TooLong::last_turn) {
    text += "A shorter message or a larger -c helps";
  }
  throw Failure(exit_code(status.code()), text);
}

/// Answers the messages as they stand.
void answer(Chat& chat, const ChatArgs& args) {
  AnswerView view(args.json, args.reasoning == "show" ||
                                 (args.reasoning == "auto" && platform::stdout_is_terminal()));
  const Result<chat::Answer> done = [&] {
    const platform::InterruptScope scope([&] { chat.conversation->cancel(); });
    return chat.conversation->answer(chat.generate, [&](const OutputEvent& event) {
      return view.show(event) && !platform::interrupted();
    });
  }();
  platform::forget_interrupt();
  view.end();
  if (!done) {
    if (chat.conversation->too_long() == chat::Conversation::TooLong::nothing) {
      fail_generation(args.constraint, done.error());
    }
    fail(*chat.conversation, done.error());
  }
  chat.answered = true;
  check_out();
  if (done->dropped_messages > 0 && !chat.told_of_dropped && !args.model.quiet) {
    note("the context is full: from here on the model does not see the oldest messages");
    chat.told_of_dropped = true;
  }
  chat.last = summary(*done, chat);
  if (args.json) {
    print_json(statistics(*done, chat));
  } else if (!args.model.quiet) {
    print_line(chat.last);
  }
}

/// A message, or a command if a person typed it; false where the conversation ends. After a failure
/// the messages are as before.
bool take_line(Chat& chat, const ChatArgs& args, const LineReader::Line& line) {
  if (is_blank(line.text)) return true;
  const Json before = chat.conversation->messages();
  CommandResult result = CommandResult::answer;
  const bool slash = line.typed && !line.quoted && !line.pasted && line.text.starts_with('/');
  const bool escaped = slash && line.text.starts_with("//");
  const bool sends = !slash || escaped;
  if (!sends) {
    result = run_chat_command(chat, line.text);
  } else {
    chat.conversation->messages().push_back(
        user_message(chat, escaped ? line.text.substr(1) : line.text));
  }
  if (result == CommandResult::leave) return false;
  if (result == CommandResult::read) return true;
  try {
    answer(chat, args);
    if (sends) chat.images = Json::array();
  } catch (const Failure&) {
    chat.conversation->messages() = before;
    chat.failed = true;
    throw;
  }
  return true;
}

/// Only JSON has this besides the line on stderr.
void tell_failure(const ChatArgs& args, int code, const std::string& message) {
  if (!args.json) return;
  const Json event = {{"event", "error"}, {"message", message}, {"code", code}};
  write_out(event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// Lines until the end.
void converse(Chat& chat, const ChatArgs& args) {
  std::optional<LineReader::Line> line;
  if (args.prompt) line = LineReader::Line{*args.prompt};
  for (;;) {
    if (!line) line = chat.reader->read("> ");
    if (!line) break;
    try {
      if (!take_line(chat, args, *line)) break;
    } catch (const Failure& failure) {
      // A turn that fails does not end the conversation of a person, who sees why.
      if (!chat.reader->interactive() || is_interrupt(failure.exit_code())) throw;
      tell_failure(args, failure.exit_code(), failure.what());
      print_error(failure.what());
    }
    line.reset();
    const bool one = args.single_turn && (chat.answered || chat.failed);
    if (one || platform::interrupted()) break;
  }
}

int load_and_converse(ChatArgs& args) {
  args.generate.sampling = sampling_options(args.sampling);
  require_one_seed(args.sampling);
  read_constraint(args.constraint, args.generate);
  if (args.shift) args.generate.overflow = ContextOverflow::shift;
  const Json variables = variables_of(args);
  apply_speculation(args.speculation, args.model, args.generate);
  if (args.generate.max_tokens == -2) {
    args.generate.max_tokens = -1;
    args.generate.overflow = ContextOverflow::stop;
  }
  if (!args.system_file.empty()) args.system = without_line_end(read_input(args.system_file));
  if (args.escape && args.system_file.empty()) args.system = unescaped(args.system);
  if (args.escape && args.prompt) args.prompt = unescaped(*args.prompt);
  if (!args.file.empty()) args.prompt = without_line_end(read_filled_input(args.file));
  if (args.single_turn && args.prompt && is_blank(*args.prompt)) {
    usage("-p: the message is empty, and -st wants an answer");
  }
  choose_model_silently(args.model);
  choose_vision(args.model, args.images);
  const std::string source = template_source(args.chat_template);
  if (const std::string stop = template_stop(args.chat_template); !stop.empty()) {
    args.generate.stop.push_back(stop);
  }

  const std::unique_ptr<Engine> engine = load_engine(args.model);
  if (platform::interrupted()) throw Failure(platform::interrupt_code(), "interrupted");
  Chat chat;  // its session goes before the engine
  require_biased_tokens(args.generate.sampling, engine->vocabulary_size());
  chat.engine = engine.get();
  chat.conversation = must(chat::Conversation::open(*engine, source, variables));
  chat.generate = args.generate;
  LineReader reader(!args.no_history, "Ctrl-D or /exit leaves");
  chat.reader = &reader;
  if (!args.system.empty()) set_system(chat, args.system);
  for (const std::string& file : args.images) attach_image(chat, file);
  if (reader.interactive() && !args.model.quiet) {
    print_line(
        fmt::format("{} · /help lists the commands, Ctrl-D leaves",
                    engine->model().name.empty() ? engine->model().path : engine->model().name));
  }
  converse(chat, args);
  if (platform::interrupted()) return platform::interrupt_code();
  if (args.single_turn && !chat.answered && !chat.failed && !reader.interactive()) {
    usage("-st: no message was given: use -p TEXT, -f FILE or a pipe");
  }
  return chat.failed ? kExitRuntime : kExitOk;
}

int run_chat(ChatArgs& args) {
  try {
    return load_and_converse(args);
  } catch (const Failure& failure) {
    const int code = failure.exit_code();
    const std::string message = failure.what();
    if (!is_interrupt(code)) {
      tell_failure(args, code, code == kExitUsage ? args.as_typed(message) : message);
    }
    throw;
  } catch (const std::bad_alloc&) {
    tell_failure(args, kExitDoesNotFit, "out of memory");
    throw;
  }
}

}  // namespace

void add_chat(Parser& parser) {
  add_command(parser, "chat", "Converse in the terminal", declare_chat, run_chat);
}

}  // namespace infer::cli
