// Values that are no containers; schema_containers.cpp makes arrays and objects.
#include "engine/sample/grammar/json_schema.h"

#include <algorithm>

#include "engine/sample/grammar/schema_compiler.h"
#include "engine/sample/grammar/text_cursor.h"

namespace infer {
namespace {

/// Of a string whose characters are counted while it is made.
constexpr uint64_t kMaxLength = 1'000'000;

uint64_t most_characters(const Shape& s) {
  return s.max_length == kUnlimited ? CompiledGrammar::kNone
                                    : std::min(s.max_length, std::max(kMaxLength, s.min_length));
}

}  // namespace

Result<SchemaCompiler::RuleId> SchemaCompiler::add() {
  make_shared_rules();
  const uint32_t start = value({document_.root()});
  while (!pending_.empty()) {
    const auto [schemas, rule] = pending_.back();
    pending_.pop_back();
    at_ = schemas.empty() ? document_.root() : schemas.front();
    INFER_TRY(const Shapes shapes, maker_.shapes(schemas));
    for (const Shape& s : shapes) {
      if (!builder_.too_large()) INFER_CHECK_R(emit(s, rule));
    }
    if (builder_.too_large()) {
      return refused("schema", "its grammar is too large: more than " +
                                   std::to_string(kMaxGrammarSize) + " states and edges");
    }
    if (values_.size() > kMaxSchemaNodes) {
      return refused("schema", "its grammar is too large: more than " +
                                   std::to_string(kMaxSchemaNodes) + " kinds of values");
    }
  }
  return start;
}

Result<std::shared_ptr<const CompiledGrammar>> SchemaCompiler::compile() {
  INFER_TRY(const RuleId start, add());
  auto compiled = builder_.compile(start, kMaxSchemaDepth);
  if (!compiled && compiled.error().code() == StatusCode::invalid_argument) {
    if (const auto& left_out = maker_.left_out(); left_out.at != kNoNode) {
      return document_.failure(
          StatusCode::unsupported, left_out.at, left_out.keyword,
          std::string(left_out.what) + "; no other value satisfies the whole schema");
    }
    return document_.failure(StatusCode::invalid_argument, document_.root(), "schema",
                             "no value satisfies it within the size limits");
  }
  return compiled;
}

tl::unexpected<Status> SchemaCompiler::refused(std::string_view keyword,
                                               std::string_view what) const {
  return document_.failure(StatusCode::unsupported, at_, keyword, what);
}

void SchemaCompiler::make_shared_rules() {
  space_ = builder_.add_rule("white space");
  emit_white_space(graph(space_), RuleGraph::kStart, RuleGraph::kEnd);
  text_ = builder_.add_rule("a string");
  RuleGraph& text = graph(text_);
  const uint32_t inside = text.node();
  text.byte(RuleGraph::kStart, '"', inside);
  emit_character(text, inside, inside);
  text.byte(inside, '"', RuleGraph::kEnd);
  for (const bool fractions : {false, true}) {
    numbers_[fractions] = builder_.add_rule("a number");
    NumberSpec spec;
    spec.fractions = fractions;
    emit_number(graph(numbers_[fractions]), RuleGraph::kStart, spec, RuleGraph::kEnd);
  }
}

SchemaCompiler::RuleId SchemaCompiler::value(const Conjunction& schemas) {
  const auto it = values_.find(schemas);
  if (it != values_.end()) return it->second;
  const RuleId rule = builder_.add_rule("a value");
  values_.emplace(schemas, rule);
  pending_.emplace_back(schemas, rule);
  return rule;
}

Status SchemaCompiler::emit(const Shape& s, RuleId rule) {
  if (s.origin != kNoNode) at_ = s.origin;
  if (s.values) return emit_values(s, rule);
  constexpr std::pair<uint8_t, std::string_view> kWords[] = {
      {kNull, "null"}, {kTrue, "true"}, {kFalse, "false"}};
  for (const auto& [type, word] : kWords) {
    if ((s.types & type) != 0) graph(rule).literal(RuleGraph::kStart, word, RuleGraph::kEnd);
  }
  if ((s.types & kAnyNumber) != 0) INFER_CHECK(emit_numbers(s, rule));
  if ((s.types & kString) != 0) INFER_CHECK(emit_strings(s, rule));
  if ((s.types & kArray) != 0) INFER_CHECK(emit_array(s, rule));
  if ((s.types & kObject) != 0) INFER_CHECK(emit_object(s, rule));
  return {};
}

Status SchemaCompiler::emit_values(const Shape& s, RuleId rule) {
  Shape others = s;
  others.values.reset();
  for (const ValueId v : *s.values) {
    INFER_TRY_S(const bool ok, maker_.allows(others, v));
    if (ok) graph(rule).literal(RuleGraph::kStart, maker_.value(v).dump(), RuleGraph::kEnd);
    if (builder_.too_large()) break;
  }
  return {};
}

Status SchemaCompiler::emit_numbers(const Shape& s, RuleId rule) {
  NumberSpec spec;
  spec.fractions = (s.types & kFraction) != 0 && s.multiple_of == 1;
  spec.integers = (s.types & kInteger) != 0;
  spec.lower = s.lower;
  spec.upper = s.upper;
  spec.multiple_of = s.multiple_of;
  if (!spec.integers && !spec.fractions) return {};
  if (!s.lower && !s.upper && s.multiple_of == 1 && spec.integers) {
    graph(rule).call(RuleGraph::kStart, numbers_[spec.fractions], RuleGraph::kEnd);
    return {};
  }
  if (!emit_number(graph(rule), RuleGraph::kStart, spec, RuleGraph::kEnd)) {
    return refused(s.multiple_of != 1 ? "multipleOf" : "minimum/maximum", "too large").value();
  }
  return {};
}

Status SchemaCompiler::emit_strings(const Shape& s, RuleId rule) {
  if (s.min_length > s.max_length) return {};
  if (!s.languages.empty() || !s.formats.empty()) {
    INFER_TRY_S(const RuleId text, text_of(s));
    graph(rule).call(RuleGraph::kStart, text, RuleGraph::kEnd);
    return {};
  }
  if (s.min_length == 0 && s.max_length == kUnlimited) {
    graph(rule).call(RuleGraph::kStart, text_, RuleGraph::kEnd);
    return {};
  }
  if (s.min_length > kMaxLength) return refused("minLength", "too large").value();
  const uint64_t most = most_characters(s);
  const uint32_t open = graph(rule).literal(RuleGraph::kStart, "\"");
  const uint32_t closed = graph(rule).node();
  graph(rule).byte(closed, '"', RuleGraph::kEnd);
  if (most == 0) {
    graph(rule).epsilon(open, closed);
    return {};
  }
  const RuleId counted = builder_.add_counted_rule(
      "characters", static_cast<uint32_t>(s.min_length), static_cast<uint32_t>(most));
  emit_character(graph(counted), RuleGraph::kStart, RuleGraph::kEnd);
  graph(rule).call(open, counted, closed);
  return {};
}

Result<SchemaCompiler::RuleId> SchemaCompiler::text_of(const Shape& s) {
  std::vector<std::shared_ptr<const void>> languages(s.languages.begin(), s.languages.end());
  languages.insert(languages.end(), s.formats.begin(), s.formats.end());
  std::ranges::sort(languages);
  const auto [known, fresh] =
      texts_.try_emplace({std::move(languages), s.min_length, s.max_length}, 0);
  if (!fresh) return known->second;
  const RuleId rule = builder_.add_rule("a string of a language");
  known->second = rule;
  const bool limited = s.min_length > 0 || s.max_length != kUnlimited;
  if (limited) {
    // Where all characters behind some are of one class, these are counted while the text is made.
    INFER_TRY(const CharDfa characters, characters_of(s, CharDfa::all()));
    const auto loop = characters.loop();
    if (loop && s.max_length > loop->prefix && s.min_length <= kMaxLength) {
      const auto behind = [&](uint64_t length) {
        return static_cast<uint32_t>(length - std::min<uint64_t>(length, loop->prefix));
      };
      const RuleId counted = builder_.add_counted_rule(
          "characters of a class", behind(s.min_length), behind(most_characters(s)));
      emit_characters(graph(counted), RuleGraph::kStart, characters.states()[loop->state].edges,
                      RuleGraph::kEnd);
      emit_quoted(characters, rule, RuleGraph::kStart, RuleGraph::kEnd,
                  StringLoop{loop->state, counted});
      return rule;
    }
  }
  INFER_TRY(const CharDfa language, language_of(s, CharDfa::all()));
  emit_quoted(language, rule, RuleGraph::kStart, RuleGraph::kEnd);
  return rule;
}

void SchemaCompiler::emit_quoted(const CharDfa& language, RuleId rule, uint32_t from, uint32_t to,
                                 std::optional<StringLoop> loop) {
  RuleGraph& g = graph(rule);
  const uint32_t open = g.literal(from, "\"");
  const uint32_t closed = g.node();
  emit_string_body(g, open, language, closed, loop);
  g.byte(closed, '"', to);
}

Result<CharDfa> SchemaCompiler::characters_of(const Shape& s, CharDfa base, bool uncounted) {
  const auto restrict_to = [&](const CharDfa& other, const char* keyword) -> Status {
    auto both = base.intersected(other, maker_.char_work());
    if (!both) return refused(keyword, both.error().message()).value();
    base = *std::move(both);
    return {};
  };
  for (const auto& language : s.languages) INFER_CHECK_R(restrict_to(*language, "pattern"));
  for (const auto& format : s.formats) {
    INFER_CHECK_R(
        restrict_to(uncounted && format->uncounted ? *format->uncounted : format->all, "format"));
  }
  return base;
}

Result<CharDfa> SchemaCompiler::language_of(const Shape& s, CharDfa base) {
  INFER_TRY(CharDfa characters, characters_of(s, base));
  if ((s.min_length == 0 && s.max_length == kUnlimited) || characters.empty()) return characters;
  const auto [least, most] = characters.lengths();
  const bool short_enough =
      s.max_length == kUnlimited || (most != CharDfa::kNoMaximum && most <= s.max_length);
  if (least >= s.min_length && short_enough) return characters;
  // Less than what is allowed is written where the limit is beyond the states there may be.
  constexpr uint64_t kLongest = 1000;
  if (s.min_length > kLongest) return refused("minLength", "too large together with a pattern");
  const auto min = static_cast<uint32_t>(s.min_length);
  uint32_t max =
      short_enough
          ? CharDfa::kNoMaximum
          : static_cast<uint32_t>(std::min(s.max_length, std::max(kLongest, s.min_length)));
  if (!short_enough &&
      std::ranges::any_of(s.formats, [](const auto& f) { return f->uncounted.has_value(); })) {
    max = std::min(max, std::max(FormatLanguage::kUncountedLength, min));
    if (max <= FormatLanguage::kUncountedLength) {
      INFER_TRY(characters, characters_of(s, std::move(base), true));
    }
  }
  while (true) {
    INFER_TRY(const CharDfa lengths, CharDfa::of_length(min, max));
    auto both = characters.intersected(lengths, maker_.char_work());
    if (both) return both;
    const uint32_t next = max / 4 * 3;
    if (max == CharDfa::kNoMaximum || maker_.char_work().left < 0 || next < std::max(min, least)) {
      return refused("minLength/maxLength", both.error().message());
    }
    max = next;
  }
}

Result<std::shared_ptr<const CompiledGrammar>> compile_json_schema(std::string_view json) {
  SchemaDocument document;
  INFER_CHECK_R(document.parse(without_byte_order_mark(json)));
  GrammarBuilder builder;
  return SchemaCompiler(document, builder).compile();
}

Result<GrammarBuilder::RuleId> add_json_schema(std::string_view json, GrammarBuilder& builder) {
  SchemaDocument document;
  INFER_CHECK_R(document.parse(json));
  return SchemaCompiler(document, builder).add();
}

}  // namespace infer
