// Which variable a name means. Jinja decides this before a template runs: every block with a scope
// of its own (loop, macro, call, filter, with, block assignment) has variables for the names that
// it assigns anywhere within; they begin as those outside of the block do, and end with it. Where
// only some branches of an `if` assign, the name begins as in the scope around or as in the
// context.
#pragma once

#include "engine/text/template/ast.h"

namespace infer::jinja {

/// Gives every name its slot and every scope what its variables begin as; looks filters and tests
/// up. bad_file for what the reference refuses before running: unknown filters and tests outside of
/// branches, assigning to `loop` within a loop.
Status resolve(Ast& ast);

}  // namespace infer::jinja
