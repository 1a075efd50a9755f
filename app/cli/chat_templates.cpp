#include "cli/chat_templates.h"

#include <fmt/format.h>

#include <vector>

#include "chat/named_templates.h"
#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/words.h"

namespace infer::cli {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const chat::NamedTemplate& known : chat::named_templates()) found.emplace_back(known.name);
  return found;
}

chat::ChosenTemplate chosen(const TemplateArgs& args) {
  if (!args.file.empty()) return {read_filled_input(args.file), {}};
  Result<chat::ChosenTemplate> choice = chat::choose_template(args.named);
  if (!choice) {
    usage(fmt::format("--chat-template: {}{}", choice.error().message(),
                      did_you_mean(args.named, names())));
  }
  return *std::move(choice);
}

}  // namespace

void declare_template(Options options, TemplateArgs& args) {
  options = options.group(kTemplateGroup);
  const Option named = options
                           .add("--chat-template", "NAME|JINJA", args.named,
                                "Template in place of the model's, by name or as Jinja")
                           .suggests(names());
  options.add("--template,--chat-template-file", "FILE", args.file, "The same as Jinja from a file")
      .excludes(named);
}

std::string template_source(const TemplateArgs& args) { return chosen(args).source; }

std::string template_stop(const TemplateArgs& args) {
  return args.file.empty() ? chosen(args).stop : std::string();
}

}  // namespace infer::cli
