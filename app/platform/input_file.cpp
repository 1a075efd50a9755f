#include "platform/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace infer::platform {

InputFile::InputFile(const std::string& path)
    : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      failure_(number_ < 0 ? errno : 0) {
  struct stat info {};
  if (failure_ == 0 && fstat(number_, &info) == 0 && S_ISREG(info.st_mode)) {
    size_ = static_cast<uint64_t>(info.st_size);
  }
}

InputFile::~InputFile() {
  if (number_ >= 0) (void)close(number_);
}

int InputFile::read_at(uint64_t offset, std::span<char> to, size_t& count) const {
  count = 0;
  for (;;) {
    const ssize_t done = pread(number_, to.data(), to.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    count = static_cast<size_t>(done);
    return 0;
  }
}

int InputFile::map(uint64_t offset, size_t size, const std::byte*& bytes) const {
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, number_, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return errno;
  bytes = static_cast<const std::byte*>(address);
  return 0;
}

}  // namespace infer::platform
