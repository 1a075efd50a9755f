// Images in the messages of a conversation.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infer/infer.hpp"

namespace infer::chat {

/// A part of a message's content that is an image: {"type": "image_url", "image_url": {"url": …}}
/// with the file in a data URI.
nlohmann::ordered_json image_part(std::string_view file);

/// The largest file of an image that is read, in bytes.
inline constexpr size_t kMostImageBytes = size_t{64} << 20;

/// The content of a message with this text: parts, if the text names images (image_marks()); else
/// the text. not_found or io: a file cannot be read; bad_file: it has more than kMostImageBytes.
Result<nlohmann::ordered_json> content_of(const std::string& text);

/// The bytes that a text in base64 stands for, with or without padding at its end. False if it is
/// none.
bool decode_base64(std::string_view text, std::string& bytes);
std::string encode_base64(std::string_view bytes);

/// The file of an image in a data URI: data:image/png;base64,… False if the address is none.
bool decode_image(std::string_view address, std::string& file);

/// Takes the files of images from the contents of messages, in their order. What is left of each is
/// {"type": "image"}, which is what chat templates know. invalid_argument, with the number of the
/// message, from 0: an image that is not in a data URI of base64.
Result<std::vector<std::string>> take_images(nlohmann::ordered_json& messages);

/// Reads the images that messages hold for a model, and keeps them for the messages' next
/// rendering.
class MessageImages {
 public:
  /// As take_images(); errors also those of Engine::read_image().
  Result<std::vector<ModelImage>> read(Engine& engine, nlohmann::ordered_json& messages);

 private:
  struct Known {
    std::string file;
    ModelImage image;
  };
  std::vector<Known> known_;  ///< those of the last call
};

/// The text of a conversation as render_conversation() makes it, with a place for each of `count`
/// images. Where the template shows no images, they stand before their message's text.
Result<std::string> render_with_images(const Engine& engine, const ChatTemplate& chat_template,
                                       nlohmann::ordered_json variables, size_t count);

/// Where the image begins that `place` is inside of, of a prompt with these images; else `place`.
size_t begin_of_image(std::span<const int32_t> prompt, std::span<const ModelImage> images,
                      size_t place);

/// Those of the images whose tokens are in a part of a prompt, in its order.
std::vector<ModelImage> images_in(std::span<const int32_t> tokens,
                                  std::span<const ModelImage> images);

}  // namespace infer::chat
