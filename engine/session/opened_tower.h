// Opens what reads images for a model.
#pragma once

#include "engine/core/status.h"
#include "infer/infer.hpp"

namespace infer {

struct OpenedModel;

/// Opens the tower of LoadOptions::vision for a model that is open and not planned yet, and plans
/// it on the model's devices. Errors: those of open_tower() and read_tower(); bad_file, unsupported
/// if it is no tower for this model; does_not_fit if the options leave an image fewer tokens than
/// it has.
Status open_images(OpenedModel& opened, const LoadOptions& options);

}  // namespace infer
