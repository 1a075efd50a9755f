// The automaton of one rule without empty moves.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sample/grammar/grammar.h"

namespace infer {

/// States by index, the first where the rule starts.
struct RuleAutomaton {
  struct State {
    std::vector<CompiledGrammar::Edge> edges;
    std::vector<CompiledGrammar::Call> calls;
    std::vector<CompiledGrammar::TokenEdge> tokens;
    bool is_final = false;
  };
  std::vector<State> states;
};

/// Removes the empty moves and makes the bytes deterministic (subset construction, Rabin & Scott
/// 1959; a call is a letter). If that needs many times the states of the graph, the bytes stay
/// nondeterministic. `work` counts down; at 0 the automaton is incomplete and must be refused.
RuleAutomaton make_rule_automaton(const RuleGraph& graph, int64_t& work);

}  // namespace infer
