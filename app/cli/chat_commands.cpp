#include "cli/chat_commands.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/arguments.h"
#include "cli/chat_settings.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "platform/history_file.h"

namespace infer::cli {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Failure(kExitRuntime, message); }

bool has_role(const Json& message, const char* role) { return message.value("role", "") == role; }

bool is_image(const Json& part) {
  return part.is_object() && part.value("type", Json()) == "image_url";
}

/// The text of a message: its content, or the joined texts if the content is a list of parts.
/// `image` stands for each of its images.
std::string text_of(const Json& message, const char* image = "") {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (!content->is_array()) return text;
  for (const Json& part : *content) {
    if (is_image(part)) text += image;
    const auto found = part.is_object() ? part.find("text") : part.end();
    if (found != part.end() && found->is_string()) text += found->get<std::string>();
  }
  return text;
}

/// Removes the last message of the person and all after it; returns that message.
Json take_back(Json& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (!has_role(messages[i], "user")) continue;
    Json taken = std::move(messages[i]);
    messages.erase(messages.begin() + static_cast<ptrdiff_t>(i), messages.end());
    return taken;
  }
  refuse("there is no message to take back");
}

/// A message of the person: images, then a text.
Json message_of(Json images, const std::string& text) {
  if (images.empty()) return {{"role", "user"}, {"content", text}};
  images.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", std::move(images)}};
}

CommandResult help(Chat& chat, const std::string& text);

CommandResult image(Chat& chat, const std::string& name) {
  const std::string path = platform::expanded(name);
  if (path.empty()) refuse("/image: expected the name of a file");
  attach_image(chat, path);
  print_line(fmt::format("{} goes with the next message", path));
  return CommandResult::read;
}

CommandResult system(Chat& chat, const std::string& text) {
  set_system(chat, text);
  return CommandResult::read;
}

CommandResult regenerate(Chat& chat, const std::string&) {
  Json& messages = chat.conversation->messages();
  Json message = take_back(messages);
  messages.push_back(std::move(message));
  // With the same seed it would say the same again.
  std::optional<uint64_t>& seed = chat.generate.sampling.seed;
  if (seed) ++*seed;
  return CommandResult::answer;
}

CommandResult edit(Chat& chat, const std::string& text) {
  Json& messages = chat.conversation->messages();
  const Json before = messages;
  const Json taken = take_back(messages);
  const std::string old = text_of(taken);
  std::string changed = text;
  if (text.empty()) {
    if (!chat.reader->interactive()) {
      messages = before;
      refuse("/edit: expected the new text");
    }
    const std::optional<LineReader::Line> line = chat.reader->read("edit> ", old);
    changed = line ? line->text : std::string();
  }
  if (changed.empty()) {
    messages = before;
    return CommandResult::read;
  }
  Json parts = Json::array();
  if (taken.contains("content") && taken["content"].is_array()) {
    for (const Json& part : taken["content"]) {
      if (is_image(part)) parts.push_back(part);
    }
  }
  messages.push_back(message_of(std::move(parts), changed));
  return CommandResult::answer;
}

CommandResult undo(Chat& chat, const std::string&) {
  take_back(chat.conversation->messages());
  return CommandResult::read;
}

CommandResult clear(Chat& chat, const std::string&) {
  Json& messages = chat.conversation->messages();
  Json kept = Json::array();
  if (!messages.empty() && has_role(messages[0], "system")) kept.push_back(messages[0]);
  messages = kept;
  return CommandResult::read;
}

bool is_message(const Json& message) {
  if (!message.is_object()) return false;
  const auto role = message.find("role");
  const auto content = message.find("content");
  return role != message.end() && role->is_string() &&
         (content == message.end() || content->is_string() || content->is_null() ||
          (content->is_array() && std::ranges::all_of(*content, &Json::is_object)));
}

bool are_messages(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, is_message);
}

/// Whether a file holds nothing, or what save() writes and no more. Of other files only the
/// beginning is read, whatever their size.
bool is_saved_conversation(const std::string& path) {
  constexpr std::string_view kBegin = "{\n  \"messages\": [";
  std::ifstream file(path, std::ios::binary);
  std::string text(kBegin.size(), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty() && file.eof()) return true;
  if (text != kBegin) return false;
  file.close();
  const std::optional<Json> saved = parse_json(read_input(path));
  return saved && saved->size() == 1 && are_messages(saved->at("messages"));
}

CommandResult save(Chat& chat, const std::string& name) {
  const std::string path = platform::expanded(name);
  if (path.empty()) refuse("/save: expected the name of a file");
  std::error_code unknown;
  if (std::filesystem::is_regular_file(path, unknown) && !is_saved_conversation(path)) {
    refuse(path +
           ": the file exists and is no conversation that /save wrote; give another name, or "
           "remove the file");
  }
  const Json file = {{"messages", chat.conversation->messages()}};
  replace_file(path, file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", true);
  return CommandResult::read;
}

CommandResult load(Chat& chat, const std::string& name) {
  const std::string path = platform::expanded(name);
  if (path.empty()) refuse("/load: expected the name of a file");
  std::optional<Json> file = parse_json(read_input(path));
  Json messages;
  if (file && file->is_array()) {
    messages = *std::move(file);
  } else if (file && file->is_object() && file->contains("messages")) {
    messages = std::move((*file)["messages"]);
  }
  if (!are_messages(messages)) {
    refuse(path +
           ": expected {\"messages\": [{\"role\": …, \"content\": …}, …]} or the list alone, of at "
           "most 100 levels, each content a text, a list of parts or null");
  }
  chat.conversation->messages() = std::move(messages);
  return CommandResult::read;
}

CommandResult history(Chat& chat, const std::string&) {
  for (const Json& message : chat.conversation->messages()) {
    const std::string text = text_of(message, "[image] ");
    print_line(
        fmt::format("{}: {}", message.value("role", ""), text.empty() ? message.dump() : text));
  }
  return CommandResult::read;
}

CommandResult stats(Chat& chat, const std::string&) {
  const MemoryReport m = chat.engine->memory();
  print_line(chat.last.empty() ? "no answer yet" : chat.last);
  print_line(fmt::format("memory: weights {}, cache {} ({}/{}), work space {}, host {}, process {}",
                         human_bytes(m.weights), human_bytes(m.kv), m.cache_type_k, m.cache_type_v,
                         human_bytes(m.activations + m.scratch), human_bytes(m.host),
                         human_bytes(m.process)));
  return CommandResult::read;
}

CommandResult set(Chat& chat, const std::string& text) {
  if (text.empty()) {
    show_settings(chat.generate, chat.engine->model());
  } else {
    change_settings(chat.generate, text, chat.engine->vocabulary_size());
  }
  return CommandResult::read;
}

CommandResult leave(Chat&, const std::string&) { return CommandResult::leave; }

struct Command {
  const char* name;
  const char* argument;
  const char* what;
  CommandResult (*run)(Chat&, const std::string&);
};

constexpr Command kCommands[] = {
    {"help", "", "this list", help},
    {"system", "[TEXT]", "set the system message; without text: remove it", system},
    {"regenerate", "", "another answer to the last message", regenerate},
    {"edit", "[TEXT]", "change the last message, and answer that", edit},
    {"image", "FILE", "add an image to the next message", image},
    {"undo", "", "take back the last message and its answer", undo},
    {"clear", "", "start again, with the same system message", clear},
    {"history", "", "the messages so far", history},
    {"save", "FILE", "write the messages to a file, as JSON", save},
    {"load", "FILE", "continue from a file that /save wrote", load},
    {"set", "[FLAGS]", "change settings, such as --temp 0.7; without flags: show them", set},
    {"stats", "", "speed and memory", stats},
    {"exit", "", "leave; so do /quit, /bye and Ctrl-D", leave},
};

struct Alias {
  const char* name;
  const char* command;
};

constexpr Alias kAliases[] = {{"quit", "exit"}, {"bye", "exit"}, {"?", "help"}};

CommandResult help(Chat&, const std::string&) {
  for (const Command& c : kCommands) {
    print_line(fmt::format("  {:22} {}", fmt::format("/{} {}", c.name, c.argument), c.what));
  }
  print_line(
      "A line that ends with \\ continues on the next line; \"\"\" begins and ends a message of "
      "several lines.\n//text is a message that begins with one slash. Ctrl-C ends an answer.");
  return CommandResult::read;
}

}  // namespace

CommandResult run_chat_command(Chat& chat, const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  std::string name = line.substr(1, end - 1);
  const size_t begin = std::min(line.find_first_not_of(" \t", end), line.size());
  std::string argument = line.substr(begin);
  argument.erase(argument.find_last_not_of(" \t\r\n") + 1);
  for (const Alias& alias : kAliases) {
    if (name == alias.name) name = alias.command;
  }
  for (const Command& c : kCommands) {
    if (name == c.name) return c.run(chat, argument);
  }
  refuse(fmt::format("unknown command '/{}'; /help lists the commands", name));
}

Json user_message(Chat& chat, const std::string& text) { return message_of(chat.images, text); }

void attach_image(Chat& chat, const std::string& file) {
  const std::string bytes = read_input(file);
  must(chat.engine->read_image(std::as_bytes(std::span(bytes)), file));
  chat.images.push_back(chat::image_part(bytes));
}

void set_system(Chat& chat, const std::string& text) {
  Json& messages = chat.conversation->messages();
  if (!messages.empty() && has_role(messages[0], "system")) messages.erase(messages.begin());
  if (text.empty()) return;
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

}  // namespace infer::cli
