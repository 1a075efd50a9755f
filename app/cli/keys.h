// What a terminal sends for keys that are no characters, and for a paste.
#pragma once

#include <string>

namespace infer::cli {

/// Takes a terminal's bytes, and gives those that the editor is to read in their place. Keys come
/// as sequences after Esc ("\033[1;5C" for Ctrl-Right) that differ from terminal to terminal. Those
/// that are known leave in one form, whatever modifiers the terminal added; of others nothing is
/// left. (An editor would take the end of one that it does not know for text.) One thread.
class Keys {
 public:
  // After the Esc, which is passed on at once.
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

  /// The bytes to read now: often the byte itself, none within a sequence or a paste.
  std::string push(char byte);
  /// The text pasted last, in UTF-8, with '\n' for line ends; forgets it. Terminals mark a paste
  /// (bracketed paste) so that its line ends are not taken for the Enter key.
  std::string take_paste();
  /// A new line: what was begun is forgotten.
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
