// A conversation as it was read: messages, and how they hang together.
#pragma once

#include <cstddef>
#include <vector>

#include "conversations/types.h"

namespace infer::conversations {

/// Values. Nothing here is recursive: a chain may be as long as memory allows.
class Tree {
 public:
  /// `messages` in the order of their ids. A parent that is missing or has no smaller id is taken
  /// away: the message becomes a first message.
  Tree(Conversation conversation, std::vector<Message> messages);

  const Conversation& conversation() const { return conversation_; }
  const std::vector<Message>& messages() const { return messages_; }
  /// Null if the id is unknown.
  const Message* find(Id id) const;
  /// The messages with this parent, the oldest first. 0: the first messages.
  const std::vector<Id>& children(Id parent) const;
  /// The message and its alternatives: `‹2/3›` is the place of the id among these.
  const std::vector<Id>& siblings(Id id) const;
  /// The selected one of the children; 0 if there are none.
  Id selected(Id parent) const;
  /// The selected messages, from the first to the last.
  std::vector<Id> shown() const;
  /// From the first message to this one.
  std::vector<Id> path_to(Id id) const;

 private:
  size_t index(Id id) const;  // messages_.size() if the id is unknown

  Conversation conversation_;
  std::vector<Message> messages_;
  std::vector<std::vector<Id>> children_;  // by index; the last one: those of 0
};

}  // namespace infer::conversations
