// Where a grammar begins to hold a text: a part of infer.hpp.
#pragma once

#include <string>
#include <vector>

namespace infer {

/// Where a grammar or a schema begins to hold a text. By default it holds all of it.
struct GrammarStart {
  /// Texts, of which each begins a text of the grammar. If there are any, a text is free until one
  /// of them comes, and generated as fast as without a grammar.
  std::vector<std::string> marks;
  /// The same, of those that count at the beginning of the text alone, behind white space.
  std::vector<std::string> first;
  /// No mark counts in the passage between these at the beginning of the text; empty: there is
  /// none.
  std::string skip_open, skip_close;
  bool skipping = false;  ///< the prompt ends within that passage
  /// When the text of the grammar is complete: true: free text follows, up to the next mark. False:
  /// the whole text ends.
  bool again = false;
  /// True: if the grammar cannot be enforced, or there is no room for it, all of the text is free.
  bool optional = false;
};

}  // namespace infer
