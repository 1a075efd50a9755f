#include "cli/output.h"

#include <utf8proc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "cli/failure.h"
#include "cli/progress.h"
#include "platform/folders.h"
#include "platform/streams.h"

namespace infer::cli {
namespace {

/// A line on stderr, with whatever control characters it has.
void print_raw(const std::string& line) {
  erase_progress();
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

/// "infer: tag: message" in one line, the tag in colour where that is allowed.
void print_tagged(const char* tag, const char* color, std::string_view message) {
  std::string line;
  for (const char c : message) line += c == '\n' || c == '\r' ? ' ' : c;
  line = printable(line, 4096);
  while (line.ends_with(' ')) line.pop_back();
  const bool colored = colors_allowed();
  print_raw(
      fmt::format("infer: {}{}:{} {}", colored ? color : "", tag, colored ? "\033[0m" : "", line));
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Character {
  int32_t code;  ///< −1: a byte that belongs to no character
  size_t size;   ///< bytes
};

/// Of a text that is not empty.
Character first_character(std::string_view text) {
  utf8proc_int32_t code = -1;
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (size <= 0) return {-1, 1};
  return {code, static_cast<size_t>(size)};
}

/// Embeddings, overrides and isolates (UAX #9): with them a text looks other than it is.
bool changes_direction(int32_t code) {
  return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool colors_wanted() { return platform::variable("NO_COLOR").empty() && !terminal_is_dumb(); }

/// errno of the write to stdout that failed; 0: none did.
std::atomic<int> stdout_failure{0};

}  // namespace

bool write_out(std::string_view bytes) {
  if (stdout_failure.load() == 0) stdout_failure = platform::write_stdout(bytes);
  return stdout_failure.load() == 0;
}

bool write_text(std::string_view text) {
  if (platform::stdout_is_terminal()) return write_out(without_controls(text));
  return write_out(text);
}

void check_out() {
  const int failure = stdout_failure.load();
  if (failure == 0 || failure == EPIPE) return;
  throw Failure(kExitRuntime,
                "cannot write to stdout: " + std::generic_category().message(failure));
}

void print_json(const Json& json) {
  write_out(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  check_out();
}

std::string json_failure(const Json::exception& failure) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
  const std::string_view text = failure.what();
  const size_t end = text.find("] ");
  return printable(end == std::string_view::npos ? text : text.substr(end + 2));
}

void say_line(const std::string& line) {
  erase_progress();
  write_out(without_controls(line) + "\n");
}

void say_formatted(fmt::string_view text, fmt::format_args args) {
  say_line(fmt::vformat(text, args));
}

void print_line(const std::string& line) { print_raw(without_controls(line)); }

void print_formatted(fmt::string_view text, fmt::format_args args) {
  print_line(fmt::vformat(text, args));
}

std::string without_controls(std::string_view text) {
  std::string shown;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    shown += printable(text.substr(begin, end - begin), std::string::npos);
    if (end < text.size()) shown += text[end];
    begin = end + 1;
  }
  return shown;
}

std::string printable(std::string_view text, size_t most) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= most) return shown + "…";
    const Character c = first_character(text);
    if (c.code < 0) {
      shown += kReplacement;
    } else if (c.code < 0x20 || (c.code >= 0x7f && c.code < 0xa0)) {
      shown += fmt::format("\\x{:02x}", c.code);
    } else if (changes_direction(c.code)) {
      shown += fmt::format("\\u{:04x}", c.code);
    } else {
      shown += text.substr(0, c.size);
    }
    text.remove_prefix(c.size);
  }
  return shown;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const Character c = first_character(text);
    valid += c.code < 0 ? kReplacement : text.substr(0, c.size);
    text.remove_prefix(c.size);
  }
  return valid;
}

bool terminal_is_dumb() { return platform::variable("TERM") == "dumb"; }

bool colors_allowed() { return platform::stderr_is_terminal() && colors_wanted(); }

bool stdout_colors_allowed() { return platform::stdout_is_terminal() && colors_wanted(); }

void print_error(std::string_view message) { print_tagged("error", "\033[1;31m", message); }

void print_log(Verbosity verbosity, std::string_view message) {
  switch (verbosity) {
    case Verbosity::quiet: return print_error(message);
    case Verbosity::warnings: return print_tagged("warning", "\033[1;33m", message);
    case Verbosity::info: return print_tagged("info", "\033[32m", message);
    case Verbosity::debug: return print_tagged("debug", "\033[36m", message);
  }
}

std::string human_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 2, kUnits[unit]);
}

}  // namespace infer::cli
