#include "conversations/import.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conversations/export.h"
#include "conversations/import_formats.h"
#include "conversations/json_scanner.h"
#include "conversations/limits.h"

namespace infer::conversations {
namespace {

class Importer {
 public:
  Importer(std::istream& in, const std::string& name, const ImportSink& sink)
      : scanner_(in, name), fields_(name), name_(name), sink_(sink) {}

  Result<ImportReport> read() {
    const char first = scanner_.peek();
    if (first == '[') {
      report_.format = "ChatGPT";
      take_array("", [&](const std::string& at, const Json& value) {
        take(read_chatgpt(fields_, value, at));
      });
    } else if (first == '{') {
      read_object();
    } else {
      scanner_.fail("'[' or '{': the export of infer or ChatGPT, or a conversation of LM Studio");
    }
    scanner_.end();
    const Status failed = failure();
    if (!failed.ok()) return tl::unexpected(failed);
    return report_;
  }

 private:
  Status failure() const {
    for (const Status* status : {&sunk_, &fields_.status(), &scanner_.status()}) {
      if (!status->ok()) return *status;
    }
    return {};
  }
  bool ok() const { return failure().ok(); }

  void take(const ImportedConversation& conversation) {
    if (!ok()) return;
    ++report_.conversations;
    report_.messages += static_cast<int64_t>(conversation.messages.size());
    if (sink_.conversation) sunk_ = sink_.conversation(conversation);
  }

  template <typename Take>
  void take_array(const std::string& at, const Take& take) {
    if (!scanner_.take('[')) return;
    bool is_first = true;
    for (int64_t i = 0; ok() && scanner_.another(']', is_first); ++i) {
      const std::string text = scanner_.value(kMaxImportedBytes);
      const std::string place = fmt::format("{}[{}]", at, i);
      if (!ok()) return;
      const Json value = fields_.parse_object(text, place);
      if (ok()) take(place, value);
    }
  }

  /// Our own format is an object whose first member is "format". The others are one conversation.
  void read_object() {
    scanner_.take('{');
    std::string rest = "{";
    bool is_first = true;
    while (ok() && scanner_.another('}', is_first)) {
      const std::string member = scanner_.member();
      if (rest.size() == 1 && member == "format") return read_own_format();
      const std::string value = scanner_.value(kMaxImportedBytes);
      rest += (rest.size() == 1 ? "" : ",") + Json(member).dump() + ':' + value;
      if (rest.size() > kMaxImportedBytes) {
        return scanner_.fail(fmt::format("a conversation of at most {} bytes", kMaxImportedBytes));
      }
    }
    if (!ok()) return;
    rest += '}';
    const Json object = fields_.parse_object(rest, "");
    if (!ok()) return;
    if (object.contains("mapping")) {
      report_.format = "ChatGPT";
      take(read_chatgpt(fields_, object, ""));
    } else if (object.contains("messages")) {
      report_.format = "LM Studio";
      take(read_lm_studio(fields_, object));
    } else {
      fields_.fail("", "a member 'format' (infer), 'mapping' (ChatGPT) or 'messages' (LM Studio)");
    }
  }

  void read_own_format() {
    report_.format = "infer";
    const auto parsed = [](const std::string& text) { return Json::parse(text, nullptr, false); };
    if (parsed(scanner_.value(kMaxTitleBytes)) != kFormatName) {
      return fields_.fail("format", fmt::format("\"{}\"", kFormatName));
    }
    bool is_first = false;
    bool has_version = false;
    while (ok() && scanner_.another('}', is_first)) {
      const std::string member = scanner_.member();
      if (!ok()) return;
      if (member == "version") {
        const Json version = parsed(scanner_.value(kMaxTitleBytes));
        has_version = version.is_number_integer() && version > 0;
        if (!has_version) return fields_.fail("version", "a number above 0");
        if (version > kFormatVersion) {
          sunk_ = {StatusCode::unsupported,
                   fmt::format("{}: version: expected at most {}, found {}; use a newer version of "
                               "infer",
                               name_, kFormatVersion, version.dump())};
          return;
        }
      } else if (!has_version) {
        return fields_.fail(member, "'version' before it");
      } else if (member == "conversations") {
        read_own_conversations(member);
      } else if (member == "presets") {
        take_array(member, [&](const std::string& at, const Json& value) { preset(value, at); });
      } else {
        scanner_.value(kMaxImportedBytes);
      }
    }
  }

  void read_own_conversations(const std::string& at) {
    if (!scanner_.take('[')) return;
    bool is_first = true;
    for (int64_t i = 0; ok() && scanner_.another(']', is_first); ++i) {
      read_own_conversation(fmt::format("{}[{}]", at, i));
    }
  }

  /// Message by message: all of them together may be long.
  void read_own_conversation(const std::string& at) {
    const int64_t begin = scanner_.position();
    OwnConversation reader(fields_, at);
    std::string rest = "{";
    bool is_first = true;
    if (scanner_.peek() != '{') {
      fields_.parse_object(scanner_.value(kMaxImportedBytes), at);  // which it is not
      return;
    }
    scanner_.take('{');
    while (ok() && scanner_.another('}', is_first)) {
      const std::string member = scanner_.member();
      if (member == "messages") {
        take_array(at + ".messages", [&](const std::string&, const Json& message) {
          reader.message(message);
          if (scanner_.position() - begin > kMaxConversationBytes) {
            scanner_.fail(fmt::format("a conversation of at most {} bytes", kMaxConversationBytes));
          }
        });
        continue;
      }
      const std::string value = scanner_.value(kMaxImportedBytes);
      if (rest.size() + value.size() > kMaxImportedBytes) {
        return scanner_.fail(
            fmt::format("at most {} bytes beside the messages", kMaxImportedBytes));
      }
      rest += (rest.size() == 1 ? "" : ",") + Json(member).dump() + ':' + value;
    }
    if (!ok()) return;
    rest += '}';
    const Json beside = fields_.parse_object(rest, at);
    if (ok()) take(reader.finish(beside));
  }

  void preset(const Json& value, const std::string& at) {
    const Preset preset{fields_.text(value, "name", at), fields_.text(value, "system_prompt", at),
                        fields_.object(value, "settings", at).dump()};
    if (preset.name.empty()) fields_.fail(at + ".name", "a name");
    if (!ok()) return;
    ++report_.presets;
    if (sink_.preset) sunk_ = sink_.preset(preset);
  }

  JsonScanner scanner_;
  JsonFields fields_;
  const std::string& name_;
  const ImportSink& sink_;
  Status sunk_;
  ImportReport report_;
};

}  // namespace

Id add_message(ImportedConversation& conversation, Id parent, Message message) {
  message.id = static_cast<Id>(conversation.messages.size()) + 1;
  message.parent = parent;
  conversation.messages.push_back(std::move(message));
  return conversation.messages.back().id;
}

void select_path(ImportedConversation& conversation, Id last) {
  for (Id child = last; child != 0;) {
    const Id parent = conversation.messages[static_cast<size_t>(child - 1)].parent;
    Id& selected = parent == 0
                       ? conversation.conversation.selected_root
                       : conversation.messages[static_cast<size_t>(parent - 1)].selected_child;
    selected = child;
    child = parent;
  }
}

Result<ImportReport> read_conversations(std::istream& in, const std::string& name,
                                        const ImportSink& sink) {
  return Importer(in, name, sink).read();
}

}  // namespace infer::conversations
