// Whether the types of a cache suit the sizes of its heads.
#pragma once

#include "engine/core/status.h"
#include "engine/graph/kv_geometry.h"

namespace infer {

/// Keys and values are whole blocks of their types. unsupported: with the sizes.
Status check_blocks(const KvGeometry& geometry);

}  // namespace infer
