// Building safetensors files byte by byte, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace infer::test {

/// The length and the header as it is given.
inline std::string safetensors_header(const std::string& header) {
  const uint64_t length = header.size();
  std::string out(sizeof(length), '\0');
  std::memcpy(out.data(), &length, sizeof(length));
  return out + header;
}

/// The length, the header as it is given, and data.
inline std::string safetensors_bytes(const std::string& header, size_t data_bytes) {
  std::string out = safetensors_header(header);
  for (size_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 7 + 1);
  return out;
}

/// A file of tensors with given data; each can be replaced or left out.
class RawSafetensors {
 public:
  /// shape as in the file: the last dimension runs fastest.
  RawSafetensors& put(const std::string& name, const std::string& dtype,
                      const std::vector<int64_t>& shape, std::string data) {
    std::string dims;
    for (const int64_t d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    tensors_[name] = {R"({"dtype":")" + dtype + R"(","shape":[)" + dims + "]", std::move(data)};
    return *this;
  }
  template <typename T>
  RawSafetensors& put(const std::string& name, const std::string& dtype,
                      const std::vector<int64_t>& shape, const std::vector<T>& values) {
    std::string data(values.size() * sizeof(T), '\0');
    std::memcpy(data.data(), values.data(), data.size());
    return put(name, dtype, shape, std::move(data));
  }
  /// One dimension.
  RawSafetensors& text(const std::string& name, const std::string& data) {
    return put(name, "U8", {static_cast<int64_t>(data.size())}, data);
  }
  RawSafetensors& leave_out(const std::string& name) {
    tensors_.erase(name);
    return *this;
  }

  std::string bytes() const {
    std::string header;
    std::string data;
    for (const auto& [name, tensor] : tensors_) {
      const size_t begin = data.size();
      data += tensor.second;
      header += (header.empty() ? "\"" : ",\"") + name + "\":" + tensor.first +
                R"(,"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) +
                "]}";
    }
    return safetensors_header("{" + header + "}") + data;
  }

 private:
  std::map<std::string, std::pair<std::string, std::string>> tensors_;
};

}  // namespace infer::test
