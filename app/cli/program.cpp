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

[[noreturn]] void unknown_command(const Parser& parser, const std::string& name) {
  std::string nearest;
  size_t best = 3;
  for (const std::string& command : parser.commands()) {
    const size_t distance = edit_distance(name, command);
    if (distance < best) {
      best = distance;
      nearest = command;
    }
  }
  usage(fmt::format("unknown command '{}'{}; 'infer --help' lists the commands", name,
                    nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest)));
}

Action parse(Parser& parser, const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_line(parser.help());
    usage("no command given");
  }
  const std::string& first = arguments[0];
  const bool command = !first.starts_with('-');
  if (command && std::ranges::count(parser.commands(), first) == 0) unknown_command(parser, first);
  try {
    return parser.parse(arguments);
  } catch (const Failure& e) {
    usage(fmt::format("{}; see 'infer {}--help'", e.what(), command ? first + " " : ""));
  }
}

int run_command(int argc, char** argv) {
  Parser parser("infer", "Runs quantised language models.");
  parser.set_version(std::string("infer ") + version());
  for (const auto add :
       {add_run, add_chat, add_eval, add_perplexity, add_reports, add_plan, add_bench, add_text,
        add_template, add_selftest, add_convert, add_quantize, add_synth, add_completion}) {
    add(parser);
  }
  return parse(parser, normalise_arguments(argc, argv))();
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
