#include "engine/sample/grammar/json_format.h"

#include <algorithm>
#include <string>

#include "engine/sample/grammar/regex.h"

namespace infer {
namespace {

// RFC 3339, without leap seconds; the 29th of February in leap years of 1904 to 2096 alone.
#define INFER_DATE                                                \
  "((19|20)[0-9]{2}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|"  \
  "(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|" \
  "(19(0[48]|[2468][048]|[13579][26])|20([02468][048]|[13579][26]))-02-29)"
#define INFER_TIME                                           \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?" \
  "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define INFER_LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?"
#define INFER_OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define INFER_HOST INFER_LABEL "(\\." INFER_LABEL "){0,5}"
#define INFER_PATH "(/[a-zA-Z0-9._~-]{1,64}){0,16}/?"

struct Format {
  std::string_view name;
  std::string_view pattern;
};

constexpr Format kKnown[] = {
    {"date", "^" INFER_DATE "$"},
    {"time", "^" INFER_TIME "$"},
    {"date-time", "^" INFER_DATE "T" INFER_TIME "$"},
    {"duration",
     "^P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?)?|"
     "[0-9]{1,4}Y([0-9]{1,4}M([0-9]{1,4}D)?)?|[0-9]{1,4}M([0-9]{1,4}D)?|"
     "T([0-9]{1,4}H([0-9]{1,4}M([0-9]{1,4}S)?)?|[0-9]{1,4}M([0-9]{1,4}S)?|[0-9]{1,4}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
    {"email", "^[a-zA-Z0-9_+-]{1,20}(\\.[a-zA-Z0-9_+-]{1,20}){0,2}@" INFER_HOST "$"},
    {"hostname", "^" INFER_HOST "$"},
    {"ipv4", "^" INFER_OCTET "(\\." INFER_OCTET "){3}$"},
    {"ipv6", "^([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$"},
    {"uri", "^https?://" INFER_HOST INFER_PATH "$"},
    {"uri-reference", "^https?://" INFER_HOST INFER_PATH "$"},
    {"iri", "^https?://" INFER_HOST INFER_PATH "$"},
    {"iri-reference", "^https?://" INFER_HOST INFER_PATH "$"},
    {"json-pointer", "^(/([^/~\\u0000-\\u001f]|~[01])*)*$"},
    {"regex", "^[a-zA-Z0-9 ]*$"},
};

#undef INFER_DATE
#undef INFER_TIME
#undef INFER_LABEL
#undef INFER_OCTET
#undef INFER_HOST
#undef INFER_PATH

constexpr std::string_view kRefused[] = {"idn-email", "idn-hostname", "relative-json-pointer",
                                         "uri-template"};

}  // namespace

FormatKind format_kind(std::string_view name) {
  if (std::ranges::find(kKnown, name, &Format::name) != std::end(kKnown)) return FormatKind::known;
  if (std::ranges::find(kRefused, name) != std::end(kRefused)) return FormatKind::refused;
  return FormatKind::unknown;
}

Result<CharDfa> format_language(std::string_view name, CharWork& work) {
  const auto* format = std::ranges::find(kKnown, name, &Format::name);
  if (format == std::end(kKnown)) return CharDfa::all();
  return compile_regex(format->pattern, work);
}

}  // namespace infer
