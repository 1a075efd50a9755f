// What Python's types do: attributes, subscripts, slices, iteration, `in`, len().
#include <algorithm>

#include "engine/core/checked.h"
#include "engine/text/template/attribute_path.h"
#include "engine/text/template/characters.h"
#include "engine/text/template/depth.h"
#include "engine/text/template/range.h"
#include "engine/text/template/repr.h"
#include "engine/text/template/search.h"

namespace infer::jinja {
namespace {

std::string described(const Value& object) {
  return object.is(Kind::none) ? "None" : object.type_name() + " object";
}

/// An attribute in the sense of Python's getattr; nothing if there is none.
std::optional<Value> python_attribute(Interpreter& in, const Value& object, std::string_view name) {
  if (const Builtin* method = find_method(object, name)) {
    if (method->run == nullptr) {
      return in.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name,
                                      object.type_name()));
    }
    return bound_method(in, object, *method);
  }
  if (object.is(Kind::callable) || object.is(Kind::object)) {
    return object.object()->attribute(in, name);
  }
  if (object.is(Kind::name_space)) {
    const Value* found = object.as<Namespace>()->find(name);
    if (found != nullptr) return *found;
  }
  if (object.is(Kind::tuple) && object.as<Group>() != nullptr) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  if (object.is(Kind::integer) || object.is(Kind::boolean)) {
    if (name == "real" || name == "numerator") return Value::of(object.integer());
    if (name == "imag") return Value::of(int64_t{0});
    if (name == "denominator") return Value::of(int64_t{1});
  }
  return std::nullopt;
}

/// object[key] in the sense of Python; nothing where Python raises a TypeError or LookupError.
std::optional<Value> python_item(Interpreter& in, const Value& object, const Value& key) {
  if (object.is(Kind::dict)) {
    if (!hashable(key)) return std::nullopt;
    const Value* found = key.is(Kind::string) ? object.dict().find(in.budget(), key.text())
                                              : object.dict().find(in.budget(), key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!key.is_integral()) return std::nullopt;
  int64_t size = 0;
  const auto* range = object.is(Kind::object) ? object.as<Range>() : nullptr;
  if (object.is(Kind::string)) {
    size = object.code_points();
  } else if (object.is(Kind::list) || object.is(Kind::tuple)) {
    size = static_cast<int64_t>(object.items().size());
  } else if (range != nullptr) {
    size = range->size();
  } else {
    return std::nullopt;
  }
  int64_t index = key.integer();
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  if (range != nullptr) return Value::of(range->at(index));
  if (!object.is(Kind::string)) return object.items()[static_cast<size_t>(index)];
  const std::string& text = object.text();
  if (size == static_cast<int64_t>(text.size())) {
    return in.string(std::string(1, text[static_cast<size_t>(index)]), object.markup());
  }
  in.budget().work(text.size(), Budget::kLoop);
  const size_t from = byte_offset(text, index);
  const size_t bytes = byte_offset(std::string_view(text).substr(from), 1);
  return in.string(text.substr(from, bytes), object.markup());
}

/// A bound of a slice, clamped as Python clamps it.
Result<int64_t> bound(const Value& value, int64_t otherwise, int64_t size, bool backwards) {
  if (value.is(Kind::missing) || value.is(Kind::none)) return otherwise;
  if (value.is(Kind::undefined)) return raise("{}", value.text());
  if (!value.is_integral()) return raise("slice indices must be integers or None");
  int64_t index = value.integer();
  if (index < 0) index += size;
  if (index < 0) return backwards ? -1 : 0;
  return std::min(index, backwards ? size - 1 : size);
}

}  // namespace

Result<Value> Interpreter::attribute(const Value& object, std::string_view name) {
  budget_.step();
  if (object.is(Kind::undefined)) return raise("{}", object.text());
  if (std::optional<Value> found = python_attribute(*this, object, name)) return *std::move(found);
  if (object.is(Kind::dict)) {
    const Value* entry = object.dict().find(budget_, name);
    if (entry != nullptr) return *entry;
  }
  return undefined(fmt::format("'{}' has no attribute '{}'", described(object), shortened(name)));
}

Result<Value> Interpreter::item(const Value& object, const Value& key) {
  budget_.step();
  if (object.is(Kind::undefined)) return raise("{}", object.text());
  if (std::optional<Value> found = python_item(*this, object, key)) return *std::move(found);
  if (!key.is(Kind::string)) {
    INFER_TRY(const std::string shown, repr(key));
    return undefined(fmt::format("{} has no element {}", described(object), shortened(shown)));
  }
  if (std::optional<Value> found = python_attribute(*this, object, key.text())) {
    return *std::move(found);
  }
  return undefined(
      fmt::format("'{}' has no attribute '{}'", described(object), shortened(key.text())));
}

Result<Value> Interpreter::slice(const Value& object, const Value& start, const Value& stop,
                                 const Value& step) {
  if (object.is(Kind::undefined)) return raise("{}", object.text());
  const auto* range = object.is(Kind::object) ? object.as<Range>() : nullptr;
  const bool is_list = object.is(Kind::list) || object.is(Kind::tuple);
  if (!object.is(Kind::string) && !is_list && range == nullptr) {
    return raise("'{}' object cannot be sliced", object.type_name());
  }
  INFER_TRY(const int64_t size, length(object));
  int64_t by = 1;
  if (!step.is(Kind::missing) && !step.is(Kind::none)) {
    if (step.is(Kind::undefined)) return raise("{}", step.text());
    if (!step.is_integral()) return raise("slice indices must be integers or None");
    by = step.integer();
    if (by == 0) return raise("slice step cannot be zero");
    by = std::clamp(by, -size - 1, size + 1);  // more is not needed, and cannot overflow
  }
  INFER_TRY(const int64_t from, bound(start, by > 0 ? 0 : size - 1, size, by < 0));
  INFER_TRY(const int64_t to, bound(stop, by > 0 ? size : -1, size, by < 0));
  if (range != nullptr) {
    const auto pace = checked_mul(range->step(), by);
    if (!pace) return raise("the bounds of a range are too large");
    return make_range(*this, range->at(from), range->at(to), *pace);
  }
  const int64_t count = (by > 0) == (from < to) && from != to
                            ? (std::abs(to - from) + std::abs(by) - 1) / std::abs(by)
                            : 0;
  if (is_list) {
    budget_.work(count * Budget::kLoop);
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k) {
      items.push_back(object.items()[static_cast<size_t>(from + k * by)]);
    }
    return object.is(Kind::list) ? list(std::move(items)) : tuple(std::move(items));
  }
  const std::string& text = object.text();
  if (by == 1) {
    if (from >= to) return string("", object.markup());
    const bool ascii = size == static_cast<int64_t>(text.size());
    if (!ascii) budget_.work(text.size(), Budget::kLoop);
    const size_t first = ascii ? static_cast<size_t>(from) : byte_offset(text, from);
    const size_t bytes = ascii ? static_cast<size_t>(to - from)
                               : byte_offset(std::string_view(text).substr(first), to - from);
    return string(text.substr(first, bytes), object.markup());
  }
  INFER_TRY(const std::u32string all, characters(text));
  std::u32string taken;
  for (int64_t k = 0; k < count; ++k) taken += all[static_cast<size_t>(from + k * by)];
  return string(encode(taken), object.markup());
}

Result<Elements> Interpreter::elements(const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple: return Elements(value.object());
    case Kind::undefined: break;
    case Kind::string: {
      INFER_TRY(const std::u32string all, characters(value.text()));
      for (const char32_t code : all) {
        items.push_back(string(encode(std::u32string_view(&code, 1))));
        budget_.step();
        INFER_CHECK_R(check_budget());
      }
      break;
    }
    case Kind::dict:
      for (const auto& [key, entry] : value.dict().entries) items.push_back(key);
      break;
    case Kind::object:
    case Kind::callable: {
      INFER_TRY(std::optional<std::vector<Value>> found, value.object()->elements(*this));
      if (found) {
        items = *std::move(found);
        break;
      }
      [[fallthrough]];
    }
    default: return raise("'{}' object is not iterable", value.type_name());
  }
  return Elements(list(std::move(items)).object());
}

Result<int64_t> Interpreter::length(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return 0;
    case Kind::string: return value.code_points();
    case Kind::list:
    case Kind::tuple: return static_cast<int64_t>(value.items().size());
    case Kind::dict: return static_cast<int64_t>(value.dict().entries.size());
    case Kind::object:
    case Kind::callable:
      if (const auto length = value.object()->length()) return *length;
      [[fallthrough]];
    default: return raise("object of type '{}' has no len()", value.type_name());
  }
}

Result<bool> Interpreter::contains(const Value& container, const Value& value) {
  if (container.is(Kind::string)) {
    if (!value.is(Kind::string)) {
      return raise("'in <string>' requires string as left operand, not {}", value.type_name());
    }
    return find_text(budget_, container.text(), value.text()) != std::string_view::npos;
  }
  if (container.is(Kind::dict)) {
    if (!hashable(value)) return raise("unhashable type: '{}'", value.type_name());
    return container.dict().find(budget_, value) != nullptr;
  }
  if (container.is(Kind::object) && container.type_name() == "dict_keys" && !hashable(value)) {
    return raise("unhashable type: '{}'", value.type_name());
  }
  const Result<Elements> items = elements(container);
  if (!items) {
    if (container.is(Kind::object) || budget_.spent()) return tl::unexpected(items.error());
    return raise("argument of type '{}' is not iterable", container.type_name());
  }
  return std::ranges::any_of(*items, [&](const Value& item) {
    return identical(item, value) || equal(budget_, item, value);
  });
}

Result<std::string> Interpreter::str(const Value& value) {
  if (value.is(Kind::string)) {
    budget_.work(value.text().size(), 1);
    return value.text();
  }
  if (value.is(Kind::undefined)) return std::string();
  return repr(value);
}

Result<std::string> Interpreter::repr(const Value& value, bool sorted) {
  std::string text;
  write_repr(budget_, value, text, sorted);
  if (budget_.spent()) return tl::unexpected(budget_.failure());
  INFER_CHECK_R(check_size(static_cast<int64_t>(text.size())));
  return text;
}

Result<Value> Interpreter::filter(std::string_view name, const Value& value, Arguments arguments) {
  const Builtin* found = find_filter(name);
  if (found == nullptr) return raise("there is no filter named '{}'", shortened(name));
  return run_builtin(*this, *found, value, std::move(arguments));
}

Result<bool> Interpreter::test(std::string_view name, const Value& value, Arguments arguments) {
  const Builtin* found = find_test(name);
  if (found == nullptr) return raise("there is no test named '{}'", shortened(name));
  INFER_TRY(const Value result, run_builtin(*this, *found, value, std::move(arguments)));
  return result.truth();
}

}  // namespace infer::jinja
