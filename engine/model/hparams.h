// Reading hyper-parameters: the keys under an architecture's prefix, with defaults and ranges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/params.h"
#include "engine/model/arch.h"
#include "engine/model/bounds.h"

namespace infer {

/// Looks up "<architecture>.<key>". The first failure is kept, later calls return their defaults;
/// status() reports it.
class HparamReader {
 public:
  /// What is read: the model; one of the layers behind it that predict further tokens; or a file of
  /// its own that drafts for a model, and may lack a table of tokens.
  enum class Part : uint8_t { model, head, draft };
  /// `head`: of Part::head, the layer's number among those behind the model, from 0.
  explicit HparamReader(const WeightSource& source, Part part = Part::model, int64_t head = 0);
  Part part() const { return part_; }
  int64_t head() const { return head_; }

  /// The value of general.architecture.
  const std::string& architecture() const { return architecture_; }
  bool has(const std::string& key) const;

  int64_t need_int(const std::string& key, int64_t min, int64_t max);
  int64_t get_int(const std::string& key, int64_t absent, int64_t min, int64_t max);
  double get_float(const std::string& key, double absent);
  bool get_bool(const std::string& key, bool absent);
  std::string get_string(const std::string& key, const std::string& absent);
  /// One value per layer; a single number in the file holds for all.
  std::vector<int64_t> per_layer(const std::string& key, int64_t layers, int64_t absent,
                                 int64_t min, int64_t max);

  /// One number from 0 on per layer, 0 if the key is absent.
  std::vector<float> limits(const std::string& key, int64_t layers);
  /// A flag for each layer, if the key has an array of flags; else nothing.
  std::vector<bool> flags(const std::string& key, int64_t layers);
  /// Which layers have a sliding window, by "attention.sliding_window_pattern": a flag for each
  /// layer, or a number P, where all but every P-th have one. `absent`: the P of files that do not
  /// say.
  std::vector<bool> sliding_layers(int64_t layers, int64_t absent);
  /// What a norm adds to a mean before its root.
  float epsilon(const std::string& key);

  void set_error(Status status);
  const Status& status() const { return status_; }
  const Metadata& metadata() const { return source_.metadata(); }
  const WeightSource& source() const { return source_; }

 private:
  template <typename T>
  T take(Result<std::optional<T>> found, const std::string& key, const T* absent);

  const WeightSource& source_;
  Part part_;
  int64_t head_;
  std::string architecture_;
  std::string prefix_;
  Status status_;
};

/// The hyper-parameters that nearly every decoder has, under their usual keys.
struct DecoderParams {
  int64_t layers = 0;
  int64_t first_layer = 0;  ///< of a draft head: the layers before are those of the model
  int64_t embedding = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;
  int64_t heads = 0;      ///< of the first layer
  int64_t head_dim = 0;   ///< elements of a query and key head
  int64_t value_dim = 0;  ///< elements of a value head
  int64_t experts = 0;
  int64_t experts_used = 0;
  float eps = 1e-5f;                  ///< of RMSNorm
  std::vector<int64_t> layer_heads;   ///< by layer
  std::vector<int64_t> kv_heads;      ///< by layer
  std::vector<int64_t> feed_forward;  ///< by layer
};

/// Reads and checks them; failures are kept by the reader. The vocabulary is that of the token
/// table; 0 for Part::draft. `recurrent`: layers may have no key-value heads.
DecoderParams read_decoder_params(HparamReader& reader, bool recurrent = false);

/// "rope.freq_base": above 1.
double read_rope_base(HparamReader& reader, double absent);

/// The model's (first) RoPE: dimension count (default: the head), base and scaling keys.
RopeSpec read_rope(HparamReader& reader, int64_t head_dim, double default_base = 10000.0);

/// Has the pairs of `spec` turned by axes of their own ("rope.dimension_sections": how many pairs
/// each of three axes turns), where the file says so: the pairs of an axis one after the other, or
/// interleaved with those of the others (Wang et al. 2024; Bai et al. 2025). Texts have the same
/// position on all axes.
void read_axes(HparamReader& reader, RopeSpec& spec, bool interleaved);

/// How experts are chosen: gating, normalising, factor, groups. `absent`: the gating (1 softmax, 2
/// sigmoid, 4 the root of softplus) of files that do not say, `normalise` whether their weights are
/// to sum to one.
op::MoeRoute read_route(HparamReader& reader, const DecoderParams& params, int64_t absent,
                        bool normalise);

/// The index of a weight that may be absent (−1), e.g. rope_freqs.weight.
int32_t weight_index(const WeightSource& source, std::string_view name);

/// The usual ModelInfo of a decoder with one cache layer for each layer that has key-value heads.
ModelInfo decoder_info(const HparamReader& reader, const DecoderParams& params);

}  // namespace infer
