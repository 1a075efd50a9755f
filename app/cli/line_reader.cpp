#include "cli/line_reader.h"

#include <histedit.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <iostream>

#include "cli/failure.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "platform/history_file.h"
#include "platform/streams.h"
#include "platform/terminal.h"

namespace infer::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr std::string_view kQuotes = "\"\"\"";
constexpr const char* kMorePrompt = "... ";

/// Whether the text ends with """, but for white space, which is cut off then.
bool ends_quoted(std::string& text) {
  const size_t end = text.find_last_not_of(" \t\r") + 1;
  if (!std::string_view(text).substr(0, end).ends_with(kQuotes)) return false;
  text.resize(end);
  return true;
}

}  // namespace

struct LineReader::Editor {
  platform::Terminal terminal;  ///< outlives the editor, which puts the modes back
  EditLine* line;
  History* history;
  HistEvent event{};
  std::string prompt;
  std::string history_file;
  Outcome outcome = Outcome::line;
  bool edits = false;  ///< ~/.editrc may want the terminal as it is
  bool emacs = false;  ///< the keys are those of emacs: in vi's Esc is a key of its own
  bool idle = false;   ///< Ctrl-C came where nothing was typed
  Keys keys;
  std::string bytes;  ///< that were received and not read
  std::string burst;  ///< characters that came at once, for within the line
  std::mbstate_t burst_state{};
  /// Whether a character is put into the line. Other keys may make the editor read it itself, as
  /// Ctrl-R does.
  bool takes_text = true;
  bool own_keys = false;  ///< ~/.editrc may have given keys another meaning
  std::string start;      ///< stands in the line before anything is typed

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
    el_set(line, EL_GETCFN, &Editor::next_character);
    bind_keys();
    own_keys = el_source(line, nullptr) == 0;  // the person's own ~/.editrc
    const char* editor = nullptr;
    el_get(line, EL_EDITOR, &editor);
    emacs = editor != nullptr && std::string_view(editor) == "emacs";
    require_room();
    set_modes();
    // Between lines as well: a paste during an answer is the next line.
    if (edits && emacs && !terminal_is_dumb()) platform::Terminal::mark_pastes(true);
  }
  ~Editor() {
    platform::Terminal::mark_pastes(false);
    history_end(history);
    el_end(line);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  static Editor& of(EditLine* line) {
    void* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return *static_cast<Editor*>(self);
  }
  static char* show_prompt(EditLine* line) { return of(line).prompt.data(); }

  void bind_keys() {
    el_set(line, EL_ADDFN, "infer-paste", "insert what was pasted", &Editor::insert_paste);
    el_set(line, EL_ADDFN, "infer-nothing", "do nothing", &Editor::do_nothing);
    constexpr std::pair<const char*, const char*> kKeys[] = {
        {Keys::kUp, "ed-prev-history"},         {Keys::kDown, "ed-next-history"},
        {Keys::kRight, "ed-next-char"},         {Keys::kLeft, "ed-prev-char"},
        {Keys::kHome, "ed-move-to-beg"},        {Keys::kEnd, "ed-move-to-end"},
        {Keys::kDelete, "ed-delete-next-char"}, {Keys::kDeleteWord, "em-delete-next-word"},
        {Keys::kWordRight, "em-next-word"},     {Keys::kWordLeft, "ed-prev-word"},
        {Keys::kPaste, "infer-paste"},          {Keys::kNothing, "infer-nothing"}};
    for (const auto& [key, function] : kKeys) {
      el_set(line, EL_BIND, ("\033" + std::string(key)).c_str(), function, nullptr);
    }
  }

  static unsigned char insert_paste(EditLine* line, int) {
    const std::string text = of(line).keys.take_paste();
    if (text.empty()) return CC_NORM;
    return el_insertstr(line, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
  }
  static unsigned char do_nothing(EditLine*, int) { return CC_NORM; }

  /// Between lines the terminal gathers no lines either: what is typed then goes through the
  /// editor like the rest, Ctrl-D included, and is not shown twice. Ctrl-C is a signal between
  /// lines, which discards nothing, and a key while a line is edited, so that it keeps its place
  /// among the others.
  void set_modes() {
    int mode = 0;
    el_get(line, EL_EDITMODE, &mode);
    edits = mode != 0;
    if (!edits) return;
    el_set(line, EL_SETTY, "-x", "-icanon", "-echo", "+noflsh", nullptr);
    el_set(line, EL_SETTY, "-d", "intr=", "+noflsh", nullptr);
    terminal.keep_modes();
  }

  /// What libedit reads characters with: 1 for one, 0 at the end, -1 where there will be none.
  static int next_character(EditLine* line, wchar_t* character) {
    Editor& self = of(line);
    std::mbstate_t state{};
    *character = L'\0';
    self.insert_start();
    while (self.outcome == Outcome::line) {
      while (!self.bytes.empty()) {
        const char next = self.bytes.front();
        self.bytes.erase(0, 1);
        if (decode(next, state, character)) return 1;
      }
      char byte = 0;
      switch (self.terminal.next(byte)) {
        case platform::Terminal::Event::byte: self.receive(byte, std::mbsinit(&state) != 0); break;
        case platform::Terminal::Event::interrupt: self.give_up(); break;
        case platform::Terminal::Event::closed: self.outcome = Outcome::end; break;
        case platform::Terminal::Event::resized: self.resize(); break;
        case platform::Terminal::Event::resumed:
          el_set(line, EL_PREP_TERM, 0);
          el_set(line, EL_PREP_TERM, 1);
          el_set(line, EL_REFRESH);
          break;
      }
    }
    errno = EINTR;
    return self.outcome == Outcome::end ? 0 : -1;
  }

  /// Within a line libedit draws the rest of it again for each character. So those that came at
  /// once are put in at once.
  void receive(char byte, bool between_characters) {
    if (!emacs) {
      bytes = byte;
      return;
    }
    const bool joins = takes_text && keys.at_key() && is_text(byte) &&
                       (!burst.empty() || (between_characters && is_within_line()));
    if (joins) {
      burst += byte;
      wchar_t character = 0;
      const bool ends = decode(byte, burst_state, &character) || std::mbsinit(&burst_state) != 0;
      if (!ends || platform::Terminal::has_more()) return;
    }
    if (!burst.empty()) bytes = burst.size() == 1 ? burst : keys.paste(burst);
    burst.clear();
    burst_state = {};
    if (!joins) bytes += push_key(byte);
  }
  static bool is_control(char byte) {
    return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f;
  }
  /// A burst is read as UTF-8, whose longest character has 4 bytes or more for the C library.
  static bool is_text(char byte) {
    return !is_control(byte) && (static_cast<unsigned char>(byte) < 0x80 || MB_CUR_MAX >= 4);
  }
  bool is_within_line() const {
    const LineInfoW* typed = el_wline(line);
    return typed->cursor != typed->lastchar;
  }
  std::string push_key(char byte) {
    // Ctrl-A, B, D, E, F, H, K, L, N, P, T, U, W, Y and Delete move or erase.
    constexpr std::string_view kMoves =
        "\x01\x02\x04\x05\x06\x08\x0b\x0c\x0e\x10\x14\x15\x17\x19\x7f";
    constexpr char kEscape = '\033';
    const bool begins = keys.at_key();
    std::string key = keys.push(byte);
    if (begins) {
      takes_text = takes_text && (!is_control(byte) || byte == kEscape ||
                                  kMoves.find(byte) != std::string_view::npos);
    } else if (!key.empty() && key[0] != '[' && key != Keys::kNothing) {
      takes_text = false;
    }
    return key;
  }

  /// libedit forgets where the cursor is, and would write the next character beyond what it has
  /// allocated for the screen. So the line is drawn again at once.
  void resize() {
    el_resize(line);
    require_room();
    std::fputc('\r', stderr);
    el_set(line, EL_REFRESH);
  }

  /// On a screen without room for a wide character libedit writes beyond what it has allocated.
  void require_room() {
    constexpr int kLeastColumns = 10, kLeastRows = 2;
    const auto at_least = [this](const char* capability, int least) {
      int value = 0;
      if (el_get(line, EL_GETTC, capability, &value) != 0 || value >= least) return;
      el_set(line, EL_SETTC, capability, std::to_string(least).c_str(), nullptr);
    };
    at_least("co", kLeastColumns);
    at_least("li", kLeastRows);
  }

  void give_up() {
    outcome = Outcome::given_up;
    const LineInfo* typed = el_line(line);
    idle = typed->lastchar == typed->buffer;
  }

  /// Not through el_push(), which would take line ends and control characters as keys.
  void insert_start() {
    if (start.empty()) return;
    if (edits) el_insertstr(line, start.c_str());
    start.clear();
    std::fputc('\r', stderr);  // the prompt is drawn again
    el_set(line, EL_REFRESH);
  }

  /// Whether the byte ends a character; bytes that belong to none are passed over.
  static bool decode(char byte, std::mbstate_t& state, wchar_t* character) {
    constexpr auto kBroken = static_cast<size_t>(-1);
    constexpr auto kIncomplete = static_cast<size_t>(-2);
    const bool first = std::mbsinit(&state) != 0;
    size_t count = std::mbrtowc(character, &byte, 1, &state);
    if (count == kBroken) {
      state = {};
      if (first) return false;
      count = std::mbrtowc(character, &byte, 1, &state);  // it may begin another
      if (count == kBroken) state = {};
    }
    return count != kBroken && count != kIncomplete;
  }

  void remember(const std::string& text) {
    if (text.empty()) return;
    ::history(history, &event, H_ENTER, text.c_str());
    if (!history_file.empty()) ::history(history, &event, H_SAVE, history_file.c_str());
  }
};

LineReader::LineReader(bool keeps_history, std::string leaving)
    : interactive_(platform::stdin_is_terminal() && platform::stderr_is_terminal()),
      leaving_(std::move(leaving)) {
  if (!interactive_) return;
  // Characters are of more bytes than one even where the environment names no locale.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  editor_ = std::make_unique<Editor>(keeps_history ? platform::history_file() : std::string());
}

LineReader::~LineReader() = default;

LineReader::Outcome LineReader::read_one(std::string_view prompt, std::string_view start,
                                         std::string& text) {
  text.clear();
  if (!interactive_) {
    errno = 0;
    if (!std::getline(std::cin, text)) {
      if (errno == 0 || errno == EINTR) return Outcome::end;
      throw Failure(kExitBadFile,
                    std::string("standard input: cannot read: ") + std::strerror(errno));
    }
    if (text.ends_with('\r')) text.pop_back();
    return Outcome::line;
  }
  Editor& editor = *editor_;
  editor.prompt = prompt;
  editor.outcome = Outcome::line;
  platform::Terminal::forget_resumed();
  editor.start = start;
  editor.keys.reset();
  editor.bytes.clear();
  editor.burst.clear();
  editor.burst_state = {};
  editor.takes_text = !editor.own_keys;
  // Before the prompt: once it is visible, keys must reach the editor.
  el_set(editor.line, EL_PREP_TERM, 1);
  int count = 0;
  const char* line = el_gets(editor.line, &count);
  if (editor.outcome == Outcome::given_up) {
    el_reset(editor.line);
    print_line("^C");
    return Outcome::given_up;
  }
  if (editor.outcome == Outcome::end || line == nullptr || count <= 0) {
    print_line("");
    return Outcome::end;
  }
  text.assign(line, static_cast<size_t>(count));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return Outcome::line;
}

LineReader::Outcome LineReader::read_continued(std::string& text) {
  std::string_view last = text;
  std::string more;
  // What was pasted with a line end has its own.
  while (last.ends_with('\\') && last.find('\n') == std::string_view::npos) {
    const Outcome outcome = read_one(kMorePrompt, {}, more);
    if (outcome == Outcome::given_up) return outcome;
    text.back() = '\n';
    text += more;
    if (outcome == Outcome::end) break;
    last = more;
  }
  return Outcome::line;
}

LineReader::Outcome LineReader::read_quoted(Line& line) {
  std::string text = line.text.substr(kQuotes.size());
  std::string more;
  bool ended = ends_quoted(text);
  // Such as """One""" and more: no quotation, but a text that begins with one.
  if (!ended && text.find(kQuotes) != std::string::npos) return Outcome::line;
  while (!ended) {
    const Outcome outcome = read_one(kMorePrompt, {}, more);
    if (outcome == Outcome::end && !interactive_) {
      throw Failure(kExitRuntime, "the input ended before the \"\"\" that ends a message");
    }
    if (outcome != Outcome::line) return outcome;
    ended = ends_quoted(more);
    text += "\n" + more;
  }
  text.resize(text.size() - kQuotes.size());
  if (text.starts_with('\n')) text.erase(0, 1);
  if (text.ends_with('\n')) text.pop_back();
  line.text = std::move(text);
  line.quoted = true;
  return Outcome::line;
}

std::optional<LineReader::Line> LineReader::read(std::string_view prompt, std::string_view start) {
  Line line;
  Outcome outcome = read_one(prompt, start, line.text);
  if (outcome == Outcome::given_up && editor_->idle && !leaving_.empty()) print_line(leaving_);
  if (outcome == Outcome::line) {
    if (line.text.starts_with(kQuotes)) {
      outcome = read_quoted(line);
    } else if (interactive_ && line.text.find('\n') != std::string::npos) {
      line.pasted = true;  // a text as it is
    } else {
      outcome = read_continued(line.text);
    }
  }
  line.typed = platform::stdin_is_terminal();
  if (outcome == Outcome::end) return std::nullopt;
  if (outcome == Outcome::given_up) return Line();
  if (editor_ != nullptr) {
    editor_->remember(line.quoted ? std::string(kQuotes) + line.text + std::string(kQuotes)
                                  : line.text);
  }
  return line;
}

}  // namespace infer::cli
