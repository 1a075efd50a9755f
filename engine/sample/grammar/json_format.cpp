#include "engine/sample/grammar/json_format.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

#include "engine/sample/grammar/regex.h"

namespace infer {
namespace {

// The patterns of formats: RFC 3339, 5321 and 5322, 1123, 4291, 3986 and 3987, 6901. What they
// leave out is in docs/sampling.md.

/// Years have four digits and begin with 0001.
std::string date() {
  const std::string fourths = "(0[48]|[2468][048]|[13579][26])";  // of 01 to 99
  const std::string year = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
  return "(" + year +
         "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
         "02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}" +
         fourths + "|" + fourths + "00)-02-29)";
}

std::string time_of_day() {
  return "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?"
         "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
}

std::string duration() {
  const std::string n = "[0-9]{1,9}";
  const std::string seconds = n + "S";
  const std::string minutes = n + "M(" + seconds + ")?";
  const std::string time = "T(" + n + "H(" + minutes + ")?|" + minutes + "|" + seconds + ")";
  const std::string days = n + "D";
  const std::string months = n + "M(" + days + ")?";
  const std::string date = "(" + n + "Y(" + months + ")?|" + months + "|" + days + ")";
  return "P(" + n + "W|" + date + "(" + time + ")?|" + time + ")";
}

std::string label(int most) {
  return "[a-zA-Z0-9]([a-zA-Z0-9-]{0," + std::to_string(most - 2) + "}[a-zA-Z0-9])?";
}

/// At most 187 characters: up to 63 and twice 60 in three labels, 36 in each of five, 22 in each of
/// eight.
std::string host() {
  return "(" + label(63) + "(\\." + label(60) + "){0,2}|" + label(36) + "(\\." + label(36) +
         "){3,4}|" + label(22) + "(\\." + label(22) + "){5,7})";
}
std::string any_host() {
  const std::string label = "[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?";
  return label + "(\\." + label + ")*";
}

/// At most 64 characters before the @.
std::string email() {
  const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]";
  return "(" + atom + "{1,64}|" + atom + "{1,31}\\." + atom + "{1,32}|" + atom + "{1,20}(\\." +
         atom + "{1,20}){2}|" + atom + "{1,12}(\\." + atom + "{1,12}){3,4})@" + host();
}
std::string any_email() {
  const std::string atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+";
  return atom + "(\\." + atom + ")*@" + any_host();
}

std::string ipv4() {
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return octet + "(\\." + octet + "){3}";
}

std::string ipv6() {
  const std::string group = "[0-9a-fA-F]{1,4}";
  const std::string last = "(" + group + ":" + group + "|" + ipv4() + ")";
  const auto begin = [&](int most) {
    return "(" + group + "(:" + group + "){0," + std::to_string(most) + "})?::";
  };
  std::string all = "((" + group + ":){6}" + last + "|::(" + group + ":){5}" + last;
  for (int before = 0; before <= 4; ++before) {
    all += "|" + begin(before) + "(" + group + ":){" + std::to_string(4 - before) + "}" + last;
  }
  return all + "|" + begin(5) + group + "|" + begin(6) + ")";
}

/// Few states, since a limit on the length multiplies them. `more`: letters besides ASCII's.
class UriPatterns {
 public:
  explicit UriPatterns(const std::string& more) {
    const std::string escaped = "%[0-9a-fA-F]{2}";
    const std::string segment = "a-zA-Z0-9._~!$&'()*+,;=@" + more;
    const std::string any = "([" + segment + ":/?-]|" + escaped + ")";
    const std::string fragment = "#" + any + "*";
    const std::string rest = any + "*(" + fragment + ")?";
    const std::string letter = "[a-zA-Z0-9_" + more + "]";
    const std::string label = letter + "([a-zA-Z0-9_" + more + "-]*" + letter + ")?";
    const std::string authority =
        "//" + label + "(\\." + label + ")*\\.?(:[0-9]+)?([/?]" + rest + "|" + fragment + ")?";
    const std::string rooted = "/([" + segment + ":?-]|" + escaped + ")" + rest;
    const std::string rootless = "([" + segment + ":?-]|" + escaped + ")" + rest;
    whole = "[a-zA-Z][a-zA-Z0-9+.-]*:(" + authority + "|///" + rest + "|" + rooted + "|" +
            rootless + ")";
    // The first part of a relative path has no colon.
    reference = "(" + whole + "|" + authority + "|" + rooted + "|/|([" + segment + "-]|" + escaped +
                ")*([/?]" + rest + "|" + fragment + ")?)";
  }

  std::string whole, reference;
};

/// Regular expressions that all dialects read alike, with groups in groups.
std::string regular_expression() {
  const std::string escape = "\\\\[dDwWsS.*+?^$|\\\\/()\\[\\]{}tnrfv]";
  const std::string plain = "[^\\\\^$.|?*+()\\[\\]{}\\u0000-\\u001f]";
  const std::string in_class =
      "(a-z|A-Z|0-9|a-f|A-F|[^\\\\\\[\\]^\\u0000-\\u001f-]|\\\\[dDwWsS\\\\\\[\\]^tnrfv-])";
  const std::string count = "([*+?]|\\{[0-9]{1,2},?\\}|\\{[01],[1-9][0-9]?\\})";
  const std::string item = "(" + escape + "|" + plain + "|\\.|\\[\\^?" + in_class + "+\\])" +
                           count +
                           "?\\?"
                           "?|\\^|\\$|\\\\[bB]";
  std::string all = "(" + item + "|\\|)*";
  for (int depth = 0; depth < 2; ++depth) {
    all = "(" + item + "|\\||\\((\\?:)?" + all + "\\)" + count +
          "?\\?"
          "?)*";
  }
  return all;
}

struct Format {
  std::string_view name;
  std::string (*pattern)();
  std::string (*uncounted)() = nullptr;  ///< if that is another one
};

constexpr const char* kBeyondAscii = "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef";

constexpr Format kKnown[] = {
    {"date", date},
    {"time", time_of_day},
    {"date-time", [] { return date() + "T" + time_of_day(); }},
    {"duration", duration},
    {"uuid", [] { return std::string("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"); }},
    {"email", email, any_email},
    {"hostname", host, any_host},
    {"ipv4", ipv4},
    {"ipv6", ipv6},
    {"uri", [] { return UriPatterns("").whole; }},
    {"uri-reference", [] { return UriPatterns("").reference; }},
    {"iri", [] { return UriPatterns(kBeyondAscii).whole; }},
    {"iri-reference", [] { return UriPatterns(kBeyondAscii).reference; }},
    {"json-pointer", [] { return std::string("(/([^/~\\u0000-\\u001f]|~[01])*)*"); }},
    {"regex", regular_expression},
};

constexpr std::string_view kRefused[] = {"idn-email", "idn-hostname", "relative-json-pointer",
                                         "uri-template"};

}  // namespace

FormatKind format_kind(std::string_view name) {
  if (std::ranges::find(kKnown, name, &Format::name) != std::end(kKnown)) return FormatKind::known;
  if (std::ranges::find(kRefused, name) != std::end(kRefused)) return FormatKind::refused;
  return FormatKind::unknown;
}

Result<std::shared_ptr<const FormatLanguage>> format_language(std::string_view name) {
  const auto* format = std::ranges::find(kKnown, name, &Format::name);
  if (format == std::end(kKnown)) {
    return std::make_shared<const FormatLanguage>(FormatLanguage{CharDfa::all(), {}});
  }
  // They are constants, made when they are first asked for.
  static std::mutex mutex;
  static std::array<std::shared_ptr<const FormatLanguage>, std::size(kKnown)> made;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const FormatLanguage>& known = made[static_cast<size_t>(format - kKnown)];
  if (known) return known;
  const auto compiled = [](const std::string& pattern) -> Result<CharDfa> {
    CharWork work;
    INFER_TRY(const CharDfa language, compile_regex("^(" + pattern + ")$", work));
    return language.minimal(work);
  };
  FormatLanguage out;
  INFER_TRY(out.all, compiled(format->pattern()));
  if (format->uncounted != nullptr) {
    INFER_TRY(out.uncounted, compiled(format->uncounted()));
  }
  known = std::make_shared<const FormatLanguage>(std::move(out));
  return known;
}

}  // namespace infer
