#include "cli/habits.h"

#include <algorithm>
#include <string_view>

#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/output.h"

namespace infer::cli {
namespace {

enum class Takes { nothing, value, switch_value };  // switch_value: on, off, auto, 0, 1, or nothing

struct Habit {
  std::string_view names;  // with ' ' between
  Takes takes;
  bool refused;
  const char* what;               // nothing: it is so anyway
  std::string_view command = {};  // of this one alone; empty: of all that load a model
};

constexpr Habit kHabits[] = {
    // As it is.
    {"-fa --flash-attn", Takes::switch_value, false, nullptr},
    {"--jinja --warmup --no-warmup --perf --no-perf --simple-io", Takes::nothing, false, nullptr},
    {"-cb --cont-batching --no-context-shift -dio --direct-io -ndio --no-direct-io", Takes::nothing,
     false, nullptr},
    {"--no-display-prompt --log-disable --log-prefix --log-timestamps", Takes::nothing, false,
     nullptr},
    {"-co --color --log-colors", Takes::switch_value, false, nullptr},
    {"-dt --defrag-thold -np --parallel", Takes::value, false, nullptr},
    // Goes on without.
    {"--no-jinja", Takes::nothing, false, "chat templates are always rendered as Jinja"},
    {"--mlock", Takes::nothing, false,
     "memory is not locked; 'infer plan' says whether it suffices without swapping"},
    {"-tb --threads-batch -Cb --cpu-mask-batch", Takes::value, false,
     "prompts and generation use the same threads (-t)"},
    {"-C --cpu-mask -Cr --cpu-range --cpu-strict", Takes::value, false,
     "threads are not pinned; taskset restricts the program to processors"},
    {"--prio --prio-batch --poll --poll-batch", Takes::value, false,
     "threads run as the system schedules them; nice changes that"},
    {"--numa", Takes::value, false,
     "threads and weights are spread over all memory nodes; numactl restricts the program to some"},
    {"-nkvo --no-kv-offload -kvu --kv-unified --no-host --swa-full", Takes::nothing, false,
     "the cache and the work space of a layer are on its device ('infer plan')"},
    {"-lv --verbosity --log-verbosity", Takes::value, false, "-v says more, -q less"},
    {"-sp --special --verbose-prompt", Takes::nothing, false,
     "not supported; 'infer tokenize' shows the tokens of a prompt, 'infer run --json' those of "
     "the text"},
    {"-ngld --gpu-layers-draft --n-gpu-layers-draft -cd --ctx-size-draft -ctkd -ctvd -devd "
     "--device-draft",
     Takes::value, false, "the draft model is placed with the model"},
    {"--draft-min --draft-n-min --draft-p-min --draft-p-split", Takes::value, false,
     "how many tokens are drafted is measured (--spec auto)"},
    // Something else would be computed.
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
     "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast",
     Takes::value, true,
     "positions are scaled as the model file says; change its keys '….rope.…' to change that"},
    {"--override-kv", Takes::value, true,
     "the model's metadata is taken as it is; write it into the file, for instance with "
     "gguf_set_metadata.py of the package gguf"},
    {"--control-vector --control-vector-scaled", Takes::value, true,
     "control vectors are not supported"},
    {"--lora-init-without-apply", Takes::nothing, true, "use --lora FILE:0"},
    {"--audio --video", Takes::value, true, "only text and images are supported"},
    {"-sm --split-mode -ts --tensor-split -mg --main-gpu", Takes::value, true,
     "name the devices; each gets layers in proportion to its free memory: --device "
     "vulkan:0,vulkan:1"},
    {"-no-cnv --no-conversation", Takes::nothing, false, nullptr, "run"},
    {"-no-cnv --no-conversation", Takes::nothing, true, "use 'infer run'", "chat"},
    {"-cnv --conversation", Takes::nothing, false, nullptr, "chat"},
    {"-cnv --conversation", Takes::nothing, true, "use 'infer chat'", "run"},
    {"-sys --system-prompt -sysf --system-prompt-file --chat-template --chat-template-file "
     "--template",
     Takes::value, true, "a prompt is completed as it is; 'infer chat' converses", "run"},
    {"--keep", Takes::value, true,
     "the system prompt always stays; --context-shift leaves out the oldest turns", "chat"},
    {"--ignore-eos", Takes::nothing, true,
     "an answer ends where the model ends it; 'infer run' has the flag", "chat"},
    {"--format", Takes::value, true, "-j '{}' holds the text to JSON, -j SCHEMA to a schema"},
    {"-dev", Takes::value, true, "the flag is --device; 'infer devices' lists them"},
    {"--list-devices", Takes::nothing, true, "use 'infer devices'"},
    {"-i --interactive -if --interactive-first -mli --multiline-input", Takes::nothing, true,
     "use 'infer chat'"},
    {"--in-prefix --in-suffix", Takes::value, true,
     "use 'infer chat', with --chat-template for another form of messages"},
    {"--prompt-cache", Takes::value, true,
     "prompts are not saved; the library can save sessions (Session::save)"},
    {"-gan --grp-attn-n -gaw --grp-attn-w", Takes::value, true, "self-extension is not supported"},
    {"--draft --draft-n --draft-max", Takes::value, true, "the flag is --spec N"},
    {"--log-file", Takes::value, true, "redirect stderr: 2> FILE"},
    {"--completion-bash", Takes::nothing, true, "use 'infer completion bash'"},
    {"--hellaswag --winogrande --multiple-choice", Takes::nothing, true,
     "this measurement is not supported"},
    {"--kl-divergence", Takes::nothing, true,
     "use --save-base FILE with one model, and --kl-base FILE with the other"},
    {"--kl-divergence-base", Takes::value, true,
     "use --save-base FILE with one model, and --kl-base FILE with the other"},
};

bool is_switch(std::string_view word) {
  constexpr std::string_view kWords[] = {"on", "off", "auto", "0", "1", "true", "false"};
  return std::ranges::count(kWords, word) > 0;
}

bool loads_models(std::string_view command) {
  constexpr std::string_view kCommands[] = {"run",   "chat",    "eval",  "perplexity", "plan",
                                            "bench", "imatrix", "serve", "embed",      "rerank"};
  return std::ranges::count(kCommands, command) > 0;
}

}  // namespace

bool take_habit(const std::string& command, const std::string& name,
                const std::optional<std::string>& value, std::span<const std::string> words,
                size_t& at) {
  if (!loads_models(command)) return false;
  for (const Habit& habit : kHabits) {
    if (std::ranges::count(parts_of(habit.names, ' '), name) == 0) continue;
    if (!habit.command.empty() && habit.command != command) continue;
    if (habit.refused) usage(fmt::format("{}: {}", name, habit.what));
    if (!value && at < words.size()) {
      if (habit.takes == Takes::value) ++at;
      if (habit.takes == Takes::switch_value && is_switch(words[at])) ++at;
    }
    const bool quiet = std::ranges::any_of(
        words, [](const std::string& word) { return word == "-q" || word == "--quiet"; });
    if (habit.what != nullptr && !quiet) note("{}: {}", name, habit.what);
    return true;
  }
  return false;
}

}  // namespace infer::cli
