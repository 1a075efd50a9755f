// Numbers as the window shows them: the same as on the command line.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

namespace infer::gui {

/// "512 B", "1.5 KiB", "24.0 GiB".
std::string bytes_text(int64_t bytes);
/// "12.3", "123", "1234": three figures that count.
std::string figures(double value);
/// The shortest text that reads back as this number of this type: "0.8", "40".
template <typename T>
std::string plain_number(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}
/// Of a share from 0 to 1: "12.3 %".
std::string percent_text(double share);
/// "40 ms", "3 s", "2 min 5 s".
std::string seconds_text(double seconds);
/// A time of day in local time, as a person says it at `now`: "today 14:32", "yesterday 9:05",
/// "12 Nov 14:32", "12 Nov 2024 14:32". Both in milliseconds since 1970, UTC; 0: unknown, "".
std::string when_text(int64_t time, int64_t now);
/// The same at this moment.
std::string when_text(int64_t time);
/// "7.2 billion", "135 million".
std::string count_text(int64_t count);

}  // namespace infer::gui
