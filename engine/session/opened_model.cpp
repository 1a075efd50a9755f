#include "engine/session/opened_model.h"

#include <algorithm>

#include "engine/core/file.h"
#include "engine/core/log.h"
#include "engine/generate/grammars.h"
#include "engine/model/open_weights.h"
#include "engine/plan/host_bytes.h"
#include "engine/quant/quant.h"
#include "engine/session/check_weights.h"
#include "engine/session/opened_adapters.h"
#include "engine/session/opened_tower.h"
#include "engine/session/option_range.h"
#include "engine/session/placements.h"
#include "engine/session/speculation.h"
#include "engine/session/unused_weights.h"
#include "engine/spec/block_drafter.h"
#include "engine/spec/draft_policy.h"
#include "engine/spec/head_drafter.h"

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

/// Pages for the states after rows of steps with drafts: so many for each session that drafts at
/// the same time, and at most so many of all. Longer drafts, and more sessions, take what is free.
constexpr int64_t kDraftStates = 4;
constexpr int64_t kMostDraftStates = 16;

/// Sessions whose blocks a draft head writes in one step.
constexpr int64_t kMostBlocks = 4;

/// The longest text if none is asked for, in tokens.
constexpr int64_t kLongestText = 8192;

/// Whether the model is to make vectors of texts, and how.
Status choose_embedding(const std::string& path, const LoadOptions& options, OpenedModel& opened) {
  Model& model = *opened.model;
  const ModelInfo& info = model.info();
  const std::optional<Pooling> wanted = pooling_named(options.pooling);
  if (!options.pooling.empty() && !wanted) {
    return error(StatusCode::invalid_argument,
                 "pooling '{}': expected none, mean, cls, last or rank", options.pooling);
  }
  if (!options.embeddings && !info.is_embedding()) return {};
  if (!options.draft_model.empty() || !drafters_of(options, *opened.source).empty()) {
    return error(StatusCode::invalid_argument,
                 "{}: the model makes vectors of texts, so that there is nothing to draft", path);
  }
  if (std::ranges::any_of(info.kv_layers, [](const KvLayerShape& kv) { return kv.state > 0; })) {
    return error(StatusCode::unsupported,
                 "{}: architecture '{}' has recurrent layers, which make no vectors of texts yet",
                 path, info.architecture);
  }
  const Pooling usual = info.causal ? Pooling::last : Pooling::mean;
  const Pooling said = info.is_embedding() ? info.pooling.value_or(usual) : usual;
  model.make_embedding(wanted.value_or(said));
  PlanRequest& request = opened.request;
  request.context = options.context > 0 ? std::min(options.context, info.context)
                                        : std::min(info.context, kLongestText);
  // A text is computed in one step.
  request.max_rows = std::max<int64_t>(request.max_rows, request.context);
  request.max_outputs = request.max_rows;
  request.fewer_rows = options.fewer_rows && options.context == 0;
  return {};
}

/// The layers of the file that draft.
Status open_heads(OpenedModel& opened) {
  INFER_TRY_S(std::vector<std::unique_ptr<Model>> models, read_heads(*opened.source));
  std::vector<int64_t> layers;
  if (models.front()->info().takes_unnormed) layers.push_back(opened.model->info().layers);
  opened.model->return_hidden(roles_of_programs(opened.device_list()).size() > 1,
                              std::move(layers));
  for (std::unique_ptr<Model>& model : models) opened.heads.emplace_back().model = std::move(model);
  return {};
}

/// What drafters with these names keep, and what is known of the head's own file.
void count_drafters(std::span<const std::string> names, const LoadOptions& options,
                    const OpenedModel& opened, PlanRequest& request) {
  request.drafters = drafter_memory(names, options.parallel, opened);
  if (opened.has_head_file()) request.drafters.bytes += model_bytes(*opened.heads.front().source);
}

/// Takes `file` if it holds a head that drafts, which it does if "model" is to draft.
Status open_head_file(OpenedModel& opened, const LoadOptions& options,
                      std::unique_ptr<WeightSource>& file) {
  if (!is_draft_head(*file)) return {};
  const std::vector<std::string> names = drafters_of(options, *opened.source);
  const auto drafts = [&](const char* name) {
    return std::ranges::find(names, name) != names.end();
  };
  const std::string path = file->metadata().source();
  if (!opened.heads.empty() && drafts("model")) {
    return error(StatusCode::invalid_argument,
                 "{}: the draft model and the drafter 'mtp' both draft from hidden states: choose "
                 "one of them",
                 path);
  }
  OpenedModel::Head head;
  head.source = std::make_shared<DraftSource>(*opened.source, std::move(file));
  if (!drafts("model")) return {};
  head.weights = std::make_shared<WeightTable>(*head.source);
  std::vector<int64_t> layers;
  INFER_TRY_S(const ArchDef* arch, architecture_of(*head.source));
  INFER_TRY_S(head.model, arch->draft(*head.source, opened.model->info(), layers));
  opened.model->return_hidden(roles_of_programs(opened.device_list()).size() > 1,
                              std::move(layers));
  OpenedModel::Head behind{head.source, head.weights, head.model->transitions(), {}, {}};
  opened.heads.push_back(std::move(head));
  if (behind.model != nullptr) opened.heads.push_back(std::move(behind));
  count_drafters(names, options, opened, opened.request);
  return {};
}

/// Goes on without the heads, whose memory is counted in `asked`.
void drop_heads(OpenedModel& opened, const LoadOptions& options, PlanRequest& asked) {
  opened.heads.clear();
  opened.model->return_no_hidden();
  std::vector<std::string> names = drafters_of(options, *opened.source);
  std::erase(names, "mtp");
  if (names.empty()) asked.draft_states = 0;
  count_drafters(names, options, opened, asked);
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
  request.grammar_bytes = beside == nullptr && options.grammars ? Grammars::kMostBytes : 0;
  request.memory_limit = options.memory_limit;
  request.sequences = options.parallel;
  request.fewer_rows = options.fewer_rows;
  request.reserve = options.reserve;
  request.pretend = pretend;
  request.offload = options.gpu_layers;
  request.host_experts = options.cpu_experts;
  request.streamed = options.stream_weights && !options.exact;
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
  if (beside == nullptr) INFER_CHECK_R(open_adapters(opened, options));
  INFER_TRY(opened.model, read_model(*opened.source));
  const std::vector<std::string> names =
      beside == nullptr ? drafters_of(options, *opened.source) : std::vector<std::string>();
  if (!names.empty()) {
    request.max_outputs = std::max<int64_t>(request.max_outputs, 1 + kMostDrafted);
    request.draft_states = std::min(kDraftStates * request.sequences, kMostDraftStates);
  }
  request.max_outputs = std::min<int64_t>(request.max_outputs, options.batch_rows);
  INFER_CHECK_R(choose_embedding(path, options, opened));
  INFER_TRY(opened.devices, open_devices(options.device,
                                         {options.threads, options.exact, !request.weights_mapped,
                                          options.isa, beside},
                                         open));
  for (const auto& device : opened.devices) {
    INFER_CHECK_R(device->prepare(opened.source->types()));
  }
  // Placements of single tensors are for the main model, not for its draft model.
  if (beside == nullptr) {
    INFER_TRY(request.weight_devices,
              weight_devices(options.placements, opened.source->weights(), opened.devices));
  }
  opened.weights = std::make_unique<WeightTable>(*opened.source);
  INFER_CHECK_R(check_unused(*opened.model, *opened.weights, opened.base().weights().size()));
  INFER_CHECK_R(use_adapters(opened));
  if (std::ranges::find(names, "mtp") != names.end()) INFER_CHECK_R(open_heads(opened));
  count_drafters(names, options, opened, request);
  return opened;
}

/// Plans, and puts what was chosen into the request.
Status plan(OpenedModel& opened) {
  PlanRequest& request = opened.request;
  INFER_TRY_S(opened.plan,
              plan_memory(*opened.model, *opened.weights, opened.device_list(), request));
  if (opened.model->info().embeds) {
    opened.plan.context = std::min(opened.plan.context, opened.plan.max_rows);
    opened.plan.longest = opened.plan.context;
  }
  request.max_rows = opened.plan.max_rows;
  request.max_outputs = opened.plan.max_outputs;
  request.k_type = opened.plan.k_type;
  request.v_type = opened.plan.v_type;
  return {};
}

/// Plans a head of a model that is planned, as it was asked for.
Status plan_head(OpenedModel& opened, const PlanRequest& asked, OpenedModel::Head& head) {
  PlanRequest request = asked;
  request.context = opened.plan.context;
  // Rows of a step for at least two pairs of each sequence that it drafts for, or for one block.
  request.max_rows = std::clamp<int64_t>(opened.plan.max_rows, 2, HeadDrafter::kMostWaiting);
  request.max_outputs = std::min<int64_t>(16, request.max_rows / 2);
  if (const std::optional<DraftBlock>& block = opened.heads.front().model->info().block) {
    const int64_t together = std::clamp<int64_t>(request.sequences, 1, kMostBlocks);
    request.max_outputs = together * block->rows;
    request.max_rows = std::max(request.max_rows, together * (block->rows + BlockDrafter::kFew));
    if (&head != &opened.heads.front()) request.max_rows = request.max_outputs = together;
  }
  request.fewer_rows = false;
  request.k_type = opened.plan.k_type;
  request.v_type = opened.plan.v_type;
  request.k_auto = request.v_auto = false;
  request.beside = true;
  request.spill = false;
  request.drafters = {};
  request.grammar_bytes = 0;
  request.draft_states = 0;
  request.lender = &opened.plan;
  if (head.model->info().shares_cache) {
    const KvGeometry kv = kv_geometry(
        {opened.model->info().kv_layers, request.k_type, request.v_type}, opened.plan.placement);
    head.model->share_cache(kv.layers);
    request.max_rows = request.max_outputs;  // a row for each sequence
  }
  const WeightTable& weights = opened.weights_of(head);
  if (!request.weight_devices.empty()) {
    request.weight_devices.resize(weights.source().weights().size(), -1);
  }
  INFER_TRY_S(head.plan, plan_memory(*head.model, weights, opened.device_list(), request));
  request.lender = nullptr;
  head.request = std::move(request);
  return {};
}

Status plan_heads(OpenedModel& opened, const PlanRequest& asked) {
  for (OpenedModel::Head& head : opened.heads) INFER_CHECK(plan_head(opened, asked, head));
  return {};
}

/// What is planned for the drafters, by device of the main model.
std::vector<int64_t> draft_bytes(const OpenedModels& models) {
  std::vector<int64_t> bytes(models.main.devices.size(), 0);
  const auto add = [&](const MemoryPlan& plan) {
    for (size_t d = 0; d < std::min(bytes.size(), plan.devices.size()); ++d) {
      bytes[d] += plan.devices[d].total();
    }
  };
  if (models.draft) add(models.draft->plan);
  for (const OpenedModel::Head& head : models.main.heads) add(head.plan);
  if (models.main.tower) add(models.main.tower->plan);
  return bytes;
}

/// OpenedModels::open() without LoadOptions::check_tensors.
Result<OpenedModels> open_all(const std::string& path, const LoadOptions& options, bool pretend,
                              const OpenDevice& open) {
  OpenedModels models;
  INFER_TRY(models.main, open_one(path, options, pretend, nullptr, open));
  OpenedModel& main = models.main;
  bool draft_model = false;
  if (!options.draft_model.empty()) {
    INFER_TRY(const std::optional<DType> matrices, matrix_type(options.quantize));
    INFER_TRY(std::unique_ptr<WeightSource> file, open_weights(options.draft_model, matrices));
    INFER_CHECK_R(open_head_file(main, options, file));
    draft_model = file != nullptr;
  }
  if (!options.vision.empty()) {
    INFER_CHECK_R(open_images(main, options));
    main.request.others = draft_bytes(models);
  }
  PlanRequest asked = main.request;
  INFER_CHECK_R(plan(main));
  if (!draft_model && main.heads.empty()) return models;

  PlanRequest asked_small;
  if (draft_model) {
    LoadOptions small = options;
    small.output_rows = 16;
    small.spill = false;
    INFER_TRY(OpenedModel draft,
              open_one(options.draft_model, small, pretend, main.devices[0].get(), open));
    models.draft = std::make_unique<OpenedModel>(std::move(draft));
    asked_small = models.draft->request;
  }
  // A context for all: first the drafts for the longest that there may be, which is what they take
  // at most, then the model with what that leaves.
  for (int round = 0; round < 2; ++round) {
    if (models.draft) {
      models.draft->request = asked_small;
      models.draft->request.context =
          std::min(main.plan.context, std::max<int64_t>(models.draft->model->info().context, 1));
      INFER_CHECK_R(plan(*models.draft));
    }
    if (!main.heads.empty()) {
      Status planned = plan_heads(main, asked);
      const bool wanted = main.has_head_file() ||
                          std::ranges::find(options.drafters, "mtp") != options.drafters.end();
      if (!planned.ok() && wanted) return tl::unexpected(std::move(planned));
      if (!planned.ok()) {
        log(LogLevel::warning, "continuing without the next-token layers: {}", planned.message());
        drop_heads(main, options, asked);
      }
    }
    if (round == 1) break;
    main.request = asked;
    main.request.others = draft_bytes(models);
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

int64_t OpenedModel::planned(size_t device, Purpose purpose) const {
  int64_t sum = plan.devices[device].of(purpose);
  for (const Head& head : heads) sum += head.plan.devices[device].of(purpose);
  if (tower) sum += tower->plan.devices[device].of(purpose);
  return sum;
}

int64_t OpenedModel::bytes_beside(Purpose purpose) const {
  int64_t sum = tower ? tower->plan.bytes(purpose) : 0;
  for (const Head& head : heads) sum += head.plan.bytes(purpose);
  return sum;
}

int64_t OpenedModel::bytes_beside() const {
  int64_t sum = tower ? tower->plan.total() : 0;
  for (const Head& head : heads) sum += head.plan.total();
  return sum;
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
  if (models.main.has_head_file()) {
    INFER_CHECK_R(check_weights(models.main.heads.front().source->own(), options));
  }
  return models;
}

}  // namespace infer
