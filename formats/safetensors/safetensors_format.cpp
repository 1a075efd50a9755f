#include "engine/weights/weight_source.h"
#include "formats/safetensors/source.h"
#include "formats/safetensors/writer.h"

namespace infer {

const FormatDef& safetensors_format();

const FormatDef& safetensors_format() {
  static constexpr FormatDef def{"safetensors", safetensors::recognise, safetensors::open_source,
                                 create_safetensors, safetensors::open_vocabulary};
  return def;
}

}  // namespace infer
