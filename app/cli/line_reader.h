// Lines from the person at a terminal, with editing and history, or from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace infer::cli {

/// One at a time, one thread. Prompts and what is typed go to stderr.
class LineReader {
 public:
  /// `history_file`: kept from run to run; empty: not kept. Only of a terminal.
  explicit LineReader(std::string history_file);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Whether stdin and stderr are a terminal: then lines can be edited, and prompts are shown.
  bool interactive() const { return interactive_; }
  /// The next line without its end; nothing at the end of the input. `start`: text that stands
  /// there already. Ctrl-C gives up the line: it is empty then. A line that ends with a backslash
  /// goes on with the next; Ctrl-C gives up all of it. What is typed between two calls is kept for
  /// the next, and not shown before.
  std::optional<std::string> read(std::string_view prompt, std::string_view start = {});

 private:
  struct Editor;

  /// Why there is a line or none.
  enum class Outcome { line, given_up, end };
  Outcome read_one(std::string_view prompt, std::string_view start, std::string& text);

  bool interactive_;
  std::unique_ptr<Editor> editor_;  ///< null where not interactive
};

}  // namespace infer::cli
