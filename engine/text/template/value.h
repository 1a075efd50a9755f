// Values of the template language: the values of Python that templates use. They are immutable,
// except namespaces and objects with a position (iterators, cyclers). Memory and work are charged
// to the budget of the rendering that makes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/status.h"

namespace infer::jinja {

class Interpreter;
class Value;

/// The time and memory that one rendering may use.
///
/// Work is counted in units. One unit pays for one byte that is copied, compared or searched in
/// bulk; slower work on a byte costs more units, see the constants. Every operation whose cost is
/// not constant charges its units before it does the work. Since a byte of memory is written only
/// after at least one unit was charged for it, kWork also bounds the memory of one rendering.
///
/// If a limit is exceeded, this is recorded here, and the interpreter fails at its next step. So
/// functions that make values need no failures of their own. A function whose result may be much
/// larger than its inputs calls fits() first. Not thread-safe.
class Budget {
 public:
  static constexpr int64_t kBytes = int64_t{256} << 20;  ///< values alive at once
  static constexpr int64_t kOutput = int64_t{64} << 20;  ///< bytes of one text
  static constexpr int64_t kStep = 64;       ///< units of one expression, statement or comparison
  static constexpr int64_t kLoop = 4;        ///< units of a byte in a loop over bytes
  static constexpr int64_t kCharacter = 16;  ///< units of a byte of text taken by code points
  static constexpr int64_t kValue = 32;      ///< units of copying one value
  static constexpr int64_t kWork = 6'000'000 * kStep;   ///< units; about half a second
  static constexpr int64_t kWorkPerByte = 500 * kStep;  ///< more for each byte of the variables
  static constexpr int64_t kMostWork = 20 * kWork;
  static constexpr int kNesting = 200;  ///< of values in values

  /// Units for variables of so many bytes. Many templates go through all messages for each one.
  static int64_t work_for(size_t bytes) {
    constexpr int64_t kMostBytes = (kMostWork - kWork) / kWorkPerByte;
    return kWork + std::min(static_cast<int64_t>(bytes), kMostBytes) * kWorkPerByte;
  }

  /// `most_work`: units that may be charged.
  explicit Budget(int64_t most_work = kWork) : most_work_(most_work) {}

  /// Records a new value of this many bytes and charges for making it.
  void take(int64_t bytes) {
    bytes_ += bytes;
    work(bytes);
  }
  void give(int64_t bytes) { bytes_ -= bytes; }
  /// Charges units (≥ 0). False if there are too many.
  bool work(int64_t units) {
    if (__builtin_add_overflow(work_, units, &work_)) work_ = INT64_MAX;
    return work_ <= most_work_;
  }
  /// Charges `count` times `each` units. False if there are too many.
  bool work(size_t count, int64_t each) {
    int64_t units = 0;
    if (__builtin_mul_overflow(count, each, &units)) units = INT64_MAX;
    return work(units);
  }
  bool step() { return work(kStep); }
  void nest(int depth) { too_deep_ = too_deep_ || depth > kNesting; }
  bool fits(int64_t bytes) const { return bytes <= kOutput && bytes_ + bytes <= kBytes; }
  bool spent() const { return work_ > most_work_ || bytes_ > kBytes || too_deep_; }
  /// The reason, once spent().
  Status failure() const;
  int64_t units() const { return work_; }

 private:
  int64_t most_work_;
  int64_t bytes_ = 0;
  int64_t work_ = 0;
  bool too_deep_ = false;
};

/// The object behind a value that does not fit into Value itself.
class Object {
 public:
  Object(Budget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->take(bytes_);
  }
  virtual ~Object() {
    if (budget_ != nullptr) budget_->give(bytes_);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  /// Python's name of the type. Of kinds `object` and `callable`.
  virtual std::string_view type_name() const { return "object"; }
  virtual std::string repr() const { return "<" + std::string(type_name()) + ">"; }
  /// The attribute object.name; nothing if there is none.
  virtual std::optional<Value> attribute(Interpreter& in, std::string_view name);
  /// The elements; nothing if the object cannot be iterated.
  virtual Result<std::optional<std::vector<Value>>> elements(Interpreter& in);
  /// len(); nothing if the object has no length.
  virtual std::optional<int64_t> length() const { return std::nullopt; }
  /// len() of what has it, and [] besides.
  virtual bool is_sequence() const { return false; }

  /// Records values that it holds, see depth().
  void hold(const Value& value);
  void hold(const std::vector<Value>& values);
  /// How many values are within one another.
  int depth() const { return depth_; }

 protected:
  Budget* budget() const { return budget_; }

 private:
  int depth_ = 1;
  Budget* budget_;  // null: part of the template itself
  int64_t bytes_;
};

enum class Kind : uint8_t {
  missing,  ///< no value at all: an argument that was not given; never seen by a template
  undefined,
  none,
  boolean,
  integer,
  big_integer,  ///< beyond 64 bits: can be passed on and printed, not calculated with
  real,
  string,
  list,
  tuple,
  dict,
  name_space,
  callable,
  object,  ///< anything else: ranges, views of dicts, iterators, the loop
};

struct Text;
struct Sequence;
struct Dict;

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Kind::none); }
  static Value of(bool b);
  static Value of(int64_t i);
  static Value of(double d);
  static Value of(const void*) = delete;
  /// `budget` may be null for parts of the template. The text is UTF-8.
  static Value string(Budget* budget, std::string text, bool markup = false);
  static Value list(Budget* budget, std::vector<Value> items);
  static Value tuple(Budget* budget, std::vector<Value> items);
  /// Of equal keys the last value counts, at the place of the first. Keys are hashable.
  static Value dict(Budget* budget, std::vector<std::pair<Value, Value>> entries);
  /// `why`: the message of what uses it.
  static Value undefined(Budget* budget, std::string why);
  static Value big_integer(Budget* budget, std::string digits);
  static Value object(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const;  ///< int, float or bool
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  /// Of a string that escapes what is joined to it (the filters safe and escape make such).
  bool markup() const { return markup_; }

  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }  ///< of an integer or boolean
  double number() const;                        ///< of any number
  const std::string& text() const;              ///< of a string, big integer or undefined
  int64_t code_points() const;                  ///< of a string
  const std::vector<Value>& items() const;      ///< of a list or tuple
  const Dict& dict() const;
  const std::shared_ptr<Object>& object() const { return object_; }
  template <typename T>
  T* as() const {
    return dynamic_cast<T*>(object_.get());
  }

  bool truth() const;
  /// How many values are within one another.
  int depth() const;
  std::string type_name() const;

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::missing;
  bool markup_ = false;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

struct Text : Object {
  Text(Budget* budget, std::string text);
  std::string bytes;
  int64_t code_points;
};

struct Sequence : Object {
  Sequence(Budget* budget, std::vector<Value> values);
  std::vector<Value> items;
  bool items_hashable = true;  ///< known from the start: values may share parts many times over
};

/// Entries in the order of insertion.
struct Dict : Object {
  Dict(Budget* budget, std::vector<std::pair<Value, Value>> given);
  // Null if it is not there, or the budget is spent.
  const Value* find(Budget& budget, const Value& key) const;
  const Value* find(Budget& budget, std::string_view key) const;

  std::vector<std::pair<Value, Value>> entries;

 private:
  std::vector<uint32_t> order_;  // entries by key
};

/// namespace(): the one thing that templates can change. May refer to itself and counts as no
/// nesting; the interpreter empties all of them at its end.
struct Namespace : Object {
  explicit Namespace(Budget* budget) : Object(budget, 128) {}
  ~Namespace() override { budget()->give(held_); }
  std::string_view type_name() const override { return "Namespace"; }
  void set(const std::string& name, Value value);
  const Value* find(std::string_view name) const;
  void clear();

  std::vector<std::pair<std::string, Value>> attributes;

 private:
  void charge_search(std::string_view name) const;

  int64_t held_ = 0;
  std::map<std::string, size_t, std::less<>> index_;
};

/// Whether a value may be a key.
bool hashable(const Value& value);
bool equal(Budget& budget, const Value& a, const Value& b);
/// The order of two texts by bytes, which for UTF-8 is that of code points: negative, 0, positive.
/// Charges what it reads; 0 once the budget is spent.
int compare_texts(Budget& budget, std::string_view a, std::string_view b);
/// a < b as Python orders; fails where it does not.
Result<bool> less(Budget& budget, const Value& a, const Value& b);
/// Python's `is`.
bool identical(const Value& a, const Value& b);

/// A failure of the rendering.
template <typename... Args>
tl::unexpected<Status> raise(fmt::format_string<Args...> text, Args&&... args) {
  return fail(StatusCode::invalid_argument, text, std::forward<Args>(args)...);
}
/// At most some characters of a text, for messages.
std::string shortened(std::string_view text);

}  // namespace infer::jinja
