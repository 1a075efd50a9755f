// The options of loading on the command line: the rows of load_options.def, and what is read in a
// way of its own.
#include <string_view>
#include <type_traits>

#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/hub_options.h"

namespace infer::cli {
namespace {

enum class Group { none, device, memory, speculation };

/// The variable that the command line sets for a field of LoadOptions. It is the field itself,
/// unless load_options() makes the field from a text.
template <auto Field>
struct Given {
  static auto& of(ModelArgs& args) { return args.load.*Field; }
};
template <>
struct Given<&LoadOptions::batch_rows> {
  static auto& of(ModelArgs& args) { return args.step_tokens; }
};
template <>
struct Given<&LoadOptions::gpu_layers> {
  static auto& of(ModelArgs& args) { return args.placement.gpu_layers; }
};
template <>
struct Given<&LoadOptions::cpu_experts> {
  static auto& of(ModelArgs& args) { return args.placement.n_cpu_moe; }
};
template <>
struct Given<&LoadOptions::memory_limit> {
  static auto& of(ModelArgs& args) { return args.memory; }
};
template <>
struct Given<&LoadOptions::reserve> {
  static auto& of(ModelArgs& args) { return args.reserve; }
};

Option with_choices(Option option, const char* choices) {
  return *choices == 0 ? option : option.one_of(parts_of(choices, ','));
}

/// A number, or the text from which load_options() makes it.
template <typename T>
Option with_range(Option option, const T&, int64_t low, int64_t high) {
  if constexpr (!std::is_same_v<T, std::string>) option.range(low, high);
  if constexpr (std::is_arithmetic_v<T>) option.show_default();
  return option;
}

/// Declares the rows of a group. `given.operator()<&LoadOptions::name>()` is the variable that an
/// option sets. `declared` is called with each row's name and option. `step_names`, if not null,
/// are the names of batch_rows.
template <typename GivenFn, typename DeclaredFn>
void declare_group(Group wanted, Options options, GivenFn given, DeclaredFn declared,
                   const char* step_names = nullptr) {
  const auto names = [&](std::string_view name, const char* flags) {
    return step_names != nullptr && name == "batch_rows" ? step_names : flags;
  };
#define INFER_GIVEN(name) given.template operator()<&LoadOptions::name>()
#define INFER_LOAD_TEXT(name, preset, choices, group, flags, value, help)                          \
  if (Group::group == wanted) {                                                                    \
    declared(                                                                                      \
        #name,                                                                                     \
        with_choices(options.add(flags, value, INFER_GIVEN(name), help), choices).show_default()); \
  }
#define INFER_LOAD_LIST(name, choices, group, flags, value, help)                             \
  if (Group::group == wanted) {                                                               \
    declared(#name, with_choices(options.add(flags, value, INFER_GIVEN(name), help), choices) \
                        .separated_by_commas());                                              \
  }
#define INFER_LOAD_NUMBER(type, name, preset, low, high, group, flags, value, help)              \
  if (Group::group == wanted) {                                                                  \
    declared(#name, with_range(options.add(names(#name, flags), value, INFER_GIVEN(name), help), \
                               INFER_GIVEN(name), low, high));                                   \
  }
#define INFER_LOAD_FLAG(name, preset, group, flags, help) \
  if (Group::group == wanted) options.flag(flags, INFER_GIVEN(name), help);
#include "infer/load_options.def"
#undef INFER_GIVEN
}

void declare_draft_hub(Options options, ModelArgs& args) {
  options.add("-hfd,-hfrd,--hf-repo-draft", "USER/REPO[:QUANT]", args.draft_hub,
              "The draft model, from the Hugging Face hub as with -hf");
  options.before_running([&args] {
    if (args.draft_hub.empty()) return;
    if (!args.load.draft_model.empty()) {
      usage("-md and -hfd: each names the draft model; leave one out");
    }
    const HubArgs hub{args.draft_hub, "", args.hub.token, args.hub.offline};
    args.load.draft_model = path_of_hub(hub, args.quiet);
  });
}

}  // namespace

void declare_device(Options options, LoadOptions& load) {
  declare_group(
      Group::device, options.group(kMemoryGroup), [&]<auto Field>()->auto& { return load.*Field; },
      [](std::string_view, Option) {});
}

void declare_running(Options options, ModelArgs& args, const char* step_names,
                     const char* quiet_names) {
  const Options memory = options.group(kMemoryGroup);
  const Options speculation = options.group(kSpeculationGroup);
  const auto given = [&]<auto Field>()->auto& { return Given<Field>::of(args); };
  // llama.cpp tells a logical from a physical batch. A step here is one batch: the names are one.
  const auto declared = [&](std::string_view name, Option option) {
    if (name == "cpu_experts") declare_placement(memory, args.placement);
    if (name != "draft_model") return;
    option.replaced_by(model_path_of);
    declare_draft_hub(speculation, args);
  };
  declare_device(options, args.load);
  declare_group(Group::memory, memory, given, declared, step_names);
  declare_group(Group::speculation, speculation, given, declared);
  const Options output = options.group(kOutputGroup);
  output.flag(quiet_names, args.quiet, "Only errors on stderr");
  output.flag("-v,--verbose", args.verbose, "Say on stderr what is done");
}

}  // namespace infer::cli
