// Filters of sequences. What is a generator in Python is an Iterator here.
#include <algorithm>

#include "engine/core/checked.h"
#include "engine/text/template/attribute_path.h"
#include "engine/text/template/characters.h"
#include "engine/text/template/interpreter.h"
#include "engine/text/template/range.h"

namespace infer::jinja {
namespace {

Result<Value> first(Call& call) {
  if (auto* iterator = call.self.as<Iterator>();
      call.self.is(Kind::object) && iterator != nullptr) {
    INFER_TRY(const std::optional<Value> item, iterator->next(call.in));
    return item ? *item : call.in.undefined("No first item, sequence was empty.");
  }
  INFER_TRY(const Elements items, call.in.elements(call.self));
  return items.size() > 0 ? items[0] : call.in.undefined("No first item, sequence was empty.");
}

/// Whether reversed() takes it.
bool reversible(const Value& value) {
  return !(value.is(Kind::object) && value.as<Iterator>() != nullptr) && !value.is(Kind::undefined);
}

Result<Value> last(Call& call) {
  if (call.self.is(Kind::undefined)) {
    return call.in.undefined("No last item, sequence was empty.");
  }
  if (!reversible(call.self)) return raise("'{}' object is not reversible", call.self.type_name());
  INFER_TRY(const Elements items, call.in.elements(call.self));
  return items.size() > 0 ? items[items.size() - 1]
                          : call.in.undefined("No last item, sequence was empty.");
}

Result<Value> list(Call& call) {
  INFER_TRY(const Elements items, call.in.elements(call.self));
  return call.in.list(items.all());
}

Result<Value> reverse(Call& call) {
  if (call.self.is(Kind::string)) {
    INFER_TRY(std::u32string text, call.in.characters(call.self.text()));
    std::ranges::reverse(text);
    return call.in.string(encode(text), call.self.markup());
  }
  INFER_TRY(const Elements items, call.in.elements(call.self));
  std::vector<Value> turned(items.all().rbegin(), items.all().rend());
  if (!reversible(call.self)) return call.in.list(std::move(turned));
  const Value held = call.in.list(std::move(turned));
  const std::string_view type = call.self.is(Kind::list) ? "list_reverseiterator" : "reversed";
  return call.in.iterator(
      type, [held](Interpreter&) -> Result<std::vector<Value>> { return held.items(); }, {held});
}

Result<Value> join(Call& call) {
  std::string between;
  if (call.has(0)) {
    INFER_TRY(between, call.in.str(call[0]));
  }
  std::optional<AttributePath> path;
  if (call.has(1) && !call[1].is(Kind::none)) {
    INFER_TRY(path, AttributePath::parse(call.in.budget(), call[1]));
  }
  INFER_TRY(const Elements items, call.in.elements(call.self));
  std::string out;
  bool first = true;
  for (const Value& item : items) {
    Value value = item;
    if (path) {
      INFER_TRY(value, path->get(call.in, item));
    }
    INFER_TRY(const std::string part, call.in.str(value));
    if (!std::exchange(first, false)) INFER_CHECK_R(call.in.append(out, between));
    INFER_CHECK_R(call.in.append(out, part));
  }
  return call.in.string(std::move(out));
}

Result<Value> sum(Call& call) {
  std::optional<AttributePath> path;
  if (call.has(0) && !call[0].is(Kind::none)) {
    INFER_TRY(path, AttributePath::parse(call.in.budget(), call[0]));
  }
  INFER_TRY(const Elements items, call.in.elements(call.self));
  Value total = call.has(1) ? call[1] : Value::of(int64_t{0});
  if (total.is(Kind::string)) return raise("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : items) {
    Value value = item;
    if (path) {
      INFER_TRY(value, path->get(call.in, item));
    }
    INFER_TRY(total, binary(call.in, '+', total, value));
    if (call.in.budget().spent()) return tl::unexpected(call.in.budget().failure());
  }
  return total;
}

Result<Value> extreme(Call& call, bool largest) {
  std::optional<AttributePath> path;
  if (call.has(1) && !call[1].is(Kind::none)) {
    INFER_TRY(path, AttributePath::parse(call.in.budget(), call[1]));
  }
  INFER_TRY(const Elements items, call.in.elements(call.self));
  if (items.size() == 0) return call.in.undefined("No aggregated item, sequence was empty.");
  const bool fold = !call.truth(0);
  std::optional<Value> best;
  std::optional<Value> best_key;
  for (const Value& item : items) {
    Value key = item;
    if (path) {
      INFER_TRY(key, path->get(call.in, item));
    }
    if (fold) key = folded(call.in, key);
    INFER_CHECK_R(call.in.check_budget());
    bool better = !best_key;
    if (best_key) {
      INFER_TRY(better, largest ? less(call.in.budget(), *best_key, key)
                                : less(call.in.budget(), key, *best_key));
    }
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return *best;
}

Result<Value> minimum(Call& call) { return extreme(call, false); }
Result<Value> maximum(Call& call) { return extreme(call, true); }

Result<Value> items_of(Call& call) {
  if (call.self.is(Kind::undefined)) {
    return call.in.iterator(
        "generator",
        [](Interpreter&) -> Result<std::vector<Value>> { return std::vector<Value>(); }, {});
  }
  const Value self = call.self;
  return call.in.iterator("generator",
                          [self](Interpreter& in) -> Result<std::vector<Value>> {
                            if (!self.is(Kind::dict))
                              return raise("Can only get item pairs from a mapping.");
                            std::vector<Value> pairs;
                            for (const auto& [key, value] : self.dict().entries)
                              pairs.push_back(in.tuple({key, value}));
                            return pairs;
                          },
                          {self});
}

Result<Value> unique(Call& call) {
  const Value self = call.self;
  const bool fold = !call.truth(0);
  std::optional<AttributePath> path;
  if (call.has(1) && !call[1].is(Kind::none)) {
    INFER_TRY(path, AttributePath::parse(call.in.budget(), call[1]));
  }
  return call.in.iterator("generator",
                          [self, fold, path](Interpreter& in) -> Result<std::vector<Value>> {
                            INFER_TRY(const Elements all, in.elements(self));
                            std::vector<std::pair<Value, Value>> keyed;
                            for (size_t i = 0; i < all.size(); ++i) {
                              Value key = all[i];
                              if (path) {
                                INFER_TRY(key, path->get(in, all[i]));
                              }
                              if (fold) key = folded(in, key);
                              in.budget().work(3 * Budget::kValue);
                              INFER_CHECK_R(in.check_budget());
                              if (!hashable(key))
                                return raise("unhashable type: '{}'", key.type_name());
                              keyed.emplace_back(std::move(key),
                                                 Value::of(static_cast<int64_t>(i)));
                            }
                            // A dict keeps the place of a key's first entry, and the value of its
                            // last: what it holds from the end backwards is the first of each.
                            std::ranges::reverse(keyed);
                            const Value found = in.dict(std::move(keyed));
                            std::vector<int64_t> indices;
                            for (const auto& [key, index] : found.dict().entries)
                              indices.push_back(index.integer());
                            std::ranges::sort(indices);
                            std::vector<Value> kept;
                            for (const int64_t i : indices)
                              kept.push_back(all[static_cast<size_t>(i)]);
                            return kept;
                          },
                          {self});
}

Result<Value> batch(Call& call) {
  INFER_TRY(const int64_t count, call.integer(0));
  const Value self = call.self;
  const Value fill = call.has(1) ? call[1] : Value::none();
  return call.in.iterator("generator",
                          [self, fill, count](Interpreter& in) -> Result<std::vector<Value>> {
                            INFER_TRY(const Elements all, in.elements(self));
                            std::vector<Value> rows;
                            std::vector<Value> row;
                            for (const Value& item : all) {
                              if (static_cast<int64_t>(row.size()) == count) {
                                in.budget().step();
                                INFER_CHECK_R(in.check_budget());
                                rows.push_back(in.list(std::exchange(row, {})));
                              }
                              row.push_back(item);
                            }
                            if (row.empty()) return rows;
                            if (!fill.is(Kind::none) && static_cast<int64_t>(row.size()) < count) {
                              const auto bytes =
                                  checked_mul(count, static_cast<int64_t>(sizeof(Value)));
                              if (!bytes)
                                return raise("a batch of {} elements is too large", count);
                              INFER_CHECK_R(in.check_size(*bytes));
                              row.resize(static_cast<size_t>(count), fill);
                            }
                            rows.push_back(in.list(std::move(row)));
                            return rows;
                          },
                          {self, fill});
}

Result<Value> slices(Call& call) {
  INFER_TRY(const int64_t count, call.integer(0));
  const Value self = call.self;
  const Value fill = call.has(1) ? call[1] : Value::none();
  return call.in.iterator("generator",
                          [self, fill, count](Interpreter& in) -> Result<std::vector<Value>> {
                            INFER_TRY(const Elements all, in.elements(self));
                            if (count == 0) return raise("integer division or modulo by zero");
                            std::vector<Value> columns;
                            if (count < 0) return columns;
                            constexpr int64_t kColumnBytes = 128;  // of an empty list, at least
                            const auto bytes = checked_mul(count, kColumnBytes);
                            if (!bytes) return raise("{} slices are too many", count);
                            INFER_CHECK_R(in.check_size(*bytes));
                            const size_t parts = static_cast<size_t>(count);
                            const size_t each = all.size() / parts;
                            const size_t longer = all.size() % parts;
                            size_t begin = 0;
                            for (size_t i = 0; i < parts; ++i) {
                              const size_t end = begin + each + (i < longer ? 1 : 0);
                              std::vector<Value> column(all.begin() + static_cast<ptrdiff_t>(begin),
                                                        all.begin() + static_cast<ptrdiff_t>(end));
                              begin = end;
                              if (!fill.is(Kind::none) && i >= longer) column.push_back(fill);
                              columns.push_back(in.list(std::move(column)));
                              in.budget().step();
                              INFER_CHECK_R(in.check_budget());
                            }
                            return columns;
                          },
                          {self, fill});
}

Result<Value> map(Call& call) {
  const Value self = call.self;
  Arguments given = call.given;
  std::vector<Value> held = given.positional;
  for (const auto& [name, value] : given.named) held.push_back(value);
  held.push_back(self);
  const auto compute = [self, given](Interpreter& in) -> Result<std::vector<Value>> {
    std::vector<Value> mapped;
    if (!self.truth()) return mapped;
    Arguments arguments = given;
    std::optional<AttributePath> path;
    Value filter;
    Value otherwise;
    if (arguments.positional.empty()) {
      const Value attribute = arguments.take("attribute");
      if (attribute.is(Kind::missing)) return raise("map requires a filter argument");
      otherwise = arguments.take("default");
      if (!arguments.named.empty()) {
        return raise("Unexpected keyword argument '{}'", shortened(arguments.named[0].first));
      }
      INFER_TRY(path, AttributePath::parse(in.budget(), attribute));
    } else {
      filter = arguments.positional[0];
      if (!filter.is(Kind::string)) return raise("map needs the name of a filter");
      arguments.positional.erase(arguments.positional.begin());
    }
    INFER_TRY(const Elements items, in.elements(self));
    for (const Value& item : items) {
      Value value;
      if (path) {
        INFER_TRY(value, path->get(in, item, otherwise));
      } else {
        INFER_TRY(value, in.filter(filter.text(), item, arguments));
      }
      mapped.push_back(std::move(value));
      if (in.budget().spent()) return tl::unexpected(in.budget().failure());
    }
    return mapped;
  };
  return call.in.iterator("generator", compute, held);
}

/// select, reject and, with `by_attribute`, selectattr, rejectattr.
template <bool by_attribute, bool keeps>
Result<Value> select(Call& call) {
  const Value self = call.self;
  Arguments given = call.given;
  std::vector<Value> held = given.positional;
  for (const auto& [name, value] : given.named) held.push_back(value);
  held.push_back(self);
  const auto compute = [self, given](Interpreter& in) -> Result<std::vector<Value>> {
    std::vector<Value> kept;
    if (!self.truth()) return kept;
    Arguments arguments = given;
    auto& positional = arguments.positional;
    std::optional<AttributePath> path;
    if (by_attribute) {
      if (positional.empty()) return raise("Missing parameter for attribute name");
      INFER_TRY(path, AttributePath::parse(in.budget(), positional[0]));
      positional.erase(positional.begin());
    }
    std::optional<std::string> test;
    if (!positional.empty()) {
      if (!positional[0].is(Kind::string)) return raise("expected the name of a test");
      test = positional[0].text();
      positional.erase(positional.begin());
    }
    INFER_TRY(const Elements items, in.elements(self));
    for (const Value& item : items) {
      Value value = item;
      if (path) {
        INFER_TRY(value, path->get(in, item));
      }
      bool holds = value.truth();
      if (test) {
        INFER_TRY(holds, in.test(*test, value, arguments));
      }
      if (holds == keeps) kept.push_back(item);
      if (!in.budget().step()) return tl::unexpected(in.budget().failure());
    }
    return kept;
  };
  return call.in.iterator("generator", compute, held);
}

constexpr Builtin kSequenceFilters[] = {
    {"first", "", first, Cost::own},
    {"last", "", last, Cost::own},
    {"list", "", list},
    {"reverse", "", reverse},
    {"join", "d? attribute?", join},
    {"sum", "attribute? start?", sum},
    {"min", "case_sensitive? attribute?", minimum},
    {"max", "case_sensitive? attribute?", maximum},
    {"items", "", items_of, Cost::own},
    {"unique", "case_sensitive? attribute?", unique},
    {"batch", "linecount fill_with?", batch},
    {"slice", "slices fill_with?", slices},
    {"map", "*", map},
    {"select", "*", select<false, true>},
    {"reject", "*", select<false, false>},
    {"selectattr", "*", select<true, true>},
    {"rejectattr", "*", select<true, false>},
    {"sort", "reverse? case_sensitive? attribute?", sorted},
    {"dictsort", "case_sensitive? by? reverse?", dict_sorted},
    {"groupby", "attribute default? case_sensitive?", grouped},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

}  // namespace infer::jinja
