// How deep the interpreter is in itself, and functions as values. For the interpreter's own files.
#pragma once

#include "engine/text/template/interpreter.h"

namespace infer::jinja {

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& in) : in_(in) { ++in_.depth_; }
  ~Depth() { --in_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  bool too_deep() const { return in_.depth_ > kMaxCallDepth; }
  tl::unexpected<Status> failure() const {
    return raise("calls and expressions are more than {} deep", kMaxCallDepth);
  }

 private:
  Interpreter& in_;
};

/// A global function as a value.
Value global_function(Interpreter& in, const Builtin& builtin);
/// A method of a value, as a value.
Value bound_method(Interpreter& in, const Value& self, const Builtin& builtin);

}  // namespace infer::jinja
