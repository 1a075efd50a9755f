#include "engine/text/template/variables.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace infer::jinja {
namespace {

/// Builds values from the parser's events.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(Budget& budget) : budget_(budget) {}

  bool null() override { return add(Value::none()); }
  bool boolean(bool b) override { return add(Value::of(b)); }
  bool number_integer(number_integer_t i) override { return add(Value::of(int64_t{i})); }
  bool number_unsigned(number_unsigned_t u) override {
    if (std::in_range<int64_t>(u)) return add(Value::of(static_cast<int64_t>(u)));
    return add(Value::big_integer(&budget_, fmt::format("{}", u)));
  }
  bool number_float(number_float_t d, const string_t& digits) override {
    // An integer of more than 64 bits comes as a float, too. In a real number's digits the point
    // may be the sign that the locale of the process has for it.
    if (digits.find_first_not_of("-0123456789") == std::string::npos) {
      return add(Value::big_integer(&budget_, digits));
    }
    return add(Value::of(d));
  }
  bool string(string_t& s) override { return add(Value::string(&budget_, std::move(s))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool key(string_t& s) override {
    levels_.back().keys.push_back(Value::string(&budget_, std::move(s)));
    return true;
  }
  bool end_object() override {
    Level level = close();
    std::vector<std::pair<Value, Value>> entries;
    for (size_t i = 0; i < level.keys.size(); ++i) {
      entries.emplace_back(std::move(level.keys[i]), std::move(level.values[i]));
    }
    return add(Value::dict(&budget_, std::move(entries)));
  }
  bool end_array() override { return add(Value::list(&budget_, std::move(close().values))); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    failure_ = fmt::format("byte {}: {}", position, shortened(e.what()));
    return false;
  }

  Value result;
  std::string failure() const { return failure_; }

 private:
  struct Level {
    bool object = false;
    std::vector<Value> keys;
    std::vector<Value> values;
  };

  bool open(bool object) {
    if (levels_.size() >= static_cast<size_t>(Budget::kNesting - 20)) {
      failure_ = "values are nested too deeply";
      return false;
    }
    levels_.push_back({object, {}, {}});
    return true;
  }

  Level close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    return level;
  }

  bool add(Value value) {
    if (levels_.empty()) {
      result = std::move(value);
    } else {
      levels_.back().values.push_back(std::move(value));
    }
    if (!budget_.spent()) return true;
    failure_ = budget_.failure().message();
    return false;
  }

  Budget& budget_;
  std::vector<Level> levels_;
  std::string failure_;
};

}  // namespace

Result<Value> read_variables(Budget& budget, std::string_view json) {
  Builder builder(budget);
  const bool read = nlohmann::json::sax_parse(json, &builder);
  if (!read) return raise("the variables are not JSON: {}", builder.failure());
  if (!builder.result.is(Kind::dict)) return raise("the variables are not a JSON object");
  return builder.result;
}

}  // namespace infer::jinja
