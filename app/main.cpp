// The program: everything is in app/cli.
#include "cli/cli.h"

int main(int argc, char** argv) { return infer::cli::run_program(argc, argv); }
