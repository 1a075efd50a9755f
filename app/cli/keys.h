// Decodes what a terminal sends for keys that are not characters, and for pasted text.
#pragma once

#include <string>

namespace infer::cli {

/// Translates a terminal's bytes into bytes for the line editor. Special keys come as sequences
/// after Esc ("\033[1;5C" for Ctrl-Right) that differ between terminals. A known key becomes one
/// form, whatever modifiers the terminal added. An unknown one is dropped, since the editor would
/// take its end for text. Not thread-safe.
class Keys {
 public:
  // The sequences after Esc. The Esc itself is passed on at once.
  static constexpr const char* kUp = "[A";
  static constexpr const char* kDown = "[B";
  static constexpr const char* kRight = "[C";
  static constexpr const char* kLeft = "[D";
  static constexpr const char* kHome = "[H";
  static constexpr const char* kEnd = "[F";
  static constexpr const char* kDelete = "[3~";
  static constexpr const char* kWordRight = "[1;5C";
  static constexpr const char* kWordLeft = "[1;5D";
  static constexpr const char* kDeleteWord = "[3;5~";
  static constexpr const char* kPaste = "[200~";   ///< take_paste() has the text
  static constexpr const char* kNothing = "\x1f";  ///< a key that does nothing

  /// The bytes that the editor reads now: often the byte itself, none inside a sequence or a paste.
  std::string push(char byte);
  /// Text that is put into the line at once, as a paste is: the bytes that the editor reads for it.
  std::string paste(std::string text);
  /// Whether the next byte begins a key.
  bool at_key() const { return state_ == State::plain; }
  /// Returns the last pasted text once, in UTF-8, with '\n' for line ends. The terminal marks
  /// pasted text (bracketed paste), so that its line ends are not taken for the Enter key.
  std::string take_paste();
  /// A new line begins: drops an unfinished sequence.
  void reset();

 private:
  enum class State { plain, escape, bracket, letter, console, paste };

  std::string sequence_end(char last);

  State state_ = State::plain;
  std::string parameters_;  ///< between "\033[" or "\033O" and the last byte
  bool letter_ = false;     ///< the sequence began with "\033O"
  std::string pasted_;
};

}  // namespace infer::cli
