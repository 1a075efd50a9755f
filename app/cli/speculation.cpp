#include "cli/speculation.h"

#include <charconv>

#include "cli/failure.h"

namespace infer::cli {

void declare_speculation(Options options, SpeculationArgs& args) {
  options.group(kSpeculationGroup)
      .add("--spec", "auto|off|N", args.mode,
           "Tokens to draft at a time: auto (as many as are fastest, possibly none), off, or a "
           "number. Without --drafter and -md it uses the drafter 'suffix', and with the built-in "
           "model its draft model");
}

void apply_speculation(const SpeculationArgs& args, ModelArgs& model, GenerateOptions& generate) {
  LoadOptions& load = model.load;
  const bool named = !load.drafters.empty() || !load.draft_model.empty();
  if (args.mode.empty()) {
    if (!named) load.drafters = {"auto"};
    return;
  }
  if (args.mode == "off") {
    load.drafters.clear();
    load.draft_model.clear();
    return;
  }
  if (args.mode != "auto") {
    const char* const end = args.mode.data() + args.mode.size();
    const auto parsed = std::from_chars(args.mode.data(), end, generate.draft_tokens);
    if (parsed.ec != std::errc() || parsed.ptr != end || generate.draft_tokens < 1) {
      usage(fmt::format("--spec: expected auto, off or a number above 0, found '{}'", args.mode));
    }
  }
  if (named) return;
  load.drafters = {"suffix", "auto"};
  if (model.path.empty()) load.drafters.emplace_back("model");
}

Json speculation_json(const SpeculationStatistics& s) {
  if (s.tokens == 0) return nullptr;
  Json places = Json::array();
  for (const SpeculationStatistics::Place& place : s.places) {
    places.push_back({{"reached", place.reached}, {"accepted", place.accepted}});
  }
  Json lengths = Json::array();
  for (const SpeculationStatistics::Length& length : s.lengths) {
    lengths.push_back(
        {{"steps", length.steps}, {"accepted", length.accepted}, {"refused", length.refused}});
  }
  return {{"drafted", s.drafted},
          {"accepted", s.accepted},
          {"tokens", s.tokens},
          {"seconds", s.seconds},
          {"draft_seconds", s.draft_seconds},
          {"plain_seconds", s.plain_seconds},
          {"places", std::move(places)},
          {"lengths", std::move(lengths)}};
}

std::string speculation_summary(const SpeculationStatistics& s) {
  if (s.tokens == 0) return {};
  if (s.drafted == 0) return "; drafted nothing";
  return fmt::format("; drafted {}, accepted {} ({:.0f} %), {:.2f}x", s.drafted, s.accepted,
                     100.0 * static_cast<double>(s.accepted) / static_cast<double>(s.drafted),
                     s.seconds > 0 ? s.plain_seconds / s.seconds : 1.0);
}

}  // namespace infer::cli
