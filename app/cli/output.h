// What is written where: stdout holds what was asked for (generated text, a report, help, or JSON),
// stderr progress, timings, warnings and errors.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "infer/infer.hpp"

namespace infer::cli {

using Json = nlohmann::ordered_json;

/// Writes all of it to stdout, unbuffered. False once stdout cannot be written; then nothing more
/// is. Any thread, one at a time.
bool write_out(std::string_view bytes);
/// Text that a model or a file gives, to stdout: to the byte, but on a terminal without_controls().
bool write_text(std::string_view text);
/// After the last write: throws Failure if stdout failed for another reason than its reader's end.
void check_out();
/// One object or array and a line feed; bytes that are not UTF-8 become U+FFFD.
void print_json(const Json& json);
/// What is wrong with a text that is not JSON, and where.
std::string json_failure(const Json::exception& failure);

/// A line of a report on stdout, or several, as without_controls() shows them, into files and pipes
/// as well.
void say_line(const std::string& line);
void say_formatted(fmt::string_view text, fmt::format_args args);
template <typename... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  say_formatted(text, fmt::make_format_args(args...));
}

/// A line on stderr, or several, likewise.
void print_line(const std::string& line);
void print_formatted(fmt::string_view text, fmt::format_args args);
template <typename... Args>
void note(fmt::format_string<Args...> text, Args&&... args) {
  print_formatted(text, fmt::make_format_args(args...));
}

/// Text that cannot control the terminal or change its direction, wherever it comes from: control
/// characters but line feeds and tabs are escaped ("\\x1b"), so are those that embed, override or
/// isolate a direction ("\\u202e"), and bytes that are not UTF-8 become U+FFFD.
std::string without_controls(std::string_view text);
/// The same within a line: line feeds and tabs escaped as well, cut after about `most` bytes.
std::string printable(std::string_view text, size_t most = 1000);
/// Bytes that are not UTF-8 become U+FFFD.
std::string valid_utf8(std::string_view text);
/// "infer: error: …" on stderr, in one line; in colour on a terminal unless NO_COLOR is set.
void print_error(std::string_view message);
/// A message of the library, likewise. For set_log_callback().
void print_log(Verbosity verbosity, std::string_view message);
/// Whether the terminal has no control sequences (TERM=dumb).
bool terminal_is_dumb();
/// On stderr and dimmed text on stdout, where that is a terminal: unless NO_COLOR is set
/// (no-color.org) or the terminal is dumb.
bool colors_allowed();
bool stdout_colors_allowed();

/// "4.12 GiB".
std::string human_bytes(int64_t bytes);

}  // namespace infer::cli
