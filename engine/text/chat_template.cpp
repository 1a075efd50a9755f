#include "engine/text/chat_template.h"

#include <charconv>
#include <ctime>
#include <optional>

#include "engine/core/platform/c_library.h"
#include "engine/text/template/interpreter.h"
#include "engine/text/template/parser.h"
#include "engine/text/template/variables.h"

namespace infer {
namespace {

/// Seconds since 1970 of "2026-01-15T12:00:00", what follows the seconds ignored.
Result<int64_t> parse_time(std::string_view text) {
  int fields[6] = {};
  constexpr size_t kBegins[] = {0, 5, 8, 11, 14, 17};
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:dd";
  bool valid = text.size() >= kForm.size();
  for (size_t i = 0; valid && i < kForm.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    valid = kForm[i] == 'd' ? digit : text[i] == kForm[i] || (i == 10 && text[i] == ' ');
  }
  for (size_t i = 0; valid && i < 6; ++i) {
    const char* first = text.data() + kBegins[i];
    std::from_chars(first, first + (i == 0 ? 4 : 2), fields[i]);
  }
  valid = valid && fields[1] >= 1 && fields[1] <= 12 && fields[2] >= 1 && fields[2] <= 31 &&
          fields[3] <= 23 && fields[4] <= 59 && fields[5] <= 59;
  if (!valid) {
    return fail(StatusCode::invalid_argument, "'{}' is not a time as 2026-01-15T12:00:00",
                jinja::shortened(text));
  }
  std::tm time = {};
  time.tm_year = fields[0] - 1900;
  time.tm_mon = fields[1] - 1;
  time.tm_mday = fields[2];
  time.tm_hour = fields[3];
  time.tm_min = fields[4];
  time.tm_sec = fields[5];
  return os::seconds_of(time);
}

}  // namespace

TemplateProgram::TemplateProgram(std::unique_ptr<const jinja::Ast> ast) : ast_(std::move(ast)) {}
TemplateProgram::~TemplateProgram() = default;

Result<std::unique_ptr<TemplateProgram>> TemplateProgram::parse(std::string_view source) {
  INFER_TRY(std::unique_ptr<jinja::Ast> ast, jinja::parse(source));
  return std::unique_ptr<TemplateProgram>(new TemplateProgram(std::move(ast)));
}

Result<std::string> TemplateProgram::render(std::string_view variables,
                                            std::string_view now) const {
  int64_t seconds = 0;
  if (now.empty()) {
    seconds = os::local_time();
  } else {
    INFER_TRY(seconds, parse_time(now));
  }
  jinja::Interpreter interpreter(*ast_, seconds, jinja::Budget::work_for(variables.size()));
  INFER_TRY(const jinja::Value values, jinja::read_variables(interpreter.budget(), variables));
  return interpreter.run(values);
}

}  // namespace infer
