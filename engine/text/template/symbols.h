// The names of one scope while they are resolved. For scopes.cpp alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "engine/text/template/ast.h"

namespace infer::jinja {

/// A variable by the function that holds it, counted from the template inwards.
struct Place {
  int function = 0;
  int index = 0;
};

struct Begin {
  enum class From : uint8_t { parameter, context, outer, nothing } from;
  Place outer;
};

/// What resolving may still cost: scopes within one another multiply the work of their names.
/// Beyond it the names are wrong, and the resolver fails.
struct Effort {
  int64_t left = 4'000'000;
  void take(size_t count) { left -= static_cast<int64_t>(count); }
  bool spent() const { return left < 0; }
};

/// The names of a scope. A branch of an `if` is an overlay that sees the scope below it and is
/// merged into it at its end.
class Symbols {
 public:
  Symbols(Symbols* parent, int function, Function& owner, Effort& effort)
      : parent_(parent), function_(function), owner_(&owner), effort_(&effort) {}

  Symbols overlay() {
    Symbols branch(parent_, function_, *owner_, *effort_);
    branch.base_ = this;
    return branch;
  }

  const Place* find(const std::string& name) const {
    if (const Place* own = find_own(name)) return own;
    return parent_ == nullptr ? nullptr : parent_->find(name);
  }

  void load(const std::string& name) {
    if (find(name) == nullptr) define(name, {Begin::From::context, {}});
  }

  void store(const std::string& name) {
    stores_.insert(name);
    if (find_own(name) != nullptr) return;
    define(name, outer(name, Begin::From::nothing));
  }

  Place declare(const std::string& name) {
    stores_.insert(name);
    if (find_own(name) == nullptr) define(name, {Begin::From::parameter, {}});
    begins_[name] = {Begin::From::parameter, {}};
    return *find_own(name);
  }

  /// A name that only some branches assign begins as it is outside of the scope.
  void merge(std::initializer_list<Symbols*> branches) {
    std::set<std::string> assigned;
    if (effort_->spent()) return;
    for (const Symbols* branch : branches) {
      constexpr size_t kName = 8;  // tree operations for each name
      effort_->take(kName * (branch->places_.size() + branch->stores_.size()));
      for (const std::string& name : branch->stores_) {
        if (!stored(name)) assigned.insert(name);
      }
    }
    for (const Symbols* branch : branches) {
      for (const auto& [name, place] : branch->places_) places_[name] = place;
      for (const auto& [name, begin] : branch->begins_) begins_[name] = begin;
    }
    for (const std::string& name : assigned) {
      stores_.insert(name);
      begins_[name] = outer(name, Begin::From::context);
    }
  }

  Loads loads() const {
    Loads all;
    for (const auto& [name, begin] : begins_) {
      if (begin.from == Begin::From::parameter) continue;
      Load load;
      load.from = begin.from == Begin::From::context ? Load::From::context
                  : begin.from == Begin::From::outer ? Load::From::outer
                                                     : Load::From::nothing;
      load.to = {0, places_.at(name).index};
      load.outer = {function_ - begin.outer.function, begin.outer.index};
      load.name = name;
      all.push_back(std::move(load));
    }
    return all;
  }

  int function() const { return function_; }
  Function& owner() { return *owner_; }

 private:
  const Place* find_own(const std::string& name) const {
    for (const Symbols* s = this; s != nullptr; s = s->base_) {
      effort_->take(1);
      const auto at = s->places_.find(name);
      if (at != s->places_.end()) return &at->second;
    }
    return nullptr;
  }

  bool stored(const std::string& name) const {
    for (const Symbols* s = this; s != nullptr; s = s->base_) {
      if (s->stores_.contains(name)) return true;
    }
    return false;
  }

  Begin outer(const std::string& name, Begin::From otherwise) const {
    const Place* place = parent_ == nullptr ? nullptr : parent_->find(name);
    return place == nullptr ? Begin{otherwise, {}} : Begin{Begin::From::outer, *place};
  }

  /// Branches that each define a name share its variable, as they lie in one scope.
  void define(const std::string& name, Begin begin) {
    Symbols* scope = this;
    while (scope->base_ != nullptr) scope = scope->base_;
    const auto [at, added] = scope->variables_.try_emplace(name, Place{function_, 0});
    if (added) at->second.index = owner_->slots++;
    places_[name] = at->second;
    begins_[name] = begin;
  }

  Symbols* parent_;
  Symbols* base_ = nullptr;
  int function_;
  Function* owner_;
  Effort* effort_;
  std::map<std::string, Place> places_;
  std::map<std::string, Begin> begins_;
  std::map<std::string, Place> variables_;
  std::set<std::string> stores_;
};

}  // namespace infer::jinja
