#include "engine/session/opened_model.h"

#include <algorithm>

#include "engine/generate/grammars.h"
#include "engine/model/checkpoint.h"
#include "engine/quant/quant.h"
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

/// What matrices are made while loading: a type that is made quickly.
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

/// The devices of a list "vulkan:0,vulkan:1". The CPU comes first where there is another, for what
/// is not placed there.
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

/// Both plans' options are checked here.
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
  // A sequence may have as many tokens verified in a step as can be proposed for it.
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
  // A draft model is small: what is asked of single tensors is meant for the model.
  if (beside == nullptr) {
    INFER_TRY(request.weight_devices,
              weight_devices(options.placements, opened.source->weights(), opened.devices));
  }
  opened.weights = std::make_unique<WeightTable>(*opened.source);
  return opened;
}

/// Plans, and asks from then on for what was chosen.
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
  return opened;
}

Result<OpenedModels> OpenedModels::open(const std::string& path, const LoadOptions& options,
                                        bool pretend, const OpenDevice& open) {
  OpenedModels models;
  INFER_TRY(models.main, open_one(path, options, pretend, nullptr, open));
  OpenedModel& main = models.main;
  const PlanRequest asked = main.request;
  INFER_CHECK_R(infer::plan(main));
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
    INFER_CHECK_R(infer::plan(*models.draft));
    if (round == 1) break;
    main.request = asked;
    main.request.others = models.draft->planned_bytes();
    INFER_CHECK_R(infer::plan(main));
  }
  return models;
}

}  // namespace infer
