// The processor.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace infer::os {

/// As the system names it; "CPU" if it does not. Several kinds of cores, as ARM processors have
/// them, are all named.
std::string processor_name();
/// The same from the text of /proc/cpuinfo.
std::string processor_name(std::istream& cpuinfo);

/// The processors that this process may use: the affinity mask and the cgroup's quota. At least 1.
int usable_processors();

/// Seconds for which the calling thread has had a processor.
double thread_seconds();

/// Bytes of a core's second-level cache, 0 or less if the system does not say.
int64_t level2_cache_bytes();

/// Asks the system to let this process use the tile registers of an x86 processor, which it does
/// only on request (Linux, Documentation/arch/x86/xstate.rst). False: it does not, or there are
/// none.
bool allow_tiles();

/// What an ARM processor has beyond the baseline. Nothing on others.
struct ArmFeatures {
  bool dotprod = false;
  bool i8mm = false;
};
ArmFeatures arm_features();

}  // namespace infer::os
