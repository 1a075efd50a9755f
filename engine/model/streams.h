// A residual of several streams that are mixed by matrices whose rows and columns sum to 1
// (manifold-constrained hyper-connections: op::StreamGates), as in DeepSeek-V4.
#pragma once

#include <functional>
#include <string>

#include "engine/model/builder.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

namespace infer {

struct Streams {
  op::StreamGates gates;
  float eps = 1e-5f;  ///< of the norm of all streams

  /// What a part takes of the streams, what each of them gets of what it makes, and how they are
  /// mixed.
  struct Part {
    ValueId taken = kNoValue;
    ValueId shares = kNoValue;
    ValueId mix = kNoValue;
  };

  Streams() = default;
  /// Its keys "hyper_connection.*". Failures stay in the reader.
  Streams(HparamReader& reader, const DecoderParams& params);

  /// x [embedding, 1, rows] as each of the streams: [embedding, streams, rows].
  ValueId spread(ModelBuilder& m, ValueId x) const;
  /// Of x [embedding, streams, rows], by the tensors "`name`_fn", "_scale", "_base". `gives`: the
  /// part gives something back; else only what it takes is there.
  Part take(ModelBuilder& m, ValueId x, const std::string& name, bool gives = true) const;
  /// The streams behind a part that has made h [embedding, 1, rows].
  ValueId give(ModelBuilder& m, ValueId x, ValueId h, const Part& part) const;
  /// What a layer's attention or feed-forward makes of its normed input.
  using Block = std::function<ValueId(ValueId x, int64_t layer)>;
  /// All layers of a decoder, from its embeddings on; of the last layer only the rows whose logits
  /// are wanted. The tensors of a layer's streams are "hc_attn_*" and "hc_ffn_*".
  ValueId layers(ModelBuilder& m, const DecoderParams& params, const Block& attend,
                 const Block& feed) const;
  /// The mean of the streams.
  ValueId mean(ModelBuilder& m, ValueId x) const;

 private:
  /// A number for each stream, [streams, 1, rows].
  ValueId constant(ModelBuilder& m, ValueId x, float value) const;
};

/// The keys of a checkpoint's streams, and the tensors of all layers.
void map_streams(CheckpointMap& m);

}  // namespace infer
