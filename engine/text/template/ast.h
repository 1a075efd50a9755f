// What a template is parsed into. Nodes belong to the Ast and refer to each other by pointer; the
// parser bounds their nesting, so that all that walks them may recurse. Immutable once resolved.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/template/value.h"

namespace infer::jinja {

struct Builtin;
struct Stmt;

/// A variable: a slot of the function (template, macro, call block, …) that is so many functions
/// outside of the one that runs.
struct Slot {
  int hops = 0;
  int index = -1;
};

enum class ExprKind : uint8_t {
  constant,     ///< value
  name,         ///< name, slot
  attribute,    ///< a.name
  item,         ///< a[b]
  slice,        ///< items: start, stop, step (null where absent); only as b of an item
  call,         ///< a(arguments)
  filter,       ///< a|name(arguments); a is null for the text of a block
  test,         ///< a is name(arguments)
  list,         ///< [items]
  tuple,        ///< (items)
  dict,         ///< {items: pairs of key and value, one after the other}
  unary,        ///< op a, with op one of + - n(ot)
  binary,       ///< a op b: + - * / % and f(loor division), p(ower)
  logical,      ///< a op b: & |
  concat,       ///< items ~
  compare,      ///< a, then operators with items
  conditional,  ///< b if a else c (null where absent)
  member,       ///< name.attribute as a target: name, text, slot
};

enum class Comparison : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expr;

struct CallArguments {
  std::vector<Expr*> positional;
  std::vector<std::pair<std::string, Expr*>> named;
  Expr* more = nullptr;        ///< *more
  Expr* more_named = nullptr;  ///< **more_named
};

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;
  char op = 0;
  Expr* a = nullptr;
  Expr* b = nullptr;
  Expr* c = nullptr;
  std::string name;
  std::string text;
  Value value;
  std::vector<Expr*> items;
  std::vector<Comparison> comparisons;
  CallArguments arguments;
  Slot slot;
  const Builtin* builtin = nullptr;  ///< of a filter or test; null: not known, fails when it runs
};

enum class StmtKind : uint8_t {
  text,         ///< text as it is
  output,       ///< {{ expr }}
  loop,         ///< for
  branch,       ///< if
  assign,       ///< set target = expr
  assign_body,  ///< set target | filter (in expr) … endset
  macro,
  call,    ///< call … endcall, and generation blocks (expr is null then)
  filter,  ///< filter block
  with,
  scope,  ///< autoescape: a scope of its own
  break_,
  continue_,
};

using Body = std::vector<Stmt*>;

/// What a frame's variable starts as.
struct Load {
  enum class From : uint8_t { context, outer, nothing };
  From from;
  Slot to;           ///< of the running function
  Slot outer;        ///< From::outer
  std::string name;  ///< From::context
};
using Loads = std::vector<Load>;

/// A function of its own variables: the template, a macro, a call block, a recursive loop.
struct Function {
  int slots = 0;
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Slot> parameter_slots;
  std::vector<Expr*> defaults;  ///< of the last parameters
  Loads loads;                  ///< done at its start
  // The special names that its body uses; index −1: it does not.
  Slot caller, kwargs, varargs;
};

struct Stmt {
  StmtKind kind;
  int line;
  std::string text;
  Expr* expr = nullptr;    ///< output, filter, the iterable, the call; of a branch the condition
  Expr* target = nullptr;  ///< loop, assignments
  Expr* test = nullptr;    ///< of a loop
  Body body;
  Body otherwise;
  std::vector<std::pair<Expr*, Body>> branches;   ///< if and each elif
  std::vector<std::pair<Expr*, Expr*>> bindings;  ///< with: targets and values
  bool recursive = false;
  Loads loads;                   ///< of the body's frame
  Loads else_loads;              ///< of a loop
  Loads test_loads;              ///< of a loop's test, which has variables of its own
  Expr* test_target = nullptr;   ///< the target as the test sees it
  Slot loop_slot;                ///< of the variable `loop`, if the body uses it
  Slot name_slot;                ///< where a macro is stored
  Function* function = nullptr;  ///< macro, call, recursive loop
};

struct Ast {
  Body body;
  Function root;
  std::deque<Expr> expressions;
  std::deque<Stmt> statements;
  std::deque<Function> functions;
};

}  // namespace infer::jinja
