// A grammar that holds a text only behind a mark.
#pragma once

#include <memory>

#include "engine/sample/constraint.h"
#include "engine/sample/grammar/token_mask.h"
#include "engine/text/tokenizer.h"
#include "infer/infer.hpp"

namespace infer {

/// The constraint of a text that is still empty and free. `start`: has marks.
///
/// A mark may be one token or several, and begin or end within one. A token that ends behind a mark
/// is allowed if the grammar reads its rest. While the text is free, accept() takes every token: if
/// the grammar does not read what follows a mark, the text stays free. A token that ends a text
/// changes nothing then.
std::unique_ptr<Constraint> make_marked_constraint(std::shared_ptr<TokenGrammar> grammar,
                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                   const GrammarStart& start);

}  // namespace infer
