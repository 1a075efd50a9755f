// libFuzzer: any bytes as weights or as the JSON beside them give what lies within the file or a
// typed error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "formats/safetensors/json_file.h"
#include "formats/safetensors/source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = memfd_create("safetensors", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const auto source = infer::safetensors::open_source(path);
  if (source) {
    for (const infer::Weight& weight : (*source)->weights()) {
      const auto bytes = static_cast<uint64_t>(weight.desc.extent_bytes());
      // Of NF4 whose rows are no whole blocks every 4 bits are given as 32.
      if (bytes > 8 * size) std::abort();
      std::vector<std::byte> out(bytes);
      if (!(*source)->read(weight.place, 0, out).ok()) std::abort();
      const auto mapped = (*source)->map(weight.place, bytes);
      if (!mapped && mapped.error().code() != infer::StatusCode::unsupported) std::abort();
    }
  } else if (source.error().ok() || source.error().message().empty()) {
    std::abort();
  }
  infer::Metadata values(path);
  const infer::Status status = infer::safetensors::read_json_file(path, "hf.config.", values);
  if (!status.ok() && status.message().empty()) std::abort();
  close(fd);
  return 0;
}
