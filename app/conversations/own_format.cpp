// The project's own JSON: export and import of one conversation side by side.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "conversations/export.h"
#include "conversations/import_formats.h"
#include "conversations/limits.h"

namespace infer::conversations {
namespace {

constexpr Role kRoles[] = {Role::system, Role::user, Role::assistant, Role::tool};
constexpr State kStates[] = {State::complete, State::stopped};

/// What is written keeps the order of its members.
using Ordered = nlohmann::ordered_json;

Ordered parsed(const std::string& object) { return Ordered::parse(object, nullptr, false); }

std::string dumped(const Ordered& value) {
  return value.dump(1, ' ', false, Ordered::error_handler_t::replace);
}

Ordered message_json(const Message& m, Id id, Id parent, Id selected_child) {
  const Statistics& s = m.statistics;
  // An answer that is being written is one that was stopped, for whoever reads the file.
  const State state = m.state == State::writing ? State::stopped : m.state;
  Ordered json = {{"id", id}};
  if (parent != 0) json["parent"] = parent;
  if (selected_child != 0) json["selected_child"] = selected_child;
  json["role"] = role_name(m.role);
  json["state"] = state_name(state);
  json["created_at"] = m.created_at;
  if (!m.model.empty()) json["model"] = m.model;
  if (!m.reasoning.empty()) json["reasoning"] = m.reasoning;
  json["text"] = m.text;
  for (const ToolCall& call : m.tool_calls) {
    json["tool_calls"].push_back(Ordered{{"id", call.id},
                                         {"name", call.name},
                                         {"arguments", call.arguments},
                                         {"result", call.result}});
  }
  if (s != Statistics()) {
    json["statistics"] = {{"prompt_tokens", s.prompt_tokens},
                          {"generated_tokens", s.generated_tokens},
                          {"prompt_rate", s.prompt_rate},
                          {"generate_rate", s.generate_rate},
                          {"first_token_seconds", s.first_token_seconds}};
  }
  return json;
}

Ordered conversation_json(const Tree& tree) {
  const std::vector<Message>& messages = tree.messages();
  const auto number = [&](Id id) -> Id {
    const auto found = std::ranges::lower_bound(messages, id, {}, &Message::id);
    return found == messages.end() || found->id != id ? 0 : found - messages.begin() + 1;
  };
  const Conversation& c = tree.conversation();
  Ordered json = {
      {"title", c.title},   {"created_at", c.created_at},       {"used_at", c.used_at},
      {"pinned", c.pinned}, {"system_prompt", c.system_prompt}, {"settings", parsed(c.settings)},
      {"preset", c.preset}};
  if (const Id root = number(c.selected_root); root != 0) json["selected_root"] = root;
  json["messages"] = Ordered::array();
  for (const Message& m : messages) {
    json["messages"].push_back(
        message_json(m, number(m.id), number(m.parent), number(m.selected_child)));
  }
  return json;
}

template <typename Value, size_t N>
Value one_of(JsonFields& fields, const std::string& name, const Value (&all)[N],
             const char* (*name_of)(Value), const std::string& at) {
  std::string names;
  for (const Value value : all) {
    if (name == name_of(value)) return value;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name_of(value));
  }
  fields.fail(at, fmt::format("one of {}", names));
  return all[0];
}

Message read_message(JsonFields& fields, const Json& source, const std::string& at) {
  Message m;
  m.role = one_of(fields, fields.text(source, "role", at), kRoles, role_name, at + ".role");
  m.state = one_of(fields, fields.text(source, "state", at), kStates, state_name, at + ".state");
  m.created_at = fields.integer(source, "created_at", at);
  m.model = fields.text(source, "model", at);
  m.reasoning = fields.text(source, "reasoning", at);
  m.text = fields.text(source, "text", at);
  const Json& calls = fields.array(source, "tool_calls", at);
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string place = fmt::format("{}.tool_calls[{}]", at, i);
    if (!fields.require_object(calls[i], place)) break;
    m.tool_calls.push_back(
        {fields.text(calls[i], "id", place), fields.text(calls[i], "name", place),
         fields.text(calls[i], "arguments", place), fields.text(calls[i], "result", place)});
  }
  const Json& s = fields.object(source, "statistics", at);
  const std::string place = at + ".statistics";
  m.statistics = {fields.integer(s, "prompt_tokens", place),
                  fields.integer(s, "generated_tokens", place),
                  fields.number(s, "prompt_rate", place), fields.number(s, "generate_rate", place),
                  fields.number(s, "first_token_seconds", place)};
  return m;
}

}  // namespace

std::string OwnConversation::place_of(size_t message) const {
  return fmt::format("{}.messages[{}]", at_, message);
}

Id OwnConversation::reference(const Json& object, const char* name, const std::string& place,
                              Id most) {
  const Id id = fields_.integer(object, name, place);
  if (id >= 0 && id <= most) return id;
  fields_.fail(fmt::format("{}.{}", place, name),
               fmt::format("the id of a message, 1 to {}", most));
  return 0;
}

void OwnConversation::message(const Json& source) {
  const Id id = static_cast<Id>(made_.messages.size()) + 1;
  const std::string place = place_of(made_.messages.size());
  if (fields_.integer(source, "id", place) != id) {
    fields_.fail(place + ".id", fmt::format("{}: ids are 1, 2, 3, …", id));
  }
  Message read = read_message(fields_, source, place);
  read.selected_child = reference(source, "selected_child", place, std::numeric_limits<Id>::max());
  add_message(made_, reference(source, "parent", place, id - 1), std::move(read));
}

ImportedConversation OwnConversation::finish(const Json& rest) {
  Conversation& c = made_.conversation;
  c.title = fields_.text(rest, "title", at_);
  c.created_at = fields_.integer(rest, "created_at", at_);
  c.used_at = fields_.integer(rest, "used_at", at_);
  c.pinned = fields_.boolean(rest, "pinned", at_);
  c.system_prompt = fields_.text(rest, "system_prompt", at_);
  c.settings = fields_.object(rest, "settings", at_).dump();
  c.preset = fields_.text(rest, "preset", at_);
  const auto count = static_cast<Id>(made_.messages.size());
  c.selected_root = reference(rest, "selected_root", at_, count);
  for (size_t i = 0; i < made_.messages.size() && fields_.ok(); ++i) {
    if (made_.messages[i].selected_child <= count) continue;
    fields_.fail(place_of(i) + ".selected_child",
                 fmt::format("the id of a message, 1 to {}", count));
  }
  return std::move(made_);
}

namespace {

/// A message that could not be imported again.
Status check_messages(const Tree& tree) {
  for (const Message& m : tree.messages()) {
    const size_t bytes = dumped(message_json(m, m.id, m.parent, m.selected_child)).size();
    if (bytes <= kMaxImportedBytes) continue;
    return {StatusCode::unsupported,
            fmt::format("'{}' cannot be exported: one of its messages has {} bytes as JSON, and at "
                        "most {} can be imported again. Shorten the message, or export the other "
                        "conversations without this one.",
                        tree.conversation().title, bytes, kMaxImportedBytes)};
  }
  return {};
}

}  // namespace

Status export_json(Store& store, const std::vector<Id>& ids, std::ostream& out) {
  std::vector<Id> wanted = ids;
  if (ids.empty()) {
    const Result<std::vector<Conversation>> all = store.list();
    if (!all) return all.error();
    for (const Conversation& conversation : *all) wanted.push_back(conversation.id);
    std::ranges::sort(wanted);
  }
  out << "{\"format\": \"" << kFormatName << "\", \"version\": " << kFormatVersion
      << ",\n\"conversations\": [";
  const char* between = "\n";
  for (const Id id : wanted) {
    const Result<Tree> tree = store.load(id);
    if (!tree) return tree.error();
    const std::string text = dumped(conversation_json(*tree));
    if (text.size() > kMaxImportedBytes) {
      if (Status short_enough = check_messages(*tree); !short_enough.ok()) return short_enough;
    }
    out << between << text;
    between = ",\n";
  }
  out << "\n],\n\"presets\": [";
  if (ids.empty()) {
    const Result<std::vector<Preset>> presets = store.presets();
    if (!presets) return presets.error();
    between = "\n";
    for (const Preset& preset : *presets) {
      out << between
          << dumped({{"name", preset.name},
                     {"system_prompt", preset.system_prompt},
                     {"settings", parsed(preset.settings)}});
      between = ",\n";
    }
  }
  out << "\n]}\n" << std::flush;
  if (!out) return {StatusCode::io, "the export cannot be written; check that the disk has space"};
  return {};
}

}  // namespace infer::conversations
