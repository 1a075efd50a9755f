// Weights of a file that its model does not use.
#pragma once

#include <vector>

#include "engine/core/status.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"

namespace infer {

/// Which weights of the source the model's graph of one row uses, with those of its adapters.
/// Errors: those of build_graph().
Result<std::vector<bool>> weights_in_use(const Model& model, const WeightTable& weights);

/// Fails (bad_file) if the file has layers beyond those that it says to have: it would compute
/// something else than what was trained. Warns of other weights that have no place in the model's
/// graph. Layers that draft and what reads images are not looked at, nor a model whose graph cannot
/// be built. `count`: of the file's own weights, which are the first.
Status check_unused(const Model& model, const WeightTable& weights, size_t count);

}  // namespace infer
