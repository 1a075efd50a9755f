// range(): at most as many numbers as the sandbox allows.
#pragma once

#include "engine/text/template/interpreter.h"

namespace infer::jinja {

class Range : public Object {
 public:
  Range(Budget* budget, int64_t start, int64_t stop, int64_t step)
      : Object(budget, 96), start_(start), stop_(stop), step_(step) {}

  int64_t size() const;
  int64_t at(int64_t index) const { return start_ + index * step_; }
  int64_t step() const { return step_; }
  std::string_view type_name() const override { return "range"; }
  std::string repr() const override;
  Result<std::optional<std::vector<Value>>> elements(Interpreter& in) override;
  std::optional<int64_t> length() const override { return size(); }
  bool is_sequence() const override { return true; }

 private:
  int64_t start_;
  int64_t stop_;
  int64_t step_;
};

Result<Value> make_range(Interpreter& in, int64_t start, int64_t stop, int64_t step);

}  // namespace infer::jinja
