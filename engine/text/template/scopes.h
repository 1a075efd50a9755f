// Finds the variable that a name refers to. Jinja decides this before a template runs. Every block
// with its own scope (loop, macro, call, filter, with, block assignment) has its own variables for
// all names that it assigns. They start with the values from outside the block and end with it. If
// only some branches of an `if` assign a name, it starts with the value of the enclosing scope or
// of the context.
#pragma once

#include "engine/text/template/ast.h"

namespace infer::jinja {

/// Assigns every name its slot and every variable its initial value; looks up filters and tests.
/// Errors: bad_file for what the reference refuses before running: unknown filters and tests
/// outside branches, and assigning to `loop` within a loop.
Status resolve(Ast& ast);

}  // namespace infer::jinja
