#include "engine/session/opened_tower.h"

#include <algorithm>

#include "engine/session/opened_model.h"

namespace infer {
namespace {

/// The options let an image have fewer tokens than it has at least.
Status too_few_tokens(const LoadOptions& options, int64_t least) {
  if (options.image_tokens > 0 && options.image_tokens < least) {
    return error(StatusCode::does_not_fit, "{}: image_tokens: expected at least {}, found {}",
                 options.vision, least, options.image_tokens);
  }
  return error(
      StatusCode::does_not_fit,
      "{}: batch_rows: expected at least {}, for an image in one step beside {} sequences, "
      "found {}",
      options.vision, least + options.parallel, options.parallel, options.batch_rows);
}

}  // namespace

Status open_images(OpenedModel& opened, const LoadOptions& options) {
  const ModelInfo& info = opened.model->info();
  auto made = std::make_shared<OpenedTower>();
  INFER_TRY_S(made->source, open_tower(options.vision));
  INFER_TRY_S(made->tower, read_tower(*made->source));
  const TowerInfo& tower = made->tower->tower();
  if (info.embeds) {
    return error(StatusCode::unsupported,
                 "{}: the model makes vectors of texts, which have no images", options.vision);
  }
  if (tower.width != info.embedding) {
    return error(StatusCode::bad_file,
                 "{}: clip.vision.projection_dim: expected {}, the width of the model, found {}",
                 options.vision, info.embedding, tower.width);
  }
  if (tower.parts > info.layers) {
    return error(StatusCode::bad_file,
                 "{}: clip.vision.is_deepstack_layers: expected fewer layers than the {} of the "
                 "model, found {}",
                 options.vision, info.layers, tower.parts - 1);
  }
  if (info.image_layers >= 0 && tower.parts - 1 != info.image_layers) {
    return error(StatusCode::bad_file,
                 "{}: clip.vision.is_deepstack_layers: expected {} layers, as the model says, "
                 "found {}",
                 options.vision, info.image_layers, tower.parts - 1);
  }
  opened.model->take_images(tower.parts - 1);
  made->weights = std::make_unique<WeightTable>(*made->source);
  made->most_rows = options.image_tokens > 0 ? options.image_tokens : tower.usual_results;
  if (info.sight != ImageSight::causal) {
    // An image is computed in one step, beside other sessions.
    made->most_rows = std::min<int64_t>(made->most_rows, options.batch_rows - options.parallel);
    opened.request.fewer_rows = false;
  }
  if (made->most_rows < tower.least_results) {
    return too_few_tokens(options, tower.least_results);
  }
  PlanRequest& request = made->request;
  request = opened.request;
  const int64_t results = tower.picture_results > 0 ? tower.picture_results : made->most_rows;
  request.max_outputs = made->tower->most_outputs(results);
  request.max_rows = made->tower->most_patches(results);
  request.context = request.max_rows;
  request.sequences = 1;
  request.fewer_rows = request.k_auto = request.v_auto = request.spill = request.streamed = false;
  request.beside = true;
  request.weight_devices.clear();
  request.drafters = {};
  request.grammar_bytes = 0;
  request.draft_states = 0;
  if (request.offload > 0) request.offload = -1;
  request.host_experts = -1;
  request.image_bytes = made->kept_bytes();
  for (Device* device : opened.device_list()) {
    INFER_CHECK(device->prepare(made->source->types()));
  }
  INFER_TRY_S(made->plan, plan_memory(*made->tower, *made->weights, opened.device_list(), request));
  opened.tower = std::move(made);
  return {};
}

}  // namespace infer
