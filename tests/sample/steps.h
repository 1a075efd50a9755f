// Steps of the chain, made one at a time.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/sample/sampler.h"

namespace infer {

/// Steps without effect, except those that the caller sets.
inline SamplingParams no_steps() {
  SamplingParams p;
  p.temperature = 1;
  p.top_p = 1;
  p.min_p = 0;
  return p;
}

/// The step with one setting: step_with(top_k_step, &SamplingParams::top_k, 5).
template <typename Make, typename T>
auto step_with(Make make, T SamplingParams::*field, std::type_identity_t<T> value) {
  SamplingParams p = no_steps();
  p.*field = value;
  return make(p);
}

/// Applies an edit as a sampler does.
inline std::unique_ptr<Sampler> as_sampler(std::unique_ptr<LogitEdit> edit) {
  return edit == nullptr ? nullptr : make_edit_sampler(std::move(edit));
}
inline std::unique_ptr<Sampler> as_sampler(std::unique_ptr<Sampler> sampler) { return sampler; }

/// Applies one step to all candidates, whatever the chain would do; nothing if it is off.
inline void apply_step(Step step, const SamplingParams& p, std::vector<Candidate>& candidates,
                       const SampleContext& context) {
  std::unique_ptr<Sampler> sampler;
  switch (step) {
#define INFER_SAMPLER(name, makes, with_mirostat) \
  case Step::name:                                \
    sampler = as_sampler(name##_step(p));         \
    break;
#include "infer/samplers.def"
  }
  if (sampler != nullptr) sampler->apply(candidates, context);
}

}  // namespace infer
