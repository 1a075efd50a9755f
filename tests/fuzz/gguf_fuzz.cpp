// libFuzzer: any bytes give a model within its file or a typed error.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "formats/gguf/source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = memfd_create("gguf", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  const auto source = infer::gguf::open_source("/proc/self/fd/" + std::to_string(fd));
  if (source) {
    for (const infer::Weight& weight : (*source)->weights()) {
      const auto bytes = static_cast<uint64_t>(weight.desc.extent_bytes());
      if (bytes > size) std::abort();
      std::vector<std::byte> out(bytes);
      if (!(*source)->read(weight.place, 0, out).ok()) std::abort();
      if (!(*source)->map(weight.place, bytes)) std::abort();
    }
  } else if (source.error().ok() || source.error().message().empty()) {
    std::abort();
  }
  close(fd);
  return 0;
}
