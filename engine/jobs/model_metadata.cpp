#include "engine/jobs/model_metadata.h"

#include "engine/text/pretokenizer.h"
#include "engine/weights/tokenizer_keys.h"

namespace infer {

Result<Metadata> model_metadata(const WeightSource& source) {
  Metadata metadata = source.metadata();
  if (source.tokenizer().tokens.empty() || metadata.has("tokenizer.ggml.tokens")) return metadata;
  TokenizerSpec spec = source.tokenizer();
  if (spec.words) {
    spec.pre = find_name(*spec.words);
    if (!spec.pre.empty()) {
      const bool whole = spec.words->ignore_merges;
      if (find_pretokenizer(spec.pre)->ignore_merges != whole) {
        spec.ignore_merges = whole ? 1 : 0;
      }
      spec.words.reset();
    }
  }
  INFER_CHECK_R(add_tokenizer_keys(spec, metadata));
  return metadata;
}

}  // namespace infer
