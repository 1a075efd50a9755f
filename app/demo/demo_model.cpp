#include "demo/demo_model.h"

#include <cstddef>
#include <span>

#include "infer/infer.hpp"

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

std::string model_path() {
  return memory_model("infer-demo.gguf", {infer_demo_model, infer_demo_model_end});
}

std::string draft_path() {
  return memory_model("infer-demo-draft.gguf", {infer_demo_draft, infer_demo_draft_end});
}

}  // namespace infer::demo
