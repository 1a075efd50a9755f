// The name of the processor.
#pragma once

#include <istream>
#include <string>

namespace infer::cpu {

/// From the text of /proc/cpuinfo; "CPU" where it gives none. Several kinds of cores, as ARM
/// processors have them, are all named.
std::string processor_name(std::istream& cpuinfo);

}  // namespace infer::cpu
