#include "engine/session/opened_adapters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/session/engine_impl.h"
#include "engine/session/unused_weights.h"

namespace infer {
namespace {

/// Of "FILE:SCALE": the file, and what its adapter is multiplied with.
struct Named {
  std::string path;
  float scale = 1;
};

Result<Named> adapter_named(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return Named{text};
  Named named{text.substr(0, colon)};
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data() + colon + 1, end, named.scale);
  // A colon may be part of a file's name.
  if (failure == std::errc::invalid_argument || rest != end) return Named{text};
  if (failure == std::errc() && std::isfinite(named.scale)) return named;
  return fail(StatusCode::invalid_argument, "adapter '{}': expected a finite scale after ':'",
              text);
}

}  // namespace

Status open_adapters(OpenedModel& opened, const LoadOptions& options) {
  if (options.adapters.empty()) return {};
  std::vector<std::unique_ptr<WeightSource>> files;
  for (const std::string& text : options.adapters) {
    INFER_TRY_S(const Named named, adapter_named(text));
    INFER_TRY_S(files.emplace_back(), open_adapter(named.path, *opened.source));
    opened.adapter_scales.push_back(named.scale);
  }
  auto adapted = std::make_unique<AdaptedSource>(std::move(opened.source), std::move(files));
  opened.adapted = adapted.get();
  opened.source = std::move(adapted);
  return {};
}

Status use_adapters(OpenedModel& opened) {
  if (opened.adapted == nullptr) return {};
  opened.model->add_adapters(opened.adapted->alphas());
  INFER_TRY_S(const std::vector<bool> used, weights_in_use(*opened.model, *opened.weights));
  size_t weight = opened.base().weights().size();
  for (const auto& adapter : opened.adapted->adapters()) {
    for (const Weight& own : adapter->weights()) {
      if (used[weight++]) continue;
      // What the model itself does not use, such as layers that draft, may have adapters as well.
      const int32_t base = opened.weights->index(own.name.substr(0, own.name.rfind('.')));
      if (!used[static_cast<size_t>(base)]) continue;
      return error(StatusCode::unsupported,
                   "{}: tensor '{}': adapters of this tensor are not supported",
                   adapter->metadata().source(), own.name);
    }
  }
  return {};
}

std::vector<float> Engine::Impl::adapter_factors(std::span<const float> given) const {
  std::vector<float> factors(given.begin(), given.end());
  if (factors.empty()) factors = opened.adapter_scales;
  const auto idle = [](float factor) { return factor == 0; };
  if (std::ranges::all_of(factors, idle)) factors.clear();
  // Of the two zeros one: the cache tells texts apart by these.
  std::ranges::replace_if(factors, idle, 0.0f);
  return factors;
}

std::vector<AdapterDescription> Engine::adapters() const {
  std::vector<AdapterDescription> all;
  const OpenedModel& opened = impl_->opened;
  for (size_t i = 0; i < opened.adapter_scales.size(); ++i) {
    const Metadata& metadata = opened.adapted->adapters()[i]->metadata();
    const auto task = metadata.get_string("adapter.lora.task_name");
    all.push_back(
        {metadata.source(), task.value_or(std::nullopt).value_or(""), opened.adapter_scales[i]});
  }
  return all;
}

}  // namespace infer
