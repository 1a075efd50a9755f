// Makes any bytes safe to show: valid UTF-8 without control characters and without characters that
// change the direction of what follows. What is taken away leaves a visible sign, so that a reader
// sees that something was there.
#pragma once

#include <string>
#include <string_view>

namespace infer::gui {

/// For text that comes in pieces: a character may be cut between two of them.
///
/// - Bytes that are not UTF-8 become U+FFFD.
/// - Line ends (CR LF, CR, U+0085, U+2028, U+2029) become '\n'. '\n' and tab stay.
/// - Other control characters become their picture (U+2400 and on), those above U+0080 U+FFFD.
/// - Direction overrides, embeddings and isolates and the invisible tag characters become U+FFFD.
/// - Marks that only hint at the direction, soft hyphens and byte order marks go away.
/// - More than eight combining marks in a row go away.
/// Lines keep their length. Linear in the text.
class Sanitiser {
 public:
  void append(std::string_view bytes, std::string& out);
  /// The text has ended: a cut character becomes U+FFFD.
  void finish(std::string& out);

 private:
  void put(char32_t code, std::string_view bytes, std::string& out);

  std::string held_;  ///< first bytes of a cut character
  int marks_ = 0;     ///< combining marks in a row
  bool after_cr_ = false;
};

std::string sanitise(std::string_view bytes);

/// How much of a name or title is shown, and of a fact such as the type of a file.
inline constexpr size_t kNameBytes = 200;
inline constexpr size_t kFactBytes = 60;

/// For a name that comes from a file: sanitised, line breaks and tabs as blanks, and at most so
/// many bytes. What is longer is cut between two characters and ends in "…". Reads no more than it
/// needs.
std::string one_line(std::string_view bytes, size_t most_bytes);

}  // namespace infer::gui
