// GGUF files put together byte by byte, right or wrong, without the project's writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace infer::test {

/// The bytes of numbers and strings, little-endian.
struct Bytes {
  std::string data;

  template <typename T>
  Bytes& number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    data.append(raw, sizeof(T));
    return *this;
  }
  Bytes& u32(uint32_t value) { return number(value); }
  Bytes& u64(uint64_t value) { return number(value); }
  Bytes& text(std::string_view value) {
    u64(value.size());
    data += value;
    return *this;
  }
};

struct RawTensor {
  std::string name;
  std::vector<uint64_t> shape;
  uint32_t type = 0;
  uint64_t offset = 0;
};

/// A file as its parts say; counts are right unless set.
struct RawGguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> keys;  ///< each with its key, type and value
  std::vector<RawTensor> tensors;
  uint64_t alignment = 32;
  uint64_t data_bytes = 0;
  int64_t key_count = -1;
  int64_t tensor_count = -1;

  RawGguf& value(std::string_view key, uint32_t type, const Bytes& payload) {
    keys.push_back(Bytes().text(key).u32(type).data + payload.data);
    return *this;
  }
  RawGguf& u32(std::string_view key, uint32_t v) { return value(key, 4, Bytes().u32(v)); }
  RawGguf& text(std::string_view key, std::string_view v) { return value(key, 8, Bytes().text(v)); }
  RawGguf& tensor(std::string name, std::vector<uint64_t> shape, uint32_t type, uint64_t offset) {
    tensors.push_back({std::move(name), std::move(shape), type, offset});
    return *this;
  }

  /// Everything before the data, unpadded.
  std::string header() const {
    Bytes out;
    out.data = magic;
    out.u32(version);
    out.u64(tensor_count < 0 ? tensors.size() : static_cast<uint64_t>(tensor_count));
    out.u64(key_count < 0 ? keys.size() : static_cast<uint64_t>(key_count));
    for (const std::string& key : keys) out.data += key;
    for (const RawTensor& t : tensors) {
      out.text(t.name).u32(static_cast<uint32_t>(t.shape.size()));
      for (const uint64_t size : t.shape) out.u64(size);
      out.u32(t.type).u64(t.offset);
    }
    return out.data;
  }

  std::string bytes() const {
    std::string out = header();
    if (data_bytes > 0) out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    for (uint64_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i * 7 + 1);
    return out;
  }
};

}  // namespace infer::test
