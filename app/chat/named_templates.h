// Chat templates by name, for models that come without one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "infer/infer.hpp"

namespace infer::chat {

struct NamedTemplate {
  std::string_view name;
  std::string_view source;  ///< Jinja
  std::string_view stop;    ///< what ends an answer, if it is no token that ends texts anyway
};

std::span<const NamedTemplate> named_templates();

struct ChosenTemplate {
  std::string source;  ///< Jinja; empty: the model's own
  std::string stop;    ///< a text that ends an answer as well; may be empty
};
/// `choice`: a name, Jinja, or nothing. invalid_argument if it is none of these.
Result<ChosenTemplate> choose_template(const std::string& choice);

}  // namespace infer::chat
