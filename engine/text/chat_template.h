// A model's chat template: a conversation to the text that the model continues.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/core/status.h"

namespace infer {

namespace jinja {
struct Ast;
}

/// Jinja as Hugging Face's transformers runs chat templates: trim_blocks, lstrip_blocks, break and
/// continue, generation blocks, tojson without HTML escapes, raise_exception(message),
/// strftime_now(format), the sandbox. Equal input gives equal text, to the byte. What the reference
/// offers besides and this does not: other files (import, include, extends, block), autoescape,
/// integers of more than 64 bits in calculations, the filters random and urlize.
///
/// Any template ends within about a second: steps, nesting, memory and output are bounded (see
/// template/value.h, parser.h, interpreter.h). Immutable; any number of threads may render at once.
class TemplateProgram {
 public:
  /// bad_file, with the line and what was expected; unsupported.
  static Result<std::unique_ptr<TemplateProgram>> parse(std::string_view source);
  ~TemplateProgram();

  /// `variables`: a JSON object. `now`: "2026-01-15T12:00:00", empty: the local time.
  /// invalid_argument: the variables or the time are malformed, the template raised (the message is
  /// the template's own), an operation failed or a limit was reached (the message names the line).
  Result<std::string> render(std::string_view variables, std::string_view now) const;

 private:
  explicit TemplateProgram(std::unique_ptr<const jinja::Ast> ast);
  std::unique_ptr<const jinja::Ast> ast_;
};

}  // namespace infer
