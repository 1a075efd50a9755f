// Chat templates by name, for models that come without one, and the flags that choose one.
#pragma once

#include <string>

#include "cli/options.h"

namespace infer::cli {

/// What --chat-template and --chat-template-file were given.
struct TemplateArgs {
  std::string named;
  std::string file;
};
void declare_template(Options options, TemplateArgs& args);
/// Empty where neither was given: the model's own counts. Throws Failure.
std::string template_source(const TemplateArgs& args);
/// The text that ends an answer of the template that was named; empty: none.
std::string template_stop(const TemplateArgs& args);

}  // namespace infer::cli
