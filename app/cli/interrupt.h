// Signals. Ctrl-C outside of a scope it ends the program at once with 130. Inside one it asks the
// work to end by itself; a second Ctrl-C ends the program at once.
#pragma once

#include "infer/infer.hpp"

namespace infer::cli {

/// Installs the handler of SIGINT, and one of SIGBUS: a model file that is mapped (--mmap) and cut
/// short while in use ends the program with a message in place of a core dump.
void handle_signals();

/// Whether Ctrl-C was pressed in a scope. Any thread.
bool interrupted();

/// Work that ends by itself after Ctrl-C: because the session given is cancelled, or because it
/// looks at interrupted() often. One scope at a time.
class InterruptScope {
 public:
  explicit InterruptScope(Session* session = nullptr);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};

}  // namespace infer::cli
