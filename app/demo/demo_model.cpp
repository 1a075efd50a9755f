#include "demo/demo_model.h"

#include <cstddef>
#include <span>

#include "infer/infer.hpp"
#include "platform/embed.h"

// The files as they lie in the repository, aligned as a mapped file is.
INFER_EMBED(infer_demo_model, INFER_DEMO_FOLDER "/infer-demo.gguf", 4096);
INFER_EMBED(infer_demo_draft, INFER_DEMO_FOLDER "/infer-demo-draft.gguf", 4096);

namespace infer::demo {

std::string model_path() {
  return memory_model("infer-demo.gguf",
                      std::as_bytes(std::span(infer_demo_model, infer_demo_model_end)));
}

std::string draft_path() {
  return memory_model("infer-demo-draft.gguf",
                      std::as_bytes(std::span(infer_demo_draft, infer_demo_draft_end)));
}

}  // namespace infer::demo
