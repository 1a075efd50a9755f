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
  /// `keeps_history`: what is typed at a terminal is kept from run to run, in history_file().
  /// `leaving`: a line that says how to leave, shown after a Ctrl-C that gives up nothing.
  LineReader(bool keeps_history, std::string leaving);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Whether stdin and stderr are a terminal: then lines can be edited, and prompts are shown.
  bool interactive() const { return interactive_; }
  struct Line {
    std::string text;
    bool quoted = false;  ///< it stood between """ and """
  };
  /// The next line without its end; nothing at the end of the input. `start`: text that stands
  /// there already. Ctrl-C gives up the line: it is empty then. A line that ends with a backslash
  /// goes on with the next; one that begins with """ goes on until a line ends with """, and throws
  /// Failure where piped input ends before; Ctrl-C gives up all of it. What is pasted at a terminal
  /// is part of the line, with its line ends. What is typed between two calls is kept for the next,
  /// and not shown before.
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
