#include "cli/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "cli/output.h"

namespace infer::cli {
namespace {

volatile std::sig_atomic_t line_given_up = 0;

extern "C" void give_up_line(int) { line_given_up = 1; }

/// While a line is read Ctrl-C interrupts the read and nothing else.
class LineInterrupt {
 public:
  LineInterrupt() {
    line_given_up = 0;
    struct sigaction action {};
    action.sa_handler = give_up_line;  // without SA_RESTART: the read has to return
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  ~LineInterrupt() { sigaction(SIGINT, &before_, nullptr); }
  LineInterrupt(const LineInterrupt&) = delete;
  LineInterrupt& operator=(const LineInterrupt&) = delete;

 private:
  struct sigaction before_ {};
};

constexpr int kHistoryLines = 1000;

}  // namespace

struct LineReader::Editor {
  EditLine* line;
  History* history;
  HistEvent event{};
  std::string prompt;
  std::string history_file;

  explicit Editor(std::string file)
      : line(el_init("infer", stdin, stderr, stderr)),
        history(history_init()),
        history_file(std::move(file)) {
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) ::history(history, &event, H_LOAD, history_file.c_str());
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &Editor::show_prompt);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_SIGNAL, 0);
    el_set(line, EL_HIST, ::history, history);
    el_source(line, nullptr);  // the person's own ~/.editrc
  }
  ~Editor() {
    history_end(history);
    el_end(line);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static char* show_prompt(EditLine* line) {
    void* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self)->prompt.data();
  }

  void remember(const std::string& text) {
    if (text.empty()) return;
    ::history(history, &event, H_ENTER, text.c_str());
    if (!history_file.empty()) ::history(history, &event, H_SAVE, history_file.c_str());
  }
};

LineReader::LineReader(std::string history_file)
    : interactive_(isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) {
  if (!interactive_) return;
  // Characters are of more bytes than one even where the environment names no locale.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  editor_ = std::make_unique<Editor>(std::move(history_file));
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read_one(std::string_view prompt, std::string_view start) {
  std::string text;
  if (!interactive_) {
    if (!std::getline(std::cin, text)) return std::nullopt;
    if (text.ends_with('\r')) text.pop_back();
    return text;
  }
  const LineInterrupt interrupt;
  for (;;) {
    editor_->prompt = prompt;
    if (!start.empty()) el_push(editor_->line, std::string(start).c_str());
    int count = 0;
    const char* line = el_gets(editor_->line, &count);
    if (line_given_up != 0) {
      line_given_up = 0;
      el_reset(editor_->line);
      print_line("^C");
      return std::string();
    }
    if (line == nullptr || count <= 0) {
      if (count < 0 && errno == EINTR) continue;
      print_line("");
      return std::nullopt;
    }
    text.assign(line, static_cast<size_t>(count));
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
    return text;
  }
}

std::optional<std::string> LineReader::read(std::string_view prompt, std::string_view start) {
  std::optional<std::string> text = read_one(prompt, start);
  while (text && text->ends_with('\\')) {
    const std::optional<std::string> more = read_one("... ", {});
    text->back() = '\n';
    if (!more) break;
    *text += *more;
  }
  if (text && editor_ != nullptr) editor_->remember(*text);
  return text;
}

}  // namespace infer::cli
