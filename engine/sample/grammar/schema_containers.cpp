// Arrays and objects.
#include <algorithm>
#include <array>
#include <set>

#include "engine/sample/grammar/schema_compiler.h"

namespace infer {
namespace {

/// Items that are counted one by one.
constexpr uint64_t kMaxCountedItems = 4096;
/// Of patternProperties: each subset of them may have names of its own.
constexpr size_t kMaxPatterns = 6;

}  // namespace

/// The number of items beyond which none are written.
Status SchemaCompiler::most_items(const Shape& s, size_t prefix, uint64_t& most) {
  most = s.max_items;
  const bool rest_said = s.arrays.empty() || std::ranges::any_of(s.arrays, [](const auto& part) {
                           return part->items != kNoNode;
                         });
  if (!rest_said && s.contains.empty()) {
    most = std::min(most, std::max<uint64_t>(prefix, s.min_items));
  }
  if (s.min_items > kMaxCountedItems) return refused("minItems", "too large").value();
  if (s.contains.size() > 1) {
    return refused("contains", "two of them for one array are not supported").value();
  }
  if (s.unique_items && most > 1) {
    return refused("uniqueItems",
                   "it cannot be guaranteed that items differ, unless maxItems is 1 or less")
        .value();
  }
  if (most != kUnlimited) most = std::min(most, std::max(kMaxCountedItems, s.min_items));
  return {};
}

/// One node for each number of items so far and whether the one that `contains` asks for is there.
Status SchemaCompiler::emit_array(const Shape& s, RuleId rule) {
  size_t prefix = 0;
  for (const auto& part : s.arrays) prefix = std::max(prefix, part->prefix.size());
  uint64_t most = 0;
  INFER_CHECK(most_items(s, prefix, most));
  if (s.min_items > most) return {};
  const bool endless = most == kUnlimited;
  const size_t counted = endless ? std::max<size_t>({prefix, s.min_items, 1}) : most;
  const size_t wanted = s.contains.empty() ? 0 : 1;

  const uint32_t open = graph(rule).literal(RuleGraph::kStart, "[");
  const uint32_t closing = graph(rule).node();
  const uint32_t close = graph(rule).node();
  graph(rule).call(closing, space_, close);
  graph(rule).byte(close, ']', RuleGraph::kEnd);
  if (s.min_items == 0 && wanted == 0) graph(rule).byte(open, ']', RuleGraph::kEnd);

  std::vector<std::array<uint32_t, 2>> after(counted + 1);
  after[0] = {open, open};
  for (size_t i = 1; i <= counted; ++i) after[i] = {graph(rule).node(), graph(rule).node()};
  for (size_t i = 0; i <= counted; ++i) {
    for (size_t found = 0; found <= (i == 0 ? 0 : wanted); ++found) {
      if (builder_.too_large()) return {};
      const uint32_t here = after[i][found];
      if (i > 0 && i >= s.min_items && found >= wanted) graph(rule).epsilon(here, closing);
      if (i == counted && !endless) continue;
      const uint32_t before = i == 0 ? here : graph(rule).literal(here, ",");
      const uint32_t begin = graph(rule).node();
      graph(rule).call(before, space_, begin);
      INFER_CHECK(maker_.count_work(at_, s.arrays.size() / 16));
      // The last node of an endless array leads to itself.
      const size_t next = std::min(i + 1, counted);
      Conjunction schemas = ShapeMaker::item(s, i);
      RuleId item = value(schemas);
      graph(rule).call(begin, item, after[next][found]);
      if (found == wanted) continue;
      schemas.push_back(s.contains[0]);
      std::ranges::sort(schemas);
      item = value(schemas);
      graph(rule).call(begin, item, after[next][1]);
    }
  }
  return {};
}

Result<CharDfa> SchemaCompiler::names_of(const Shape& s) {
  if (s.names.empty()) return CharDfa::all();
  Conjunction schemas = s.names;
  std::ranges::sort(schemas);
  INFER_TRY(const Shapes shapes, maker_.shapes(schemas));
  CharDfa all = CharDfa::of({});
  for (const Shape& name : shapes) {
    if ((name.types & kString) == 0) continue;
    CharDfa base = CharDfa::all();
    if (name.values) {
      std::vector<std::string_view> texts;
      for (const ValueId id : *name.values) {
        const Json& v = maker_.value(id);
        if (v.is_string()) texts.push_back(v.get_ref<const std::string&>());
      }
      INFER_TRY(base, maker_.set_of(at_, texts));
    }
    INFER_TRY(const CharDfa one, language_of(name, std::move(base)));
    Result<CharDfa> both = all.united(one, maker_.char_work());
    if (!both) return refused("propertyNames", both.error().message());
    all = *std::move(both);
  }
  return all;
}

/// The names that may be written, except those of `listed` and the excluded ones.
Result<CharDfa> SchemaCompiler::other_names(const Shape& s,
                                            const std::vector<std::string_view>& listed) {
  std::vector<std::string_view> excluded = listed;
  excluded.insert(excluded.end(), s.absent.begin(), s.absent.end());
  INFER_TRY(CharDfa names, maker_.set_of(at_, excluded));
  names = names.complement();
  if (s.names.empty()) return names;
  INFER_TRY(const CharDfa allowed, names_of(s));
  auto both = names.intersected(allowed, maker_.char_work());
  if (!both) return refused("propertyNames", both.error().message());
  return both;
}

/// Names that are not listed, apart by which patterns they match.
Status SchemaCompiler::add_others(const Shape& s, const std::vector<std::string_view>& listed,
                                  Members& members) {
  std::vector<std::shared_ptr<const CharDfa>> patterns;
  for (const auto& part : s.objects) {
    for (const ObjectPart::Pattern& p : part->patterns) patterns.push_back(p.names);
  }
  if (!ShapeMaker::allows_other_members(s) && patterns.empty()) return {};
  if (patterns.size() > kMaxPatterns) {
    return refused("patternProperties", "more than 6 of them are not supported").value();
  }
  const bool any_name = listed.empty() && s.absent.empty() && s.names.empty() && patterns.empty();
  std::optional<CharDfa> names;
  for (uint32_t bits = 0; bits < uint32_t{1} << patterns.size(); ++bits) {
    // Where nothing is said of names that match no pattern, there are none.
    if (bits == 0 && !ShapeMaker::allows_other_members(s)) continue;
    std::vector<bool> matching(patterns.size());
    for (size_t i = 0; i < patterns.size(); ++i) matching[i] = ((bits >> i) & 1) != 0;
    const Conjunction schemas = ShapeMaker::other_member(s, matching);
    if (std::ranges::any_of(schemas, [this](NodeId id) { return document_.is_false(id); })) {
      continue;
    }
    if (!names) {
      INFER_TRY_S(names, other_names(s, listed));
    }
    CharDfa language = *names;
    for (size_t i = 0; i < patterns.size(); ++i) {
      auto part = language.intersected(matching[i] ? *patterns[i] : patterns[i]->complement(),
                                       maker_.char_work());
      if (!part) return refused("patternProperties", part.error().message()).value();
      language = *std::move(part);
    }
    if (language.empty()) continue;
    const RuleId inner = value(schemas);
    const RuleId rule = builder_.add_rule("a member");
    const uint32_t name = graph(rule).node();
    if (any_name) {
      graph(rule).call(RuleGraph::kStart, text_, name);
    } else {
      emit_quoted(language, rule, RuleGraph::kStart, name);
    }
    emit_colon(graph(rule), name, inner);
    members.all.others.push_back(rule);
  }
  return {};
}

Result<SchemaCompiler::Members> SchemaCompiler::members_of(const Shape& s) {
  std::vector<std::string_view> order;
  std::set<std::string_view> seen;
  for (const auto& part : s.objects) {
    for (const auto& [name, schema] : part->properties) {
      if (seen.insert(name).second) order.push_back(name);
    }
  }
  for (const std::string_view name : s.required) {
    if (seen.insert(name).second) order.push_back(name);
  }
  const std::set<std::string_view> required(s.required.begin(), s.required.end());
  Members members;
  members.all.least = s.min_members;
  members.all.most = s.max_members;
  CharDfa names = CharDfa::all();
  if (!s.names.empty()) {
    INFER_TRY(names, names_of(s));
  }
  for (const std::string_view name : order) {
    const bool needed = required.contains(name);
    if (s.absent.contains(name) || !names.matches(name)) {
      members.possible = members.possible && !needed;
      continue;
    }
    INFER_TRY(const Conjunction schemas, maker_.member(s, name));
    const RuleId inner = value(schemas);
    members.all.listed.push_back({Json(name).dump(), inner, needed});
  }
  INFER_CHECK_R(add_others(s, order, members));
  return members;
}

Status SchemaCompiler::emit_object(const Shape& s, RuleId rule) {
  if (s.min_members > s.max_members) return {};
  INFER_TRY_S(const Members members, members_of(s));
  if (s.min_members > 0 && !ShapeMaker::allows_other_members(s)) {
    maker_.leave_out(at_, "minProperties",
                     "without additionalProperties only the properties that the schema lists are "
                     "written");
  }
  if (!members.possible) return {};
  const bool others = !members.all.others.empty();
  if (s.min_members > members.all.listed.size() + (others ? 1 : 0)) {
    // The schema itself allows none where all others are excluded.
    if (!others && ShapeMaker::allows_other_members(s)) return {};
    return refused("minProperties",
                   "it cannot be guaranteed that so many members have different names")
        .value();
  }
  if (!infer::emit_object(builder_, names_, rule, space_, members.all)) {
    return refused("minProperties/maxProperties", "too many combinations").value();
  }
  return {};
}

}  // namespace infer
