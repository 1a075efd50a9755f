// Bytes for people.
#pragma once

#include <cstdint>
#include <string>

namespace infer {

/// "3.21 GiB": for messages.
std::string format_bytes(int64_t bytes);

}  // namespace infer
