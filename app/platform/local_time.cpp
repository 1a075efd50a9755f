#include "platform/local_time.h"

namespace infer::platform {

bool local_time(int64_t seconds, std::tm& local) {
  const auto time = static_cast<std::time_t>(seconds);
  return localtime_r(&time, &local) != nullptr;
}

}  // namespace infer::platform
