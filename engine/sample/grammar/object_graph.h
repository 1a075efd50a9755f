// The members of an object as a graph of about the size of their names.
//
// After a member, any later name may follow, up to the next required one. From member to member
// this set loses one name. The sets are versions of one trie: each shares all nodes with the next,
// except those along one name (a persistent tree: Driscoll et al. 1989).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/sample/grammar/grammar.h"

namespace infer {

/// Rules for the common parts of names, made at the first request.
class NameRules {
 public:
  explicit NameRules(GrammarBuilder& builder) : builder_(builder) {}

  /// Reads `text`.
  uint32_t literal(std::string_view text);
  /// Reads `text`, a colon and the value.
  uint32_t member(std::string_view text, uint32_t value);

 private:
  GrammarBuilder& builder_;
  std::map<std::string, uint32_t, std::less<>> literals_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> members_;
};

/// The members that an object may have, in the order in which they are written.
struct ObjectMembers {
  struct Listed {
    std::string text;  ///< the name as JSON, in quotes; all are different
    uint32_t value;    ///< rule
    bool required;
  };
  std::vector<Listed> listed;
  std::vector<uint32_t> others;  ///< rules; any number of times, after the listed ones
  uint64_t least = 0;            ///< members with different names
  uint64_t most = UINT64_MAX;    ///< members
};

/// Adds an object to the rule. `space`: the rule of white space. False if `least` and `most` lead
/// to too many combinations of members.
bool emit_object(GrammarBuilder& builder, NameRules& names, uint32_t rule, uint32_t space,
                 const ObjectMembers& members);

}  // namespace infer
