// ChatGPT's export. A conversation is a `mapping` of nodes by id: each has a `parent`, `children`
// and perhaps a `message` with `author.role` and `content` of a `content_type`. `current_node` is
// the end of the branch that is shown.
//
// Nodes become messages, except
// - those without a message or text, and those that are hidden: what follows them follows the
//   message before them;
// - thoughts, which become the reasoning of the first answer that follows;
// - calls of tools (messages of the assistant to a `recipient`), which become tool calls, and the
//   first answer of the tool, which becomes the call's result.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "conversations/import_formats.h"

namespace infer::conversations {
namespace {

struct Node {
  std::string id;
  const Json* json = nullptr;
  size_t parent = 0;  // the number of nodes: none
  std::vector<size_t> children;
};

/// The nodes, with their children in the order of `children`. Parents that are not in the mapping
/// count as none.
std::vector<Node> read_nodes(JsonFields& fields, const Json& mapping, const std::string& at) {
  std::vector<Node> nodes;
  std::map<std::string, size_t> numbers;
  for (const auto& [id, json] : mapping.items()) {
    if (!fields.require_object(json, fmt::format("{}.{}", at, id))) return {};
    numbers.emplace(id, nodes.size());
    nodes.push_back({id, &json, 0, {}});
  }
  const auto number_of = [&](const std::string& id) {
    const auto found = numbers.find(id);
    return found == numbers.end() ? nodes.size() : found->second;
  };
  for (Node& node : nodes) {
    node.parent = number_of(fields.text(*node.json, "parent", fmt::format("{}.{}", at, node.id)));
  }
  std::vector<bool> listed(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Json& child :
         fields.array(*nodes[i].json, "children", fmt::format("{}.{}", at, nodes[i].id))) {
      const size_t number =
          child.is_string() ? number_of(child.get_ref<const std::string&>()) : nodes.size();
      if (number == nodes.size() || nodes[number].parent != i || listed[number]) continue;
      listed[number] = true;
      nodes[i].children.push_back(number);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!listed[i] && nodes[i].parent < nodes.size()) nodes[nodes[i].parent].children.push_back(i);
  }
  return nodes;
}

void append_paragraph(std::string& text, const std::string& added) {
  if (added.empty()) return;
  if (!text.empty()) text += "\n\n";
  text += added;
}

/// What an object among the parts of a message says: a transcript, or a note of what it was.
std::string part_text(JsonFields& fields, const Json& part, const std::string& at) {
  if (std::string text = fields.text(part, "text", at); !text.empty()) return text;
  const std::string type = fields.text(part, "content_type", at);
  return type.starts_with("image") ? "[image]" : fmt::format("[{}]", type.empty() ? "part" : type);
}

struct Content {
  std::string text, reasoning;
};

Content read_content(JsonFields& fields, const Json& content, const std::string& at) {
  Content read;
  const std::string type = fields.text(content, "content_type", at);
  if (type == "thoughts") {
    for (const Json& thought : fields.array(content, "thoughts", at)) {
      append_paragraph(read.reasoning, fields.text(thought, "summary", at + ".thoughts"));
      append_paragraph(read.reasoning, fields.text(thought, "content", at + ".thoughts"));
    }
    return read;
  }
  // Notes of the service: how long it thought, and what the user set for all conversations.
  if (type == "reasoning_recap" || type == "user_editable_context" ||
      type == "model_editable_context") {
    return read;
  }
  for (const Json& part : fields.array(content, "parts", at)) {
    if (part.is_string()) {
      append_paragraph(read.text, part.get<std::string>());
    } else if (part.is_object()) {
      append_paragraph(read.text, part_text(fields, part, at + ".parts"));
    } else if (!part.is_null()) {
      fields.fail(at + ".parts", "strings and objects");
    }
  }
  append_paragraph(read.text, fields.text(content, "text", at));
  append_paragraph(read.text, fields.text(content, "result", at));
  return read;
}

/// Where what follows a node is added.
struct Place {
  Id message = 0;       // the last message on the way
  size_t thoughts = 0;  // the number of thoughts that no message has yet; 0: none
};

class Reader {
 public:
  Reader(JsonFields& fields, ImportedConversation& made, std::string at)
      : fields_(fields), made_(made), at_(std::move(at)) {}

  /// The place after this node.
  Place take(const Node& node, Place place) {
    const std::string at = fmt::format("{}.{}.message", at_, node.id);
    const Json& source = fields_.object(*node.json, "message", fmt::format("{}.{}", at_, node.id));
    const Json& metadata = fields_.object(source, "metadata", at);
    if (source.empty() ||
        fields_.boolean(metadata, "is_visually_hidden_from_conversation", at + ".metadata")) {
      return place;
    }
    const Json& author = fields_.object(source, "author", at);
    const std::string role = fields_.text(author, "role", at + ".author");
    Content content = read_content(fields_, fields_.object(source, "content", at), at + ".content");
    if (!content.reasoning.empty()) {
      std::string all = std::exchange(thoughts_[place.thoughts], {});
      append_paragraph(all, content.reasoning);
      place.thoughts = thoughts_.size();
      thoughts_.push_back(std::move(all));
    }
    if (content.text.empty()) return place;
    if (role == "tool" && give_result(place.message, content.text)) return place;

    Message message;
    message.role = role == "system"      ? Role::system
                   : role == "assistant" ? Role::assistant
                   : role == "tool"      ? Role::tool
                                         : Role::user;
    message.created_at = fields_.time(source, "create_time", at, 1);
    message.model = fields_.text(metadata, "model_slug", at + ".metadata");
    if (fields_.text(source, "status", at) == "in_progress") message.state = State::stopped;
    const std::string recipient = fields_.text(source, "recipient", at);
    if (message.role == Role::assistant) {
      message.reasoning = std::exchange(thoughts_[place.thoughts], {});
      place.thoughts = 0;
      if (!recipient.empty() && recipient != "all") {
        message.tool_calls.push_back({"", recipient, std::move(content.text), ""});
        content.text.clear();
      }
    }
    message.text = std::move(content.text);
    place.message = add_message(made_, place.message, std::move(message));
    return place;
  }

 private:
  bool give_result(Id id, const std::string& text) {
    if (id == 0) return false;
    std::vector<ToolCall>& calls = made_.messages[static_cast<size_t>(id - 1)].tool_calls;
    if (calls.empty() || !calls[0].result.empty()) return false;
    calls[0].result = text;
    return true;
  }

  JsonFields& fields_;
  ImportedConversation& made_;
  std::string at_;
  // By number. The first answer that follows takes them: a copy for every branch could be large.
  std::vector<std::string> thoughts_ = {""};
};

}  // namespace

ImportedConversation read_chatgpt(JsonFields& fields, const Json& source, const std::string& at) {
  ImportedConversation made;
  const std::string dot = at.empty() ? "" : at + ".";
  made.conversation.title = fields.text(source, "title", at);
  made.conversation.created_at = fields.time(source, "create_time", at, 1);
  made.conversation.used_at = fields.time(source, "update_time", at, 1);
  if (!source.contains("mapping")) fields.fail(dot + "mapping", "an object with the messages");
  const std::vector<Node> nodes =
      read_nodes(fields, fields.object(source, "mapping", at), dot + "mapping");
  const std::string current = fields.text(source, "current_node", at);
  Id shown = 0;
  // Parents before their children, and siblings in their order; a stack instead of recursion.
  struct Step {
    size_t node;
    Place place;
  };
  std::vector<Step> stack;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (nodes[i].parent == nodes.size()) stack.push_back({i, {}});
  }
  Reader reader(fields, made, dot + "mapping");
  size_t visited = 0;
  while (!stack.empty() && fields.ok()) {
    Step step = std::move(stack.back());
    stack.pop_back();
    ++visited;
    const Node& node = nodes[step.node];
    Place place = reader.take(node, std::move(step.place));
    if (node.id == current) shown = place.message;
    for (size_t i = node.children.size(); i-- > 0;) stack.push_back({node.children[i], place});
  }
  if (visited < nodes.size()) fields.fail(dot + "mapping", "no cycles among the parents");
  select_path(made, shown);
  return made;
}

}  // namespace infer::conversations
