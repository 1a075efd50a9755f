// The command line: one file a command or small family; each adds its commands to the parser.
#pragma once

#include <memory>

#include "cli/options.h"

namespace infer::cli {

/// Parses, runs the command and returns the exit code. Lets no exception out.
int run_program(int argc, char** argv);

// Each file of commands defines one of these; program.cpp calls them in the order of the help.
void add_run(Parser& parser);
void add_chat(Parser& parser);
void add_serve(Parser& parser);
void add_gui(Parser& parser);
void add_eval(Parser& parser);
void add_perplexity(Parser& parser);
void add_embed(Parser& parser);    // embed, rerank
void add_reports(Parser& parser);  // info, devices
void add_list(Parser& parser);
void add_pull(Parser& parser);
void add_plan(Parser& parser);
void add_bench(Parser& parser);
void add_text(Parser& parser);  // tokenize, detokenize
void add_template(Parser& parser);
void add_selftest(Parser& parser);
void add_convert(Parser& parser);
void add_bundle(Parser& parser);
void add_synth(Parser& parser);
void add_quantize(Parser& parser);  // quantize, imatrix
void add_completion(Parser& parser);
void add_manual(Parser& parser);

/// Adds a command whose arguments are an Args: `declare` names its options, `run` does it.
template <typename Args>
void add_command(Parser& parser, const char* name, const char* description,
                 void (*declare)(Options, Args&), int (*run)(Args&)) {
  const auto args = std::make_shared<Args>();
  declare(parser.add_command(name, description, [args, run] { return run(*args); }), *args);
}

}  // namespace infer::cli
