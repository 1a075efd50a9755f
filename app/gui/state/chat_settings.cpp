#include "gui/state/chat_settings.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "chat/named_templates.h"

namespace infer::gui {
namespace {

using Json = nlohmann::ordered_json;

Status wrong(const std::string& name, const std::string& expected) {
  return {StatusCode::bad_file, "settings: '" + name + "': expected " + expected};
}

/// Reads members and keeps the first that is wrong.
struct Reader {
  const Json& object;
  Status status;

  template <typename T>
  void number(const char* name, std::optional<T>& to, double least, double most) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return;
    double value = 0;
    const bool fits = found->is_number() && std::isfinite(value = found->get<double>()) &&
                      value >= least && value <= most &&
                      (!std::is_integral_v<T> || value == std::floor(value));
    if (!fits) {
      if (status.ok()) {
        status = wrong(name, std::string(std::is_integral_v<T> ? "a whole number" : "a number") +
                                 " from " + Json(least).dump() + " to " + Json(most).dump());
      }
      return;
    }
    to = static_cast<T>(value);
  }
  void text(const char* name, std::string& to) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return;
    if (found->is_string()) {
      to = found->get<std::string>();
    } else if (status.ok()) {
      status = wrong(name, "a text");
    }
  }
  void flag(const char* name, bool& to) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return;
    if (found->is_boolean()) {
      to = found->get<bool>();
    } else if (status.ok()) {
      status = wrong(name, "true or false");
    }
  }
};

}  // namespace

GenerateOptions ChatSettings::options() const {
  GenerateOptions options;
  options.sampling = sampling;
  options.max_tokens = max_tokens;
  options.grammar = grammar;
  options.json_schema = json_schema;
  const Result<chat::ChosenTemplate> chosen = chat::choose_template(chat_template);
  if (chosen && !chosen->stop.empty()) options.stop.push_back(chosen->stop);
  options.overflow = drop_oldest ? ContextOverflow::shift : ContextOverflow::stop;
  return options;
}

std::string ChatSettings::template_variables() const {
  return Json{{"enable_thinking", thinking}}.dump();
}

Result<ChatSettings> settings_of(const std::string& json) {
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) {
    return tl::unexpected(Status(StatusCode::bad_file, "settings: expected a JSON object"));
  }
  ChatSettings settings;
  Reader reader{object, {}};
#define INFER_SAMPLING(type, name, preset, low, high, ...) \
  reader.number<type>(#name, settings.sampling.name, low, high);
#include "infer/samplers.def"
  std::optional<int64_t> seed;
  reader.number("seed", seed, 0, static_cast<double>(int64_t{1} << 53));
  if (seed) settings.sampling.seed = static_cast<uint64_t>(*seed);
  std::optional<int32_t> max_tokens;
  reader.number("max_tokens", max_tokens, -1, std::numeric_limits<int32_t>::max());
  settings.max_tokens = max_tokens.value_or(-1);
  reader.text("grammar", settings.grammar);
  reader.text("json_schema", settings.json_schema);
  reader.text("tools", settings.tools);
  reader.text("chat_template", settings.chat_template);
  reader.text("template_of", settings.template_of);
  reader.flag("thinking", settings.thinking);
  reader.flag("drop_oldest", settings.drop_oldest);
  if (!reader.status.ok()) return tl::unexpected(std::move(reader.status));
  return settings;
}

std::string text_of(const ChatSettings& settings) {
  Json object = Json::object();
#define INFER_SAMPLING(type, name, ...) \
  if (settings.sampling.name) object[#name] = *settings.sampling.name;
#include "infer/samplers.def"
  if (settings.sampling.seed) object["seed"] = *settings.sampling.seed;
  if (settings.max_tokens >= 0) object["max_tokens"] = settings.max_tokens;
  if (!settings.grammar.empty()) object["grammar"] = settings.grammar;
  if (!settings.json_schema.empty()) object["json_schema"] = settings.json_schema;
  if (!settings.tools.empty()) object["tools"] = settings.tools;
  if (!settings.chat_template.empty()) {
    object["chat_template"] = settings.chat_template;
    if (!settings.template_of.empty()) object["template_of"] = settings.template_of;
  }
  if (!settings.thinking) object["thinking"] = false;
  if (settings.drop_oldest) object["drop_oldest"] = true;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace infer::gui
