#include "engine/text/output/call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "engine/text/output/call_text.h"
#include "engine/text/output/output_format.h"
#include "engine/text/output/tag_rules.h"

namespace infer {
namespace {

using calls::as_literal;
using calls::Json;
using calls::mark;

struct Tool {
  std::string name;
  bool strict = false;
  Json parameters{};        ///< of a strict tool: their schema
  std::string arguments{};  ///< the rule of those as JSON, once it is written
};

/// Rules that several forms share.
constexpr std::string_view kShared =
    "ws ::= \" \"? (\"\\r\"? \"\\n\" [ \\t]{0,40})?\n"
    "object ::= %json {\"type\": \"object\"}\n"
    "id-text ::= \"\\\"\" [a-zA-Z0-9_.:-]{0,64} \"\\\"\"\n"
    "head ::= (\"\\\"type\\\"\" ws \":\" ws \"\\\"function\\\"\" | \"\\\"tool_call_id\\\"\" ws "
    "\":\" ws "
    "id-text) ws \",\" ws\n"
    "tail ::= \",\" ws \"\\\"id\\\"\" ws \":\" ws id-text ws\n"
    "name-key ::= (\"\\\"name\\\"\" | \"\\\"tool_name\\\"\") ws \":\" ws\n"
    "arguments-key ::= ws \",\" ws (\"\\\"arguments\\\"\" | \"\\\"parameters\\\"\") ws \":\" ws\n";

/// Writes the rules of calls.
class CallRules {
 public:
  explicit CallRules(const Json& tools) {
    for (const Json& tool : tools) {
      const auto inner = tool.is_object() ? tool.find("function") : tool.end();
      const Json& function = tool.is_object() && inner != tool.end() ? *inner : tool;
      if (!function.is_object()) continue;
      const auto name = function.find("name");
      if (name == function.end() || !name->is_string()) continue;
      const bool strict = function.value("strict", Json()) == true;
      tools_.push_back({name->get<std::string>(), strict});
      if (strict) tools_.back().parameters = schema_of(function);
    }
  }

  bool empty() const { return tools_.empty(); }
  /// invalid_argument: a strict tool cannot be held in the form of a section.
  const Status& status() const { return status_; }
  bool strict() const { return std::ranges::any_of(tools_, &Tool::strict); }
  const std::vector<Tool>& tools() const { return tools_; }

  /// The calls of a section, with its marks; empty if their form has no grammar here.
  std::string section(const ToolSection& section) {
    const std::string calls = calls_of(section);
    if (calls.empty()) return {};
    std::string all = mark(section.open) + " ws " + calls;
    if (!section.close.empty()) all += " ws " + mark(section.close);
    return all;
  }

  /// A call as JSON, or several.
  std::string objects() {
    if (!objects_) {
      objects_ = true;
      rules_ += "call ::= \"{\" ws head? name-key " +
                by_tool([](const Tool& tool) { return as_literal(calls::write_json(tool.name)); },
                        "arguments-key ") +
                " ws tail? \"}\"\n"
                "calls ::= call | \"[\" ws call (ws \",\" ws call)* ws \"]\"\n";
    }
    return "calls";
  }

  std::string rules() const { return std::string(kShared) + rules_; }

 private:
  static Json schema_of(const Json& function) {
    const auto given = function.find("parameters");
    Json schema = given != function.end() && given->is_object()
                      ? *given
                      : Json{{"properties", Json::object()}};
    schema["type"] = "object";
    return schema;
  }

  std::string arguments_as_json(Tool& tool) {
    if (tool.arguments.empty()) {
      tool.arguments = fmt::format("arguments-{}", &tool - tools_.data());
      rules_ +=
          fmt::format("{} ::= %json {} {}\n", tool.arguments, as_literal("the tool " + tool.name),
                      calls::write_json(tool.parameters));
    }
    return tool.arguments;
  }

  /// For each tool its name, what stands before the arguments, and those. `any`: the rule of those
  /// of tools that are not strict.
  template <class Name, class Arguments>
  std::string by_tool(Name&& name, const std::string& between, Arguments&& arguments,
                      const std::string& any) {
    std::string strict, others;
    for (Tool& tool : tools_) {
      std::string& to = tool.strict ? strict : others;
      if (!to.empty()) to += " | ";
      to += name(tool);
      if (tool.strict) to += " " + between + arguments(tool);
    }
    if (!others.empty()) others = fmt::format("({}) {}{}", others, between, any);
    return fmt::format("({}{}{})", strict, strict.empty() || others.empty() ? "" : " | ", others);
  }
  /// The same with arguments as JSON.
  template <class Name>
  std::string by_tool(Name&& name, const std::string& between) {
    return by_tool(
        name, between, [this](Tool& tool) { return arguments_as_json(tool); }, "object");
  }
  std::string by_name(const std::string& between) {
    return by_tool([](const Tool& tool) { return as_literal(tool.name); }, between);
  }

  std::string tagged(const calls::TagForm& form) {
    const auto arguments = [&](const Tool& tool) {
      Result<std::string> rule = calls::tagged_arguments(form, tool.name, tool.parameters, budget_);
      if (!rule && status_.ok()) status_ = rule.error();
      return fmt::format("({})", rule.value_or(""));
    };
    const std::string call =
        by_tool([](const Tool& tool) { return as_literal(tool.name); }, mark(form.named) + " ",
                arguments, calls::any_tagged_arguments(form));
    const std::string one = fmt::format("tagged-{}", ++tagged_);
    rules_ += fmt::format("{} ::= {} {} ws {}\n", one, mark(form.open), call, mark(form.close));
    return form.open.empty() ? one : fmt::format("{} (ws {})*", one, one);
  }

  std::string calls_of(const ToolSection& section) {
    if (section.parse == calls::json) return objects();
    if (section.parse == calls::named_json) {
      rules_ += "pair ::= \"{\" ws " +
                by_tool([](const Tool& tool) { return as_literal(calls::write_json(tool.name)); },
                        "ws \":\" ws ") +
                " ws \"}\"\n";
      return "\"[\" ws pair (ws \",\" ws pair)* ws \"]\"";
    }
    if (section.parse == calls::mistral) {
      rules_ += "call-id ::= " + mark("[CALL_ID]") + " ws [a-zA-Z0-9_-]{1,64}\n";
      rules_ += "one ::= " + by_name("ws call-id? ws " + mark("[ARGS]") + " ws ") + "\n";
      objects();
      return fmt::format("(\"[\" ws call (ws \",\" ws call)* ws \"]\" | one (ws {} ws one)*)",
                         mark(section.open));
    }
    if (section.parse == calls::deepseek) {
      const std::string begin = mark("<｜tool▁call▁begin｜>");
      const std::string between = mark("<｜tool▁sep｜>");
      rules_ += fmt::format("one ::= {} ws (\"function\" {} {} ws \"```\" | {}) ws {}\n", begin,
                            between, by_name("ws \"```json\" ws "), by_name(between + " ws "),
                            mark("<｜tool▁call▁end｜>"));
      return "one (ws one)*";
    }
    if (section.parse == calls::kimi) {
      rules_ += fmt::format(
          "one ::= {} ws \"functions.\"? {} ws {}\n", mark("<|tool_call_begin|>"),
          by_name("\":\" [0-9]{1,6} ws " + mark("<|tool_call_argument_begin|>") + " ws "),
          mark("<|tool_call_end|>"));
      return "one (ws one)*";
    }
    if (section.parse == calls::plamo) {
      const auto named = [](const char* name) {
        return mark(fmt::format("<|plamo:{}:plamo|>", name));
      };
      rules_ += fmt::format(
          "one ::= {} ws {} {} ws {} ws {}\n", named("begin_tool_request"),
          named("begin_tool_name"),
          by_name(named("end_tool_name") + " ws " + named("begin_tool_arguments") + " " +
                  mark("<|plamo:constrain|>") + " \"json\" " + mark("<|plamo:msg|>") + " ws "),
          named("end_tool_arguments"), named("end_tool_request"));
      return "one (ws one)*";
    }
    if (section.parse == calls::function_json) return by_name("\">\" ws ");
    if (const calls::TagForm* form = calls::find_tag_form(section.parse)) return tagged(*form);
    return {};
  }

  std::vector<Tool> tools_;
  std::string rules_;
  bool objects_ = false;
  int tagged_ = 0;  ///< sections with tags whose rules are written
  calls::RuleBudget budget_;
  Status status_;
};

/// How a bare call of a tool begins.
void add_beginnings(const CallRules& rules, std::vector<std::string>& to) {
  for (const Tool& tool : rules.tools()) {
    const std::string name = calls::write_json(tool.name);
    to.push_back("{\"name\": " + name);
    to.push_back("{\"name\":" + name);
    to.push_back("{\"type\": \"function\", \"name\": " + name);
    to.push_back("{\"type\":\"function\",\"name\":" + name);
  }
}

/// The schema holds the message for the user. What is before it, such as calls, is free.
void hold_messages(const OutputFormat& format, const std::string& text, GenerateOptions& options) {
  if (format.name == "harmony") {
    options.grammar =
        fmt::format("root ::= {} [ ]? ({} [a-zA-Z]{{0,16}})? {} text\n{}", mark("<|channel|>final"),
                    mark("<|constrain|>"), mark("<|message|>"), text);
    options.grammar_start.marks = {"<|channel|>final"};
  } else {
    options.grammar = "root ::= \">>>\"? \"all\\n\" text\n" + text;
    options.grammar_start.marks = {">>>all\n"};
    options.grammar_start.first = {"all\n"};
  }
}

/// The answer is calls or the rule `text`.
void hold_answer(const OutputFormat& format, CallRules& rules, const std::string& text,
                 GenerateOptions& options) {
  std::string sections;
  for (const ToolSection& section : format.sections) {
    if (section.open.empty()) continue;
    std::string one = rules.section(section);
    if (one.empty() && !section.close.empty()) {
      one = mark(section.open) + " %until " + as_literal(section.close);
    }
    if (!one.empty()) sections += (sections.empty() ? "" : " | ") + one;
  }
  options.grammar = "root ::= text";
  if (!sections.empty()) options.grammar += " | section (ws section)*";
  if (format.bare != nullptr) options.grammar += " | " + rules.objects();
  options.grammar += "\n" + text + rules.rules();
  if (!sections.empty()) options.grammar += "section ::= " + sections + "\n";
}

}  // namespace

Result<bool> hold_calls(std::string_view template_source, std::string_view prompt,
                        OutputOptions& output, GenerateOptions& options) {
  const std::optional<Json> tools = calls::read_json(output.declared_tools);
  if (!tools || !tools->is_array()) {
    return fail(StatusCode::invalid_argument, "tools: expected a JSON array of functions");
  }
  const OutputFormat& format = find_output_format(template_source);
  CallRules rules(*tools);
  if (rules.empty()) return false;
  GrammarStart start;
  if (!options.json_schema.empty()) {
    const std::string text =
        fmt::format("text ::= %json \"the schema of the text\" {}\n", options.json_schema);
    if (format.messages != nullptr) {
      hold_messages(format, text, options);
    } else if (format.bare == nullptr && format.sections[0].open.empty()) {
      return false;
    } else {
      hold_answer(format, rules, text, options);
      INFER_CHECK_R(rules.status());
      output.constrained = output.or_calls = true;
    }
    options.json_schema.clear();
    return true;
  }
  std::string root;
  start.again = true;
  for (const ToolSection& section : format.sections) {
    if (section.open.empty()) continue;
    const std::string one = rules.section(section);
    if (one.empty()) continue;
    root += (root.empty() ? "" : " | ") + one;
    start.marks.emplace_back(section.open);
    start.again = start.again && !section.close.empty();
  }
  if (format.bare != nullptr && output.tools && !output.continues) {
    root += (root.empty() ? "" : " | ") + rules.objects();
    add_beginnings(rules, start.first);
    start.again = false;
  }
  if (root.empty()) return false;
  INFER_CHECK_R(rules.status());
  const ReasoningMarks* reasoning = find_reasoning(template_source);
  if (reasoning != nullptr && !format.calls_in_reasoning) {
    start.skipping = ends_in_reasoning(*reasoning, prompt);
    if (start.skipping || !output.continues) start.skip_open = reasoning->open;
    start.skip_close = reasoning->close;
  }
  start.optional = !rules.strict();
  options.grammar = "root ::= " + root + "\n" + rules.rules();
  options.grammar_start = std::move(start);
  return true;
}

}  // namespace infer
