// Parses the command line, runs the command, and turns whatever happens into an exit code.
#include <algorithm>
#include <exception>
#include <new>
#include <numeric>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace infer::cli {
namespace {

/// Levenshtein 1966.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

[[noreturn]] void unknown_command(const CLI::App& app, const std::string& name) {
  std::string nearest;
  size_t best = 3;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const size_t distance = edit_distance(name, command->get_name());
    if (distance < best) {
      best = distance;
      nearest = command->get_name();
    }
  }
  usage(fmt::format("unknown command '{}'{}; 'infer --help' lists the commands", name,
                    nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest)));
}

void declare(CLI::App& app, Action& action) {
  app.set_version_flag("--version", std::string("infer ") + version());
  app.require_subcommand(1);
  app.get_formatter()->column_width(36);
  for (const auto add :
       {add_run, add_chat, add_eval, add_perplexity, add_reports, add_plan, add_bench, add_text,
        add_template, add_selftest, add_convert, add_quantize, add_synth, add_completion}) {
    add(app, action);
  }
}

int run_command(int argc, char** argv) {
  CLI::App app("Runs quantised language models.", "infer");
  Action action;
  declare(app, action);
  std::vector<std::string> arguments = normalise_arguments(argc, argv);
  std::string command;
  if (!arguments.empty() && !arguments[0].starts_with('-')) {
    command = arguments[0];
    const auto all = app.get_subcommands([](const CLI::App*) { return true; });
    if (std::ranges::none_of(all, [&](const CLI::App* c) { return c->get_name() == command; })) {
      unknown_command(app, command);
    }
  }
  if (arguments.empty()) {
    print_line(app.help());
    usage("no command given");
  }
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::Success& asked) {  // --help, --version
    std::ostringstream text;
    app.exit(asked, text, text);
    std::string shown = text.str();
    while (shown.ends_with('\n')) shown.pop_back();
    print_line(shown);
    return kExitOk;
  } catch (const CLI::ParseError& e) {
    const std::string help = command.empty() ? "infer --help" : "infer " + command + " --help";
    usage(fmt::format("{}; see '{}'", e.what(), help));
  }
  return action();
}

}  // namespace

int run_program(int argc, char** argv) {
  try {
    prepare_streams();
    handle_signals();
    set_log_callback(print_log);
    return run_command(argc, argv);
  } catch (const Failure& failure) {
    if (failure.exit_code() == kExitInterrupted) {
      erase_progress();
      return kExitInterrupted;
    }
    print_error(failure.what());
    return failure.exit_code();
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
