// The header of one safetensors file: a length, JSON that names every tensor, then the data.
// The format: huggingface/safetensors, "Format" in its README.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/file.h"
#include "engine/core/tensor_desc.h"

namespace infer::safetensors {

/// The longest header that the format allows.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// How a stored element becomes one of `desc`. Types that GGUF has no number for are given as one
/// that holds all of their values.
enum class Widen : uint8_t {
  none,
  f8_e4m3,  ///< 8 bits, given as F16
  f8_e5m2,
};

/// A stored byte as binary16. The 8-bit floats are those of Micikevicius et al. (2022): E4M3 has no
/// infinities, and its NaN is all ones.
uint16_t widened(Widen widen, std::byte bits);

struct TensorEntry {
  std::string name;
  TensorDesc desc;      ///< shape[0] runs fastest: the reverse of the file's
  uint64_t offset = 0;  ///< bytes from the start of the file; the data lie wholly inside it
  Widen widen = Widen::none;
};

struct Header {
  std::vector<TensorEntry> tensors;  ///< by their place in the file; names are unique
  std::vector<std::pair<std::string, std::string>> metadata;  ///< `__metadata__`
};

/// bad_file or unsupported naming file and tensor, what was expected and what was found. Reads the
/// header only. U8 and BOOL are given as I8, unsigned integers as the signed ones of their size:
/// their bits.
Result<Header> read_header(const File& file);

/// Whether a file begins as one of this format does.
bool looks_like_header(const File& file);

}  // namespace infer::safetensors
