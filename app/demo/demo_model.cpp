#include "demo/demo_model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

// The files as they lie in the repository, aligned as a mapped file is.
#define EMBED(name, file)                     \
  asm(".section .rodata.demo, \"a\"\n"        \
      ".balign 4096\n"                        \
      ".globl " #name "\n" #name              \
      ":\n"                                   \
      ".incbin \"" INFER_DEMO_FOLDER "/" file \
      "\"\n"                                  \
      ".globl " #name "_end\n" #name          \
      "_end:\n"                               \
      ".previous\n")

EMBED(infer_demo_model, "infer-demo.gguf");
EMBED(infer_demo_draft, "infer-demo-draft.gguf");

extern "C" {
extern const std::byte infer_demo_model[], infer_demo_model_end[];
extern const std::byte infer_demo_draft[], infer_demo_draft_end[];
}

namespace infer::demo {
namespace {

Status failure(const char* what) {
  return {StatusCode::io, std::string("the built-in model: ") + what + ": " +
                              std::generic_category().message(errno)};
}

/// A file in memory with these bytes; it stays open.
Result<std::string> file_of(const char* name, std::span<const std::byte> bytes) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return tl::unexpected(failure("no file in memory"));
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const Status status = failure("cannot be written to memory");
      close(fd);
      return tl::unexpected(status);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace

Result<std::string> model_path() {
  static const Result<std::string> path =
      file_of("infer-demo.gguf", {infer_demo_model, infer_demo_model_end});
  return path;
}

Result<std::string> draft_path() {
  static const Result<std::string> path =
      file_of("infer-demo-draft.gguf", {infer_demo_draft, infer_demo_draft_end});
  return path;
}

}  // namespace infer::demo
