// Lines from the person at a terminal, with editing and history, or from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace infer::cli {

/// Not thread-safe, and only one object at a time. Prompts and typed text go to stderr.
class LineReader {
 public:
  /// `keeps_history`: typed lines are saved in history_file() for later runs. `leaving`: a line
  /// that says how to leave, shown after a Ctrl-C on an empty line.
  LineReader(bool keeps_history, std::string leaving);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Whether stdin and stderr are a terminal: then lines can be edited, and prompts are shown.
  bool interactive() const { return interactive_; }
  struct Line {
    std::string text;
    bool quoted = false;  ///< it was between """ and """
    bool pasted = false;  ///< several lines came at once: no commands
    bool typed = false;   ///< stdin is a terminal, not a pipe or a file
  };
  /// The next line without its line end; nothing at the end of the input. `start`: text to begin
  /// the line with.
  ///
  /// A line that ends with a backslash continues on the next one. A line that begins with """
  /// continues until a line ends with """; if piped input ends before, throws Failure. Ctrl-C drops
  /// everything entered so far, and the result is an empty line. Pasted text is part of the line,
  /// with its line ends. Text typed between two calls is kept for the next call and shown then.
  std::optional<Line> read(std::string_view prompt, std::string_view start = {});

 private:
  struct Editor;

  /// Why there is a line or none.
  enum class Outcome { line, given_up, end };
  Outcome read_one(std::string_view prompt, std::string_view start, std::string& text);
  Outcome read_continued(std::string& text);
  Outcome read_quoted(Line& line);

  bool interactive_;
  std::string leaving_;
  std::unique_ptr<Editor> editor_;  ///< null where not interactive
};

}  // namespace infer::cli
