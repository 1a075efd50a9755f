// Building safetensors files byte by byte, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace infer::test {

/// The length, the header as it is given, and data.
inline std::string safetensors_bytes(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string out(sizeof(length), '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  out += header;
  for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 7 + 1);
  return out;
}

}  // namespace infer::test
