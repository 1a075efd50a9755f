// What an architecture is: how to read its hyper-parameters and build its graph. One file each in
// models/; the build lists them (all_architectures).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/status.h"
#include "engine/graph/kv_geometry.h"
#include "engine/model/rope.h"
#include "engine/weights/weight_source.h"

namespace infer {

class CheckpointMap;
class ModelBuilder;

/// What the engine must know of a model apart from its graph.
struct ModelInfo {
  std::string architecture;
  int64_t vocabulary = 0;
  int64_t context = 0;    ///< tokens it was trained for
  int64_t embedding = 0;  ///< width of the residual stream
  int64_t layers = 0;
  std::vector<KvLayerShape> kv_layers;
  std::vector<RopeSpec> ropes;
};

/// One model: hyper-parameters read and checked. Immutable.
class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const { return info_; }
  /// Adds the nodes of one step and marks the logits [vocabulary, 1, outputs] as output. Failures
  /// (a missing tensor, a wrong shape) are kept by the builder.
  virtual void build(ModelBuilder& m) const = 0;

 protected:
  ModelInfo info_;
};

/// An architecture, possibly under several names of `general.architecture`.
struct ArchDef {
  std::span<const char* const> names;
  Result<std::unique_ptr<Model>> (*create)(const WeightSource& source);
  /// Hugging Face's names of the family (`architectures` in config.json), and how their checkpoints
  /// become such a source: checkpoint.h.
  std::span<const char* const> checkpoints = {};
  void (*map)(CheckpointMap& m) = nullptr;
};

/// Generated from the files in models/.
std::span<const ArchDef* const> all_architectures();

/// The architecture that a source's `general.architecture` names. bad_file without that key;
/// unsupported names it and lists the known ones.
Result<const ArchDef*> architecture_of(const WeightSource& source);

/// Reads the model that a source holds. Beside the architecture's own failures those of
/// architecture_of.
Result<std::unique_ptr<Model>> read_model(const WeightSource& source);

}  // namespace infer
