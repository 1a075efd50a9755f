// stdin, stdout and stderr.
#pragma once

#include <string_view>

namespace infer::platform {

/// Opens /dev/null for each of stdin, stdout, stderr that is closed, so that no file of ours takes
/// its number and receives what is meant for it. Makes a closed pipe, and a file beyond the allowed
/// size, errors of writing instead of signals.
void prepare_streams();

/// Writes all of it, unbuffered; waits where a pipe takes no more now. 0, or errno.
int write_stdout(std::string_view bytes);

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

/// Whether a desktop started the program, not a shell or a script: there is a display, and neither
/// a terminal nor a pipe or file that waits for output.
bool started_by_desktop();

/// The width of the terminal that stderr is; 80 if it is none or does not say.
int terminal_columns();

}  // namespace infer::platform
