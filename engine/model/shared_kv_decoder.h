// The decoder of Gemma 3n and 4: norms of every q and k head, and without weights of every v head;
// scores are not scaled; layers with a sliding window have heads and RoPE of their own; the last
// layers may attend to what earlier ones have stored; every layer may take a small embedding of the
// token itself.
#pragma once

#include <vector>

#include "engine/model/decoder.h"

namespace infer {

/// "layer_output_scale" of a layer of Gemma 4: one number, which is a part of the graph. 1 if the
/// file has none. Failures stay in the reader.
float read_output_scale(HparamReader& reader, int64_t layer);

class SharedKvDecoder : public DecoderModel {
 public:
  /// What files of a family leave out.
  struct Absent {
    int64_t period = 6;  ///< of the layers that see everything
    int64_t shared = 0;  ///< layers without keys and values of their own
  };

  /// Reads the usual keys and those of what this adds. Failures stay in the reader.
  SharedKvDecoder(HparamReader& reader, const Absent& absent);

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override;

 protected:
  /// What the layers take of the token, for all of them: [token_width_ · layers, 1, rows]. kNoValue
  /// if there is none. x: the embedding.
  ValueId token_inputs(ModelBuilder& m, ValueId x) const;

  int64_t token_width_ = 0;  ///< of the embedding that a layer takes; 0: none

 private:
  struct Layer {
    int64_t head = 0;  ///< elements of a query, key or value head
    int64_t kv_heads = 0;
    int64_t source = 0;  ///< the layer whose keys and values it attends to
    int32_t window = 0;
    int32_t rope = 0;
  };

  void read_layers(HparamReader& reader, const Absent& absent);

  std::vector<Layer> layers_;
};

}  // namespace infer
