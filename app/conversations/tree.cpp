#include "conversations/tree.h"

#include <algorithm>
#include <utility>

namespace infer::conversations {

Tree::Tree(Conversation conversation, std::vector<Message> messages)
    : conversation_(std::move(conversation)), messages_(std::move(messages)) {
  children_.resize(messages_.size() + 1);
  for (Message& message : messages_) {
    // A parent comes before its child, so that there are no cycles.
    size_t parent = message.parent < message.id ? index(message.parent) : messages_.size();
    if (parent == messages_.size()) message.parent = 0;
    children_[parent].push_back(message.id);
  }
}

size_t Tree::index(Id id) const {
  const auto found = std::ranges::lower_bound(messages_, id, {}, &Message::id);
  if (found == messages_.end() || found->id != id) return messages_.size();
  return static_cast<size_t>(found - messages_.begin());
}

const Message* Tree::find(Id id) const {
  const size_t at = index(id);
  return at == messages_.size() ? nullptr : &messages_[at];
}

const std::vector<Id>& Tree::children(Id parent) const {
  static const std::vector<Id> kNone;
  const size_t at = index(parent);
  return at == messages_.size() && parent != 0 ? kNone : children_[at];
}

const std::vector<Id>& Tree::siblings(Id id) const {
  const Message* const message = find(id);
  return message == nullptr ? children(-1) : children(message->parent);
}

Id Tree::selected(Id parent) const {
  const std::vector<Id>& all = children(parent);
  if (all.empty()) return 0;
  const Message* const message = find(parent);
  const Id wanted = message == nullptr ? conversation_.selected_root : message->selected_child;
  return std::ranges::find(all, wanted) == all.end() ? all.back() : wanted;
}

std::vector<Id> Tree::shown() const {
  std::vector<Id> ids;
  for (Id id = selected(0); id != 0; id = selected(id)) ids.push_back(id);
  return ids;
}

std::vector<Id> Tree::path_to(Id id) const {
  std::vector<Id> ids;
  for (const Message* at = find(id); at != nullptr; at = find(at->parent)) ids.push_back(at->id);
  std::ranges::reverse(ids);
  return ids;
}

}  // namespace infer::conversations
