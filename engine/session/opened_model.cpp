#include "engine/session/opened_model.h"

#include <algorithm>
#include <cmath>

#include "engine/core/file.h"
#include "engine/core/thread_pool.h"
#include "engine/generate/grammars.h"
#include "engine/model/open_weights.h"
#include "engine/quant/quant.h"
#include "engine/session/guarded.h"
#include "engine/session/option_range.h"
#include "engine/session/placements.h"
#include "engine/session/speculation.h"
#include "engine/spec/draft_policy.h"

namespace infer {
namespace {

Result<DType> cache_type(const std::string& name) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    if (dtype_from_name(name) == type) return type;
  }
  return fail(StatusCode::invalid_argument,
              "cache type '{}': expected auto, f32, f16, bf16, q8_0 or q4_0", name);
}

/// The type that matrices are quantised to while loading, by its name. Nothing if there is no name.
Result<std::optional<DType>> matrix_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  std::string names;
  for (const DTypeInfo& info : all_dtypes()) {
    const bool activations = info.type == DType::q8_1 || info.type == DType::q8_k;
    if (!is_quantised(info.type) || activations || quant_traits(info.type).encode == nullptr) {
      continue;
    }
    if (dtype_from_name(name) == info.type) return info.type;
    names += (names.empty() ? "" : ", ") + std::string(info.ident);
  }
  return fail(StatusCode::invalid_argument, "type to quantise to '{}': expected one of {}", name,
              names);
}

/// The devices of a list "vulkan:0,vulkan:1". If one is not the CPU, the CPU comes first, for what
/// is not placed on the others.
Result<std::vector<std::unique_ptr<Device>>> open_devices(const std::string& names,
                                                          const DeviceOptions& options,
                                                          const OpenDevice& open) {
  std::vector<std::string> others;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (name.empty()) {
      return fail(StatusCode::invalid_argument,
                  "device '{}': expected names separated by commas, such as vulkan:0,vulkan:1",
                  names);
    }
    if (name != "cpu" && name != "cpu:0") others.push_back(name);
    begin = end + 1;
  }
  std::vector<std::unique_ptr<Device>> devices;
  INFER_TRY(devices.emplace_back(), open("cpu", options));
  for (const std::string& name : others) {
    INFER_TRY(devices.emplace_back(), open(name, options));
  }
  return devices;
}

/// Checks the options of a model or a draft model, and opens it.
Result<OpenedModel> open_one(const std::string& path, const LoadOptions& options, bool pretend,
                             Device* beside, const OpenDevice& open) {
  OpenedModel opened;
  PlanRequest& request = opened.request;
#define INFER_LOAD_NUMBER(type, name, preset, low, high, ...) \
  INFER_CHECK_R(check_option(#name, options.name, low, high));
#include "infer/load_options.def"
  request.context = options.context;
  request.max_rows = options.batch_rows;
  request.max_outputs = options.output_rows;
  // One step can verify as many tokens of a sequence as a drafter can propose.
  if (!drafters_of(options).empty() && beside == nullptr) {
    request.max_outputs = std::max<int64_t>(request.max_outputs, 1 + kMostDrafted);
  }
  request.max_outputs = std::min<int64_t>(request.max_outputs, options.batch_rows);
  if (beside == nullptr) {
    const DrafterMemory drafters = drafter_memory(drafters_of(options), options.parallel);
    request.drafter_bytes = drafters.bytes;
    request.drafter_token_bytes = drafters.token_bytes;
    request.grammar_bytes = options.grammars ? Grammars::kMostBytes : 0;
  }
  request.memory_limit = options.memory_limit;
  request.sequences = options.parallel;
  request.fewer_rows = options.fewer_rows;
  request.reserve = options.reserve;
  request.pretend = pretend;
  request.offload = options.gpu_layers;
  request.host_experts = options.cpu_experts;
  request.beside = beside != nullptr;
  request.weights_mapped = options.mmap || options.spill;
  request.spill = options.spill;
  request.in_memory = is_memory_path(path);
  request.k_auto = options.cache_type_k == "auto";
  request.v_auto = options.cache_type_v == "auto";
  INFER_TRY(request.k_type, cache_type(request.k_auto ? "f16" : options.cache_type_k));
  INFER_TRY(request.v_type, cache_type(request.v_auto ? "f16" : options.cache_type_v));

  opened.exact = options.exact;

  INFER_TRY(const std::optional<DType> matrices, matrix_type(options.quantize));
  INFER_TRY(opened.source, open_weights(path, matrices));
  INFER_TRY(opened.model, read_model(*opened.source));
  INFER_TRY(opened.devices, open_devices(options.device,
                                         {options.threads, options.exact, !request.weights_mapped,
                                          options.isa, beside},
                                         open));
  // Placements of single tensors are for the main model, not for its draft model.
  if (beside == nullptr) {
    INFER_TRY(request.weight_devices,
              weight_devices(options.placements, opened.source->weights(), opened.devices));
  }
  opened.weights = std::make_unique<WeightTable>(*opened.source);
  return opened;
}

/// The first element of a tensor that is NaN or infinite.
struct BadElement {
  int64_t index = INT64_MAX;
  float value = 0;
};

/// Looks at the blocks [begin, end) of a weight and keeps the first bad element.
Status find_bad(const WeightSource& source, const Weight& weight, Range blocks, BadElement& bad) {
  const DTypeInfo& type = dtype_info(weight.desc.type);
  const int64_t most = std::max<int64_t>(1, (64 << 10) / type.block_elements);
  std::vector<std::byte> stored(static_cast<size_t>(most * type.block_bytes));
  std::vector<float> values(static_cast<size_t>(most * type.block_elements));
  for (int64_t first = blocks.begin; first < blocks.end; first += most) {
    const int64_t count = std::min(most, blocks.end - first);
    const std::span bytes = std::span(stored).first(static_cast<size_t>(count * type.block_bytes));
    const std::span numbers =
        std::span(values).first(static_cast<size_t>(count * type.block_elements));
    INFER_CHECK(source.read(weight.place, static_cast<uint64_t>(first * type.block_bytes), bytes));
    quant_traits(type.type).decode(stored.data(), values.data(), count * type.block_elements);
    const auto at = std::ranges::find_if(numbers, [](float v) { return !std::isfinite(v); });
    if (at == numbers.end()) continue;
    bad = {first * type.block_elements + (at - numbers.begin()), *at};
    return {};
  }
  return {};
}

/// What LoadOptions::check_tensors asks for.
Status check_weights(const WeightSource& source, const LoadOptions& options) {
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  for (const Weight& weight : source.weights()) {
    Status stopped;
    if (options.progress && !call_back(stopped, [&] { return options.progress(0); })) {
      INFER_CHECK(stopped);
      return error(StatusCode::cancelled, "{}: loading was cancelled", source.metadata().source());
    }
    const int64_t blocks = weight.desc.elements() / dtype_info(weight.desc.type).block_elements;
    std::vector<BadElement> bad(static_cast<size_t>(pool.size()));
    std::vector<Status> statuses(bad.size());
    pool.run([&](int thread) {
      const auto t = static_cast<size_t>(thread);
      statuses[t] = find_bad(source, weight, split_range(blocks, thread, pool.size()), bad[t]);
    });
    for (const Status& status : statuses) INFER_CHECK(status);
    const BadElement& first = *std::ranges::min_element(bad, {}, &BadElement::index);
    if (first.index == INT64_MAX) continue;
    return error(StatusCode::bad_file,
                 "{}: tensor '{}': expected finite numbers, found {} in column {} of row {}",
                 source.metadata().source(), weight.name,
                 std::isnan(first.value) ? "NaN" : "infinity", first.index % weight.desc.shape[0],
                 first.index / weight.desc.shape[0]);
  }
  return {};
}

/// Plans, and puts what was chosen into the request.
Status plan(OpenedModel& opened) {
  PlanRequest& request = opened.request;
  INFER_TRY_S(opened.plan,
              plan_memory(*opened.model, *opened.weights, opened.device_list(), request));
  request.max_rows = opened.plan.max_rows;
  request.max_outputs = opened.plan.max_outputs;
  request.k_type = opened.plan.k_type;
  request.v_type = opened.plan.v_type;
  return {};
}

/// OpenedModels::open() without LoadOptions::check_tensors.
Result<OpenedModels> open_all(const std::string& path, const LoadOptions& options, bool pretend,
                              const OpenDevice& open) {
  OpenedModels models;
  INFER_TRY(models.main, open_one(path, options, pretend, nullptr, open));
  OpenedModel& main = models.main;
  const PlanRequest asked = main.request;
  INFER_CHECK_R(plan(main));
  if (options.draft_model.empty()) return models;

  LoadOptions small = options;
  small.output_rows = 16;
  small.spill = false;
  INFER_TRY(OpenedModel draft,
            open_one(options.draft_model, small, pretend, main.devices[0].get(), open));
  models.draft = std::make_unique<OpenedModel>(std::move(draft));
  const PlanRequest asked_small = models.draft->request;
  // A context for both: first the draft for the longest that there may be, which is what it takes
  // at most, then the model with what that leaves.
  for (int round = 0; round < 2; ++round) {
    models.draft->request = asked_small;
    models.draft->request.context =
        std::min(main.plan.context, std::max<int64_t>(models.draft->model->info().context, 1));
    INFER_CHECK_R(plan(*models.draft));
    if (round == 1) break;
    main.request = asked;
    main.request.others = models.draft->planned_bytes();
    INFER_CHECK_R(plan(main));
  }
  return models;
}

}  // namespace

std::vector<Device*> OpenedModel::device_list() const {
  std::vector<Device*> list;
  for (const std::unique_ptr<Device>& device : devices) list.push_back(device.get());
  return list;
}

std::vector<int64_t> OpenedModel::planned_bytes() const {
  std::vector<int64_t> bytes;
  for (const DevicePlan& device : plan.devices) bytes.push_back(device.total());
  return bytes;
}

Result<OpenedModel> OpenedModel::open(const std::string& path, const LoadOptions& options,
                                      bool pretend, bool observed) {
  INFER_TRY(OpenedModel opened, open_one(path, options, pretend, nullptr, open_device));
  opened.request.observed = observed;
  INFER_CHECK_R(infer::plan(opened));
  if (options.check_tensors && !pretend) INFER_CHECK_R(check_weights(*opened.source, options));
  return opened;
}

Result<OpenedModels> OpenedModels::open(const std::string& path, const LoadOptions& options,
                                        bool pretend, const OpenDevice& open) {
  INFER_TRY(OpenedModels models, open_all(path, options, pretend, open));
  if (!options.check_tensors || pretend) return models;
  INFER_CHECK_R(check_weights(*models.main.source, options));
  if (models.draft) INFER_CHECK_R(check_weights(*models.draft->source, options));
  return models;
}

}  // namespace infer
