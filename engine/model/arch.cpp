#include "engine/model/arch.h"

#include <algorithm>
#include <utility>

#include "engine/core/file.h"
#include "engine/model/hparams.h"

namespace infer {
namespace {

constexpr const char* kPoolings[] = {"none", "mean", "cls", "last", "rank"};

}  // namespace

const char* pooling_name(Pooling pooling) { return kPoolings[static_cast<size_t>(pooling)]; }

std::optional<Pooling> pooling_named(std::string_view name) {
  const auto found = std::ranges::find(kPoolings, name);
  if (found == std::end(kPoolings)) return std::nullopt;
  return static_cast<Pooling>(found - std::begin(kPoolings));
}

void Model::make_embedding(Pooling pooling) { info_.embeds = pooling; }

void Model::return_hidden(bool apart, std::vector<int64_t> layers) {
  info_.returns_hidden = true;
  info_.hidden_apart = apart;
  info_.hidden_layers = std::move(layers);
}

void Model::return_no_hidden() {
  info_.returns_hidden = info_.hidden_apart = false;
  info_.hidden_layers.clear();
}

void Model::take_images(int64_t layers) {
  info_.takes_images.assign(static_cast<size_t>(layers) + 1, info_.embedding);
}

Result<const ArchDef*> architecture_of(const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  INFER_TRY(const std::optional<std::string> name, metadata.get_string("general.architecture"));
  if (!name) {
    return fail(StatusCode::bad_file, "{}: key 'general.architecture' is missing",
                metadata.source());
  }
  std::string known;
  for (const ArchDef* arch : all_architectures()) {
    for (const char* candidate : arch->names) {
      if (*name == candidate) return arch;
      known += (known.empty() ? "" : ", ") + std::string(candidate);
    }
  }
  return fail(StatusCode::unsupported, "{}: architecture '{}' is not supported; supported: {}",
              metadata.source(), printable(*name), known);
}

Result<std::unique_ptr<Model>> read_model(const WeightSource& source) {
  INFER_TRY(const ArchDef* arch, architecture_of(source));
  if (arch->draft != nullptr) {
    return fail(StatusCode::unsupported,
                "{}: the file holds no model, but a head that drafts for one: give it as the draft "
                "model of the model that it was made for",
                source.metadata().source());
  }
  INFER_TRY(std::unique_ptr<Model> model, arch->create(source));
  HparamReader r(source);
  ModelInfo& info = model->info_;
  info.causal = r.get_bool("attention.causal", info.causal);
  const auto pooling = [&](const char* key, Pooling first, Pooling last) {
    return static_cast<Pooling>(
        r.get_int(key, 0, static_cast<int64_t>(first), static_cast<int64_t>(last)));
  };
  if (r.has("pooling_type")) info.pooling = pooling("pooling_type", Pooling::none, Pooling::rank);
  info.vector = info.embedding;
  for (const char* dense : {"dense_2.weight", "dense_3.weight"}) {
    const Weight* const weight = source.find(dense);
    if (weight != nullptr) info.vector = weight->desc.shape[1];
  }
  if (info.causal) info.rank_pooling = Pooling::last;
  INFER_TRY(const std::vector<std::string>* labels,
            source.metadata().get_strings(info.architecture + ".classifier.output_labels"));
  info.answers_yes_or_no = labels != nullptr && *labels == std::vector<std::string>{"yes", "no"};
  if (r.has("classifier.pooling_type")) {
    info.rank_pooling = pooling("classifier.pooling_type", Pooling::mean, Pooling::last);
  }
  INFER_CHECK_R(r.status());
  return model;
}

namespace {

bool holds_head(const WeightSource& source, int64_t block) {
  const std::string prefix = fmt::format("blk.{}.nextn.", block);
  return std::ranges::any_of(source.weights(),
                             [&](const Weight& weight) { return weight.name.starts_with(prefix); });
}

}  // namespace

int64_t head_layers(const WeightSource& source) {
  const Result<const ArchDef*> arch = architecture_of(source);
  if (!arch || (*arch)->head == nullptr) return 0;
  HparamReader r(source);
  const int64_t blocks = r.get_int("block_count", 1, 1, INT32_MAX);
  const int64_t layers = r.get_int("nextn_predict_layers", 0, 0, blocks - 1);
  if (!r.status().ok() || layers == 0) return 0;
  return holds_head(source, blocks - layers) ? layers : 0;
}

Result<std::vector<std::unique_ptr<Model>>> read_heads(const WeightSource& source) {
  INFER_TRY(const ArchDef* arch, architecture_of(source));
  const int64_t layers = head_layers(source);
  if (layers == 0) {
    return fail(StatusCode::unsupported,
                "{}: the file has no next-token layers that could draft (key "
                "'nextn_predict_layers', tensors 'nextn')",
                source.metadata().source());
  }
  HparamReader r(source);
  const int64_t first = r.get_int("block_count", layers, layers, INT32_MAX) - layers;
  std::vector<std::unique_ptr<Model>> heads;
  for (int64_t i = 0; i < std::min(layers, kMostNextLayers) && holds_head(source, first + i); ++i) {
    INFER_TRY(heads.emplace_back(), arch->head(source, i));
    if (i > 0) heads[static_cast<size_t>(i - 1)]->return_hidden(false);
  }
  return heads;
}

bool is_draft_head(const WeightSource& source) {
  const Result<const ArchDef*> arch = architecture_of(source);
  return arch && (*arch)->draft != nullptr;
}

}  // namespace infer
