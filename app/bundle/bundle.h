// Bundles: this program with a model behind it, in one executable file. `infer bundle` makes them.
//   program | zeros | model, a GGUF file, at a multiple of kAlignment | footer
// The model is mapped where it lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "infer/status.hpp"

namespace infer::bundle {

/// The largest page of Linux on any processor.
inline constexpr int64_t kAlignment = 64 << 10;

/// A file with a model in it. Sizes and offsets in bytes.
struct Bundle {
  std::string file;     ///< its path
  std::string name;     ///< of the model's file when it was put in
  int64_t program = 0;  ///< size of the program, which is at 0
  int64_t offset = 0;   ///< of the model
  int64_t size = 0;     ///< of the model
  std::string sha256;   ///< of the model, in hexadecimal digits
};

/// The bundle that a file is; nothing if it is none or cannot be read. bad_file: it was one, and
/// its end is damaged or missing.
Result<std::optional<Bundle>> find(const std::string& file);

/// The last bytes of such a file.
std::string footer_of(const Bundle& bundle);

/// Maps the model and gives it a path for the library, as long as the process lives. io.
Result<std::string> model_path(const Bundle& bundle);

/// The path of the model in the program that runs; empty if it is no bundle. Errors: those of the
/// two functions above.
Result<std::string> own_model();

/// The bundle's file of a path that model_path() gave; any other path as it is.
std::string file_of(const std::string& model);

}  // namespace infer::bundle
