// infer template: renders a chat template.
#include "cli/arguments.h"
#include "cli/chat_templates.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

struct RenderArgs {
  ModelArgs model;
  TemplateArgs chat_template;
  std::string input;
  bool json = false;
};

void declare_template(Options options, RenderArgs& args) {
  declare_model(options, args.model);
  declare_template(options, args.chat_template);
  options.add("-i,--input", "FILE", args.input,
              "JSON object with the template's variables (messages, tools, bos_token, "
              "add_generation_prompt, …) and `now`, the time of strftime_now; '-': stdin");
  options.flag("--json", args.json, "Print one JSON object: text");
  options.example("infer template -m model.gguf --input chat.json", "a conversation as its prompt");
}

/// The input, byte for byte: parsing it and writing it again would lose large integers.
struct Input {
  std::string text;
  Json variables;
};

Input read_variables(const std::string& path) {
  const std::string name = path == "-" ? "stdin" : path;
  Input input{read_input(path), {}};
  try {
    input.variables = Json::parse(input.text);
  } catch (const Json::exception& e) {
    throw Failure(kExitBadFile, fmt::format("{}: not JSON: {}", name, json_failure(e)));
  }
  if (!input.variables.is_object()) {
    throw Failure(kExitBadFile, fmt::format("{}: expected one JSON object", name));
  }
  return input;
}

/// The variables that the input does not have and the model knows.
void add_special_tokens(Input& input, const Vocabulary& vocabulary) {
  const SpecialTokenIds ids = vocabulary.special();
  std::string added;
  for (const auto& [name, id] : {std::pair{"bos_token", ids.bos}, {"eos_token", ids.eos}}) {
    if (id < 0 || input.variables.contains(name)) continue;
    added += Json(name).dump() + ":" +
             Json(vocabulary.piece(id)).dump(-1, ' ', false, Json::error_handler_t::replace) + ",";
  }
  if (input.variables.empty() && !added.empty()) added.pop_back();
  input.text.insert(input.text.find('{') + 1, added);
}

int run_template(RenderArgs& args) {
  std::string source = template_source(args.chat_template);
  if (source.empty() == args.model.path.empty()) {
    usage("expected either a model (-m) or a template (--template)");
  }
  if (args.input.empty()) usage("no variables given: --input FILE");
  Input input = read_variables(args.input);
  if (source.empty()) {
    source = must_read(describe_model(args.model.path)).chat_template;
    if (source.empty()) {
      throw Failure(kExitBadFile, args.model.path + ": the model has no chat template");
    }
    add_special_tokens(input, *must_read(Vocabulary::load(args.model.path)));
  }
  std::string now;
  if (const auto given = input.variables.find("now"); given != input.variables.end()) {
    if (!given->is_string()) throw Failure(kExitBadFile, "now: expected a time as text");
    now = given->get<std::string>();
  }
  const std::unique_ptr<ChatTemplate> chat_template = must(ChatTemplate::parse(source));
  const Result<std::string> text = chat_template->render(input.text, now);
  if (!text) {
    const bool raised = text.error().code() == StatusCode::invalid_argument;
    throw Failure(raised ? kExitRuntime : exit_code(text.error().code()), text.error().message());
  }
  if (args.json) {
    print_json({{"text", *text}});
  } else {
    write_text(*text);
    check_out();
  }
  return kExitOk;
}

}  // namespace

void add_template(Parser& parser) {
  add_command(parser, "template", "Render a chat template", declare_template, run_template);
}

}  // namespace infer::cli
