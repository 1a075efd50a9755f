// The project's own JSON: export and import of one conversation side by side.
#include <fmt/format.h>

#include <algorithm>
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

ImportedConversation read_own(JsonFields& fields, const Json& source, const std::string& at) {
  ImportedConversation made;
  Conversation& c = made.conversation;
  c.title = fields.text(source, "title", at);
  c.created_at = fields.integer(source, "created_at", at);
  c.used_at = fields.integer(source, "used_at", at);
  c.pinned = fields.boolean(source, "pinned", at);
  c.system_prompt = fields.text(source, "system_prompt", at);
  c.settings = fields.object(source, "settings", at).dump();
  c.preset = fields.text(source, "preset", at);
  const Json& messages = fields.array(source, "messages", at);
  const auto count = static_cast<Id>(messages.size());
  const auto reference = [&](const Json& object, const char* name, const std::string& place,
                             Id most) {
    const Id id = fields.integer(object, name, place);
    if (id >= 0 && id <= most) return id;
    fields.fail(fmt::format("{}.{}", place, name),
                fmt::format("the id of a message, 1 to {}", most));
    return Id{0};
  };
  c.selected_root = reference(source, "selected_root", at, count);
  for (Id id = 1; id <= count && fields.ok(); ++id) {
    const Json& message = messages[static_cast<size_t>(id - 1)];
    const std::string place = fmt::format("{}.messages[{}]", at, id - 1);
    if (!fields.require_object(message, place)) break;
    if (fields.integer(message, "id", place) != id) {
      fields.fail(place + ".id", fmt::format("{}: ids are 1, 2, 3, …", id));
    }
    Message read = read_message(fields, message, place);
    read.selected_child = reference(message, "selected_child", place, count);
    add_message(made, reference(message, "parent", place, id - 1), std::move(read));
  }
  return made;
}

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
    out << between << dumped(conversation_json(*tree));
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
