// A GPU that compiles and does nothing else: Mesa's driver for AMD opens a device of any family
// that it knows, where RADV_FORCE_FAMILY names one and there is none. Memory and submissions are
// played here, so that whole models can be loaded and evaluated on it. Results are zeros; what
// counts is the code.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

/// What the driver made of a shader.
struct CompiledShader {
  std::string code;                           ///< the processor's instructions, as text
  std::map<std::string, int64_t> statistics;  ///< by the driver's names: "VGPRs", "Spilled VGPRs"
};

/// By name and specialisation constants.
using CompiledShaders = std::map<std::pair<std::string, std::vector<uint32_t>>, CompiledShader>;

/// An instance whose devices are played. Lives until the process ends: the driver's clean-up of
/// such a device crashes. Errors: those of Instance::create.
Result<std::shared_ptr<Instance>> null_instance();

/// All that was compiled since the process began, or since the last forget_shaders().
const CompiledShaders& compiled_shaders();
void forget_shaders();

}  // namespace infer::vulkan
