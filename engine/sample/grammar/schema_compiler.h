// From the shapes of a schema to the rules of a grammar.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/sample/grammar/grammar.h"
#include "engine/sample/grammar/object_graph.h"
#include "engine/sample/grammar/schema_shape.h"

namespace infer {

/// One rule for each conjunction of schemas that a value has to satisfy, made when it is first
/// asked for. Errors are those of compile_json_schema.
class SchemaCompiler {
 public:
  using RuleId = GrammarBuilder::RuleId;

  SchemaCompiler(SchemaDocument& document, GrammarBuilder& builder)
      : document_(document), maker_(document), builder_(builder) {}

  /// Adds the rules to the builder; returns the one that reads a whole value.
  Result<RuleId> add();
  /// The grammar of the builder, which has no other rules.
  Result<std::shared_ptr<const CompiledGrammar>> compile();

 private:
  tl::unexpected<Status> refused(std::string_view keyword, std::string_view what) const;
  RuleGraph& graph(RuleId rule) { return builder_.graph(rule); }
  void make_shared_rules();
  RuleId value(const Conjunction& schemas);

  // Of one shape, added to the rule of a value.
  Status emit(const Shape& s, RuleId rule);
  Status emit_values(const Shape& s, RuleId rule);
  Status emit_numbers(const Shape& s, RuleId rule);
  Status emit_strings(const Shape& s, RuleId rule);
  Status emit_array(const Shape& s, RuleId rule);
  Status emit_object(const Shape& s, RuleId rule);

  /// A string in quotes whose characters the automaton reads.
  void emit_quoted(const CharDfa& language, RuleId rule, uint32_t from, uint32_t to,
                   std::optional<StringLoop> loop = {});
  /// Reads strings of these languages and lengths, in quotes; made once.
  Result<RuleId> text_of(const Shape& s);
  /// `base` with what the shape says of strings.
  Result<CharDfa> language_of(const Shape& s, CharDfa base);
  /// `base` with the languages of the shape, of any length.
  Result<CharDfa> characters_of(const Shape& s, CharDfa base, bool uncounted = false);
  Status most_items(const Shape& s, size_t prefix, uint64_t& most);

  /// Languages, which live as long as the key so that no other takes an address of theirs, and the
  /// limits of the length.
  using TextKey = std::tuple<std::vector<std::shared_ptr<const void>>, uint64_t, uint64_t>;

  struct Members {
    bool possible = true;  ///< false: a required one is not
    ObjectMembers all;
  };
  Result<Members> members_of(const Shape& s);
  Status add_others(const Shape& s, const std::vector<std::string_view>& listed, Members& members);
  /// The names that propertyNames allows.
  Result<CharDfa> names_of(const Shape& s);
  Result<CharDfa> other_names(const Shape& s, const std::vector<std::string_view>& listed);

  SchemaDocument& document_;
  ShapeMaker maker_;
  GrammarBuilder& builder_;
  NameRules names_{builder_};
  std::map<Conjunction, RuleId> values_;
  std::vector<std::pair<Conjunction, RuleId>> pending_;
  NodeId at_ = 0;  ///< for messages
  std::map<TextKey, RuleId> texts_;
  RuleId space_ = 0, text_ = 0;
  RuleId numbers_[2] = {};  ///< without and with fractions
};

}  // namespace infer
