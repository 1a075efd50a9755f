// Parses the command line, runs the command, and turns whatever happens into an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>

#include "bundle/bundle.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "infer/infer.hpp"
#include "platform/input_file.h"
#include "platform/interrupt.h"
#include "platform/streams.h"

namespace infer::cli {
namespace {

constexpr const char* kProgramOptions[] = {"-h", "--help", "-V", "--version"};

int print_version() {
  say("infer {}", version());
  return kExitOk;
}

[[noreturn]] void unknown_command(const Parser& parser, const std::string& name) {
  const std::vector<std::string> commands = parser.commands();
  std::string hint = did_you_mean(name, commands);
  // What ollama and llama.cpp call them.
  constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"show", "info"},
      {"cli", "chat"},
      {"llama-cli", "chat"},
      {"create", "convert"},
      {"simple", "run"},
      {"llama-bench", "bench"},
      {"llama-quantize", "quantize"}};
  for (const auto& [theirs, ours] : kElsewhere) {
    if (name == theirs) hint = fmt::format("; here that is 'infer {}'", ours);
  }
  std::error_code ignored;
  if (hint.empty() && std::filesystem::exists(name, ignored)) {
    hint = fmt::format("; for a model: infer run {}, infer chat {}", name, name);
  }
  usage(fmt::format("unknown command '{}'{} 'infer --help' lists the commands", name,
                    hint.ends_with('?') ? hint : hint + ";"));
}

/// Help and version: words that are no commands of their own, or in place of one.
bool run_without_command(const Parser& parser, const std::vector<std::string>& words) {
  const std::string& first = words[0];
  if (first == "-V" || first == "--version") {
    print_version();
    return true;
  }
  if (first == "-h" || first == "--help") {
    say_line(program_help(command_tree(parser)));
    return true;
  }
  if (!first.starts_with('-')) return false;
  const std::vector<std::string> names(std::begin(kProgramOptions), std::end(kProgramOptions));
  const std::string hint = did_you_mean(first, names);
  usage(fmt::format("unknown option '{}'{} 'infer --help' lists the commands", first,
                    hint.empty() ? "; a command comes first, such as infer run -m FILE;" : hint));
}

int run_help(const Parser& parser, const std::string& command) {
  if (command.empty()) {
    say_line(program_help(command_tree(parser)));
    return kExitOk;
  }
  const std::vector<std::string> commands = parser.commands();
  if (std::ranges::count(commands, command) == 0) unknown_command(parser, command);
  say_line(help_text(command_hint(parser, command)));
  return kExitOk;
}

void add_help(Parser& parser) {
  const auto command = std::make_shared<std::string>();
  parser
      .add_command("help", "Show the options of a command",
                   [&parser, command] { return run_help(parser, *command); })
      .add("command", "COMMAND", *command, "Command; without it the list of commands");
  parser.add_command("version", "Print the version", print_version);
}

/// What the program does if nothing is said; nothing for one without a model in it in a terminal.
std::vector<std::string> words_for_none() {
  if (platform::started_by_desktop()) return {"gui"};
  if (must(bundle::find(platform::kOwnFile))) return {"chat"};
  return {};
}

int run_command(const std::vector<std::string>& given) {
  const std::vector<std::string> words = given.empty() ? words_for_none() : given;
  Parser parser("infer", "Runs quantised language models.");
  for (const auto add :
       {add_run,   add_chat,       add_serve,    add_gui,     add_eval,     add_perplexity,
        add_embed, add_reports,    add_list,     add_pull,    add_plan,     add_bench,
        add_text,  add_template,   add_selftest, add_convert, add_quantize, add_bundle,
        add_synth, add_completion, add_manual,   add_help}) {
    add(parser);
  }
  bool version_asked = false;
  parser.options().flag("-V,--version", version_asked, "Print the version");
  parser.options().example("infer chat", "converse with the built-in model");
  parser.options().example("infer run model.gguf \"Once upon a time\"", "complete a prompt");
  if (words.empty()) {
    print_line(program_help(command_tree(parser)));
    usage("no command given");
  }
  if (run_without_command(parser, words)) return kExitOk;
  const std::vector<std::string> commands = parser.commands();
  if (std::ranges::count(commands, words[0]) == 0) unknown_command(parser, words[0]);
  Action action;
  try {
    action = parser.parse(words);
  } catch (const Failure& e) {
    if (e.exit_code() != kExitUsage) throw;
    const std::string message = e.what();
    usage(fmt::format("{}{} 'infer {} --help'", message, message.ends_with('?') ? " See" : "; see",
                      words[0]));
  }
  return action();
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    platform::prepare_streams();
    platform::handle_signals(
        {"infer: error: the model file was cut short or could not be read while it was mapped; "
         "without --mmap it is read into memory\n",
         kExitBadFile});
    set_log_callback(print_log);
    const int code = run_command({argv + std::min(argc, 1), argv + argc});
    if (code == kExitOk) check_out();
    return code;
  } catch (const Failure& failure) {
    if (is_interrupt(failure.exit_code())) {
      erase_progress();
      return failure.exit_code();
    }
    print_error(failure.what());
    // Where a signal ended it, what fails then is a consequence.
    return platform::interrupted() ? platform::interrupt_code() : failure.exit_code();
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
    return kExitDoesNotFit;
  } catch (const std::exception& e) {
    print_error(e.what());
    return kExitRuntime;
  } catch (...) {
    print_error("unknown failure");
    return kExitRuntime;
  }
}

}  // namespace infer::cli
