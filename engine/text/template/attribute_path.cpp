#include "engine/text/template/attribute_path.h"

#include <algorithm>
#include <charconv>

#include "engine/text/template/characters.h"

namespace infer::jinja {
namespace {

struct Keyed {
  std::vector<Value> keys;
  Value item;
};

/// Sorts stably by the keys, one after the other.
Status sort_by_keys(Interpreter& in, std::vector<Keyed>& entries, bool reverse) {
  Status failure;
  const auto before = [&](const Keyed& a, const Keyed& b) {
    if (!failure.ok()) return false;
    for (size_t i = 0; i < a.keys.size(); ++i) {
      if (equal(in.budget(), a.keys[i], b.keys[i])) continue;
      const Result<bool> below = less(in.budget(), a.keys[i], b.keys[i]);
      if (!below) failure = below.error();
      return below.value_or(false);
    }
    return false;
  };
  // A single key is compared even where all are equal: what cannot be compared fails.
  for (size_t i = 1; i < entries.size() && failure.ok(); ++i) {
    if (entries[i].keys.size() != 1) break;
    const Result<bool> tried = less(in.budget(), entries[i].keys[0], entries[i - 1].keys[0]);
    if (!tried) failure = tried.error();
  }
  INFER_CHECK(failure);
  if (reverse) {
    std::ranges::stable_sort(entries, [&](const Keyed& a, const Keyed& b) { return before(b, a); });
  } else {
    std::ranges::stable_sort(entries, before);
  }
  INFER_CHECK(failure);
  return in.budget().spent() ? in.budget().failure() : Status();
}

}  // namespace

Result<AttributePath> AttributePath::parse(Budget& budget, const Value& attribute) {
  AttributePath path;
  if (!attribute.is(Kind::string)) {
    path.parts_.push_back(attribute);
    return path;
  }
  std::string_view rest = attribute.text();
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const auto [end, ec] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number =
        !part.empty() && part[0] != '-' && ec == std::errc() && end == part.data() + part.size();
    path.parts_.push_back(number ? Value::of(index) : Value::string(&budget, std::string(part)));
    budget.step();
    if (budget.spent()) return tl::unexpected(budget.failure());
    if (dot == rest.size()) return path;
    rest.remove_prefix(dot + 1);
  }
}

Result<Value> AttributePath::get(Interpreter& in, const Value& object,
                                 const Value& otherwise) const {
  Value value = object;
  for (const Value& part : parts_) {
    INFER_TRY(value, in.item(value, part));
    const bool replaced = !otherwise.is(Kind::missing) && !otherwise.is(Kind::none);
    if (value.is(Kind::undefined) && replaced) value = otherwise;
  }
  return value;
}

Value folded(Interpreter& in, const Value& value) {
  if (!value.is(Kind::string)) return value;
  // Once the budget is spent the work is not done.
  if (!in.budget().work(value.text().size(), Budget::kCharacter)) return value;
  return in.string(lower(value.text()), value.markup());
}

Result<Value> sorted(Call& call) {
  std::vector<AttributePath> paths;
  if (call.has(2) && call[2].is(Kind::string)) {
    std::string_view rest = call[2].text();
    while (true) {
      const size_t comma = std::min(rest.find(','), rest.size());
      INFER_TRY(AttributePath path,
                AttributePath::parse(
                    call.in.budget(),
                    Value::string(&call.in.budget(), std::string(rest.substr(0, comma)))));
      paths.push_back(std::move(path));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else if (call.has(2) && !call[2].is(Kind::none)) {
    INFER_TRY(AttributePath path, AttributePath::parse(call.in.budget(), call[2]));
    paths.push_back(std::move(path));
  }
  const bool fold = !call.truth(1);
  INFER_TRY(const Elements items, call.in.elements(call.self));
  std::vector<Keyed> entries;
  for (const Value& item : items) {
    call.in.budget().work(Budget::kStep + sizeof(Keyed));
    INFER_CHECK_R(call.in.check_budget());
    Keyed entry{{}, item};
    if (paths.empty()) entry.keys.push_back(fold ? folded(call.in, item) : item);
    for (const AttributePath& path : paths) {
      INFER_TRY(const Value key, path.get(call.in, item));
      entry.keys.push_back(fold ? folded(call.in, key) : key);
    }
    entries.push_back(std::move(entry));
  }
  INFER_CHECK_R(sort_by_keys(call.in, entries, call.truth(0)));
  std::vector<Value> out;
  for (Keyed& entry : entries) out.push_back(std::move(entry.item));
  return call.in.list(std::move(out));
}

Result<Value> dict_sorted(Call& call) {
  INFER_TRY(const std::string by, call.text(1, "key"));
  if (by != "key" && by != "value")
    return raise("You can only sort by either \"key\" or \"value\"");
  if (call.self.is(Kind::undefined)) return raise("{}", call.self.text());
  if (!call.self.is(Kind::dict))
    return raise("dictsort needs a dict, not {}", call.self.type_name());
  const bool fold = !call.truth(0);
  std::vector<Keyed> entries;
  for (const auto& [key, value] : call.self.dict().entries) {
    const Value& sort_key = by == "key" ? key : value;
    call.in.budget().work(Budget::kStep + sizeof(Keyed));
    INFER_CHECK_R(call.in.check_budget());
    entries.push_back({{fold ? folded(call.in, sort_key) : sort_key}, call.in.tuple({key, value})});
  }
  INFER_CHECK_R(sort_by_keys(call.in, entries, call.truth(2)));
  std::vector<Value> out;
  for (Keyed& entry : entries) out.push_back(std::move(entry.item));
  return call.in.list(std::move(out));
}

Result<Value> grouped(Call& call) {
  INFER_TRY(const AttributePath path, AttributePath::parse(call.in.budget(), call[0]));
  const Value otherwise = call.has(1) ? call[1] : Value();
  const bool fold = !call.truth(2);
  INFER_TRY(const Elements items, call.in.elements(call.self));
  std::vector<Keyed> entries;
  for (const Value& item : items) {
    call.in.budget().work(Budget::kStep + sizeof(Keyed));
    INFER_CHECK_R(call.in.check_budget());
    INFER_TRY(const Value key, path.get(call.in, item, otherwise));
    entries.push_back({{fold ? folded(call.in, key) : key}, item});
  }
  INFER_CHECK_R(sort_by_keys(call.in, entries, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < entries.size();) {
    const Value key = entries[i].keys[0];
    INFER_TRY(const Value shown, path.get(call.in, entries[i].item, otherwise));
    std::vector<Value> members;
    while (i < entries.size() && equal(call.in.budget(), entries[i].keys[0], key)) {
      members.push_back(entries[i++].item);
      if (call.in.budget().spent()) return tl::unexpected(call.in.budget().failure());
    }
    groups.push_back(Value::object(
        Kind::tuple, std::make_shared<Group>(
                         &call.in.budget(), std::vector<Value>{fold ? shown : key,
                                                               call.in.list(std::move(members))})));
  }
  return call.in.list(std::move(groups));
}

}  // namespace infer::jinja
