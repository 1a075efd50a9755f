// Images in the messages of conversations.
#include <doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "chat/conversation.h"
#include "chat/image_marks.h"
#include "chat/images.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::chat;
using namespace infer::test;

namespace {

constexpr const char* kShown = "<|vision_start|><|image_pad|><|vision_end|>";

std::unique_ptr<Engine> load_seeing() {
  LoadOptions options;
  options.threads = 1;
  options.context = 256;
  options.vision = data_path("vision/tiny-mmproj.gguf");
  auto engine = Engine::load(data_path("vision/tiny.gguf"), options);
  REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
  return *std::move(engine);
}

std::string png(const char* name) { return read_text(data_path(std::string("vision/") + name)); }

Json message(Json content) { return {{"role", "user"}, {"content", std::move(content)}}; }
Json text_part(const char* text) { return {{"type", "text"}, {"text", text}}; }
Json address(Json url) { return {{"type", "image_url"}, {"image_url", {{"url", std::move(url)}}}}; }

GenerateOptions likeliest(int32_t tokens) {
  GenerateOptions options;
  options.max_tokens = tokens;
  options.sampling.temperature = 0;
  return options;
}

}  // namespace

TEST_CASE("base64 of RFC 4648's examples, with padding and without") {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    CHECK(encode_base64(bytes) == text);
    std::string decoded = "before";
    CHECK(decode_base64(text, decoded));
    CHECK(decoded == bytes);
    std::string bare = text;
    while (bare.ends_with('=')) bare.pop_back();
    CHECK(decode_base64(bare, decoded));
    CHECK(decoded == bytes);
  }
}

TEST_CASE("base64 gives back all bytes of any length") {
  std::mt19937 random(1);
  for (size_t length = 0; length < 300; ++length) {
    std::string bytes;
    for (size_t i = 0; i < length; ++i) bytes += static_cast<char>(random());
    const std::string text = encode_base64(bytes);
    REQUIRE(text.size() == (length + 2) / 3 * 4);
    std::string decoded;
    REQUIRE(decode_base64(text, decoded));
    REQUIRE(decoded == bytes);
    std::string lines;
    for (size_t i = 0; i < text.size(); i += 76) lines += text.substr(i, 76) + "\r\n";
    if (!text.ends_with('=')) {
      REQUIRE(decode_base64(lines, decoded));
      REQUIRE(decoded == bytes);
    }
  }
}

TEST_CASE("what is no base64 is refused") {
  std::string decoded;
  for (const char* wrong : {"Z", "Zm9vY", "Zm9v Zm8", "Zm9v-", "Zm9_", "Zm=9v", "=Zm9v", "Zm9v\x80",
                            "Zm9v!", "Zg==Zg==", "\xc3\xa4"}) {
    CAPTURE(wrong);
    CHECK(!decode_base64(wrong, decoded));
  }
  CHECK(!decode_base64(std::string_view("Zm9v\0", 5), decoded));
}

TEST_CASE("a part of a message holds a file with its kind") {
  const std::pair<std::string, std::string> kinds[] = {
      {png("tall.png"), "data:image/png;base64,iVBOR"},
      {"\xff\xd8\xff\xe0", "data:image/jpeg;base64,/9j/4A=="},
      {"RIFF1234WEBP", "data:image/webp;base64,UklGRj"}};
  for (const auto& [file, begin] : kinds) {
    const Json part = image_part(file);
    CHECK(part["type"] == "image_url");
    CHECK(part["image_url"]["url"].get<std::string>().starts_with(begin));
    Json messages = Json::array({message(Json::array({part}))});
    CHECK(take_images(messages).value() == std::vector{file});
  }
}

TEST_CASE("files are taken from messages in their order, and parts stay in their place") {
  const std::string one = png("tall.png");
  const std::string two = png("blocks.png");
  Json plain = {{"type", "image_url"}, {"image_url", image_part(one)["image_url"]["url"]}};
  Json messages = Json::array(
      {{{"role", "system"}, {"content", "Be brief."}},
       message(Json::array({text_part("a"), image_part(one), text_part("b"), image_part(two)})),
       {{"role", "assistant"}, {"content", nullptr}},
       {{"role", "assistant"}},
       message(Json::array({plain}))});
  const Json image = {{"type", "image"}};
  CHECK(take_images(messages).value() == std::vector{one, two, one});
  CHECK(messages[1]["content"] == Json::array({text_part("a"), image, text_part("b"), image}));
  CHECK(messages[4]["content"] == Json::array({image}));
  CHECK(messages[0]["content"] == "Be brief.");
  CHECK(take_images(messages).value().empty());
}

TEST_CASE("other parts of messages are left as they are") {
  Json messages = Json::array(
      {message("text"), message(Json::array()), message(Json::object()), message(7), "no object",
       message(Json::array({"text",
                            5,
                            nullptr,
                            Json::array(),
                            {{"type", "text"}},
                            {{"type", "image_url"}},
                            {{"type", "image_url"}, {"image_url", 5}},
                            {{"type", "image_url"}, {"image_url", Json::object()}},
                            address(5)}))});
  const Json before = messages;
  CHECK(take_images(messages).value().empty());
  CHECK(messages == before);
}

TEST_CASE("addresses and damaged data are refused, with the number of the message") {
  for (const char* wrong :
       {"https://example.org/cat.png", "file:///etc/passwd", "", "data:image/png,abc",
        "data:image/png;base64", "data:image/png;base64,Zm9v!", "data:image/png;base64,Z",
        "DATA:image/png;base64,Zm9v", "cat.png"}) {
    CAPTURE(wrong);
    Json messages = Json::array({message("text"), message(Json::array({address(wrong)}))});
    const auto files = take_images(messages);
    REQUIRE(!files.has_value());
    CHECK(files.error().code() == StatusCode::invalid_argument);
    CHECK(files.error().message().find("message 1") != std::string::npos);
  }
  // A long one is not repeated.
  Json messages = Json::array({message(Json::array({address(std::string(100000, 'x'))}))});
  CHECK(take_images(messages).error().message().size() < 400);
}

TEST_CASE("a template that shows images has them where they stand") {
  const auto engine = load_seeing();
  Json parts = Json::array({text_part("What is "), {{"type", "image"}}, text_part("?")});
  Json variables = {{"messages", Json::array({message(parts)})}, {"add_generation_prompt", true}};
  const auto rendered = [&](const std::string& source, size_t count) {
    const auto parsed = ChatTemplate::parse(source);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message());
    return render_with_images(*engine, **parsed, variables, count).value();
  };
  const std::string expected = std::string("[user]What is ") + kShown + "?";
  const std::string shows =
      "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{% if p.type == 'image' "
      "%}<|vision_start|><|image_pad|><|vision_end|>"
      "{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}";
  CHECK(rendered(shows, 1) == expected);
  // One that knows only text, one that fails for parts, and one that leaves images out.
  const std::string texts = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  CHECK(rendered(texts, 1) == expected);
  CHECK(rendered("{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}", 1) ==
        expected);
  CHECK(rendered("{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}"
                 "{% else %}{% for p in m.content %}{{ p.text or '' }}{% endfor %}{% endif %}"
                 "{% endfor %}",
                 1) == expected);
  variables["messages"] = Json::array({message("plain")});
  CHECK(rendered(texts, 0) == "[user]plain");
  CHECK(rendered(shows, 0) == "[user]plain");
}

TEST_CASE("images are found in a part of a prompt by their tokens") {
  const auto read = [](std::vector<int32_t> tokens) {
    return ModelImage{std::move(tokens), nullptr};
  };
  const std::vector<ModelImage> images{read({-5, -6, -7}), read({-9}), ModelImage{}};
  const auto found = [&](const std::vector<int32_t>& tokens) {
    std::vector<std::vector<int32_t>> each;
    for (const ModelImage& image : images_in(tokens, images)) each.push_back(image.tokens);
    return each;
  };
  using Tokens = std::vector<std::vector<int32_t>>;
  CHECK(found({}).empty());
  CHECK(found({1, 2, 3}).empty());
  CHECK(found({1, -5, -6, -7, 2, -9}) == Tokens{{-5, -6, -7}, {-9}});
  CHECK(found({-9, -9, -5, -6, -7}) == Tokens{{-9}, {-9}, {-5, -6, -7}});
  CHECK(found({-100, 4, -9}) == Tokens{{-9}});
  CHECK(images_in(std::vector{-5}, {}).empty());
}

TEST_CASE("an image with texts between its pictures is held whole or not at all") {
  const std::vector<ModelImage> images{ModelImage{{3, -5, -6, 4, -7, 3}, nullptr},
                                       ModelImage{{3, -5, -8}, nullptr}};
  const std::vector<int32_t> prompt{1, 3, 3, -5, -6, 4, -7, 3, 3, -5, -8, 2};
  const std::vector<size_t> expected{0, 1, 2, 2, 2, 2, 2, 2, 8, 8, 8, 11, 12};
  for (size_t place = 0; place < expected.size(); ++place) {
    CHECK(begin_of_image(prompt, images, place) == expected[place]);
  }
  CHECK(images_in(prompt, images).size() == 2);
  CHECK(begin_of_image(prompt, {}, 5) == 5);
}

TEST_CASE("a conversation shows images, and a further turn computes what is new") {
  const auto engine = load_seeing();
  auto opened = Conversation::open(*engine, "", Json::object());
  REQUIRE(opened.has_value());
  Conversation& conversation = **opened;
  conversation.messages() =
      Json::array({message(Json::array({image_part(png("tall.png")), text_part("What is it?")}))});
  const int64_t counted = conversation.count().value();
  const Answer first = conversation.answer(likeliest(6), {}).value();
  CHECK(first.result.prompt_tokens == counted);
  CHECK(first.computed_tokens == counted);
  CHECK(counted > 15);
  conversation.messages().push_back(message("And now?"));
  const Answer second = conversation.answer(likeliest(6), {}).value();
  CHECK(second.computed_tokens < counted);
  // The messages hold the image still.
  CHECK(conversation.messages()[0]["content"][0]["type"] == "image_url");

  auto other = Conversation::open(*engine, "", Json::object());
  (*other)->messages() = Json::array(
      {message(Json::array({image_part(png("blocks.png")), text_part("What is it?")}))});
  const Answer another = (*other)->answer(likeliest(6), {}).value();
  CHECK(another.content != first.content);
  CHECK(another.result.prompt_tokens == counted - 3);
}

TEST_CASE("a conversation with a damaged image, or with a model that sees none, fails and stays") {
  const auto engine = load_seeing();
  auto opened = Conversation::open(*engine, "", Json::object());
  const Json damaged =
      Json::array({message(Json::array({image_part(png("tall.png").substr(0, 300))}))});
  (*opened)->messages() = damaged;
  const auto answer = (*opened)->answer(likeliest(6), {});
  REQUIRE(!answer.has_value());
  CHECK(answer.error().code() == StatusCode::bad_file);
  CHECK((*opened)->messages() == damaged);
  (*opened)->messages() = Json::array({message("Hello")});
  CHECK((*opened)->answer(likeliest(6), {}).has_value());

  LoadOptions options;
  options.threads = 1;
  options.context = 256;
  const auto blind = Engine::load(data_path("vision/tiny.gguf"), options).value();
  auto other = Conversation::open(*blind, "", Json::object());
  (*other)->messages() = Json::array({message(Json::array({image_part(png("tall.png"))}))});
  const auto refused = (*other)->answer(likeliest(6), {});
  REQUIRE(!refused.has_value());
  CHECK(refused.error().code() == StatusCode::unsupported);
}

TEST_CASE("texts name images as Markdown does") {
  const auto paths = [](const std::string& text) {
    std::vector<std::string> found;
    for (const ImageMark& mark : image_marks(text)) found.push_back(mark.path);
    return found;
  };
  using Paths = std::vector<std::string>;
  CHECK(paths("").empty());
  CHECK(paths("![a](</b c/d (1).PNG>) and ![](/e.jpeg)![x](file:///f.webp)") ==
        Paths{"/b c/d (1).PNG", "/e.jpeg", "/f.webp"});
  for (const char* other :
       {"![a](b.png)", "![a](https://host/b.png)", "[a](/b.png)", "![a](/b.txt)", "![a](/b.png",
        "![a](</b.png)", "![a]\n(/b.png)", "![a\n](/b.png)", "![a](/b c.png)", "![](", "!["}) {
    CAPTURE(other);
    CHECK(paths(other).empty());
  }
  CHECK(paths(image_mark("/a b/[c].jpg")) == Paths{"/a b/[c].jpg"});
  CHECK(image_mark("/a/b.png") == "![b.png](</a/b.png>)");
}

TEST_CASE("the content of a message with images is their files and the texts between them") {
  const std::string path = data_path("vision/tall.png");
  CHECK(content_of("Nothing to see ![here](https://host/x.png).").value() ==
        "Nothing to see ![here](https://host/x.png).");
  const Json parts = content_of("Before " + image_mark(path) + "\nafter").value();
  REQUIRE(parts.size() == 3);
  CHECK(parts[0] == text_part("Before "));
  CHECK(parts[1] == image_part(png("tall.png")));
  CHECK(parts[2] == text_part("\nafter"));
  const auto gone = content_of("![x](/nowhere/x.png)");
  REQUIRE(!gone.has_value());
  CHECK(gone.error().code() == StatusCode::not_found);
  CHECK(gone.error().message().find("/nowhere/x.png") != std::string::npos);
}
