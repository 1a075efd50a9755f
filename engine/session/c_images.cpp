// The C API of images.
#include "engine/session/c_api.h"

using namespace infer::c;

namespace infer::c {

Result<std::vector<infer::ModelImage>> images_of(const infer_image* const* images, size_t count) {
  if (images == nullptr && count > 0) return tl::unexpected(null_argument("images"));
  std::vector<infer::ModelImage> all;
  for (size_t i = 0; i < count; ++i) {
    if (images[i] == nullptr) return tl::unexpected(null_argument("an image"));
    all.push_back(images[i]->image);
  }
  return all;
}

}  // namespace infer::c

int infer_engine_reads_images(const infer_engine* engine) {
  return engine != nullptr && engine->engine->reads_images() ? 1 : 0;
}

infer_status infer_image_read(infer_engine* engine, const void* file, size_t size, const char* name,
                              infer_image** image) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (file == nullptr && size > 0) return null_argument("file");
    if (name == nullptr) return null_argument("name");
    if (image == nullptr) return null_argument("image");
    auto made = std::make_unique<infer_image>();
    INFER_TRY_S(made->image,
                engine->engine->read_image({static_cast<const std::byte*>(file), size}, name));
    *image = made.release();
    return {};
  });
}

void infer_image_free(infer_image* image) { delete image; }

const int32_t* infer_image_tokens(const infer_image* image, size_t* count) {
  if (count != nullptr) *count = image == nullptr ? 0 : image->image.tokens.size();
  return image == nullptr ? nullptr : image->image.tokens.data();
}

const char* infer_engine_image_text(const infer_engine* engine) {
  return engine == nullptr ? "" : engine->engine->image_text().c_str();
}

infer_status infer_tokenize_with_images(infer_engine* engine, const char* text, size_t length,
                                        uint32_t flags, const infer_image* const* images,
                                        size_t image_count, int32_t* tokens, size_t capacity,
                                        size_t* count) {
  return checked([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (text == nullptr && length > 0) return null_argument("text");
    if (count == nullptr) return null_argument("count");
    INFER_TRY_S(const infer::TokenizeOptions options, tokenize_options(flags));
    INFER_TRY_S(const std::vector<infer::ModelImage> all, images_of(images, image_count));
    INFER_TRY_S(const std::vector<int32_t> ids,
                engine->engine->tokenize({text, length}, options, all));
    return write_buffer(std::span(ids), tokens, capacity, count);
  });
}
