// Templates made to take long or to need much memory end within bounds, in text or an error.
#include <doctest.h>

#include "engine/text/chat_template.h"
#include "tests/hostile.h"

namespace infer {
namespace {

TEST_CASE("hostile templates end soon and in little memory") {
  const std::vector<test::Hostile> all =
      test::read_hostile("templates.json", "template", "variables", 170);
  for (const test::Hostile& hostile : all) {
    test::check_bounded(hostile, [&] {
      const auto program = TemplateProgram::parse(hostile.source);
      const Result<std::string> text =
          !program ? tl::unexpected(program.error())
                   : (*program)->render(hostile.input.empty() ? "{}" : hostile.input,
                                        "2026-01-15T12:00:00");
      if (text) return;
      const StatusCode code = text.error().code();
      const std::string& message = text.error().message();
      CAPTURE(hostile.name);
      CAPTURE(message);
      CHECK((code == StatusCode::bad_file || code == StatusCode::invalid_argument ||
             code == StatusCode::unsupported || code == StatusCode::does_not_fit));
      CHECK(message.size() < 1000);
      CHECK((message.starts_with("template, line ") ||
             message.starts_with("the variables are not JSON: ")));
    });
  }
}

}  // namespace
}  // namespace infer
