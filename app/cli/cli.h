// The command line: one file a command or small family; each adds its commands to the parser.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

namespace infer::cli {

/// Parses, runs the command and returns the exit code. Lets no exception out.
int run_program(int argc, char** argv);

/// What the command that was named will do; returns the exit code, throws Failure.
using Action = std::function<int()>;

// Each file of commands defines one of these; program.cpp calls them in the order of the help.
void add_run(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_perplexity(CLI::App& app, Action& action);
void add_reports(CLI::App& app, Action& action);  // info, devices
void add_plan(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_text(CLI::App& app, Action& action);  // tokenize, detokenize
void add_template(CLI::App& app, Action& action);
void add_selftest(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_synth(CLI::App& app, Action& action);
void add_quantize(CLI::App& app, Action& action);  // quantize, imatrix
void add_completion(CLI::App& app, Action& action);

/// Adds a command whose arguments are an Args: `declare` names its options, `run` does it.
template <typename Args>
CLI::App& add_command(CLI::App& app, Action& action, const char* name, const char* description,
                      void (*declare)(CLI::App&, Args&), int (*run)(Args&)) {
  CLI::App* command = app.add_subcommand(name, description);
  const auto args = std::make_shared<Args>();
  declare(*command, *args);
  command->callback([&action, args, run] { action = [args, run] { return run(*args); }; });
  return *command;
}

}  // namespace infer::cli
