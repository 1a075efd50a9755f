// Opens LoRA adapters together with the model that they are for.
#pragma once

#include "engine/session/opened_model.h"

namespace infer {

/// Opens the files of LoadOptions::adapters, if there are any, and puts them beside the model's
/// weights. Before the model is read. Errors: invalid_argument for a scale that is no number; those
/// of open_adapter().
Status open_adapters(OpenedModel& opened, const LoadOptions& options);

/// After the model has been read: its steps may have the adapters. unsupported, naming the tensor,
/// if an adapter changes what the engine does not let adapters change.
Status use_adapters(OpenedModel& opened);

}  // namespace infer
