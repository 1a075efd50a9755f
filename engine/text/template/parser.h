// From tokens to the syntax tree, by Jinja's grammar with the extensions loopcontrols (break,
// continue) and {% generation %}. Statements that need another file (import, include, extends,
// block) are unsupported.
#pragma once

#include <memory>
#include <string_view>

#include "engine/text/template/ast.h"

namespace infer::jinja {

inline constexpr size_t kMaxSource = size_t{1} << 20;  ///< bytes of a template
inline constexpr int kMaxTreeDepth = 400;    ///< of expressions; the reference ends before 300
inline constexpr int kMaxParserDepth = 150;  ///< brackets and blocks within one another

/// Parsed and resolved (scopes.h). Fails with bad_file or unsupported; the message names the line.
Result<std::unique_ptr<Ast>> parse(std::string_view source);

}  // namespace infer::jinja
