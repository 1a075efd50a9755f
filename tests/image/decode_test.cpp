// Pictures decoded: the pixels are Pillow's, and no damaged file does harm.
#include <doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/image/image.h"
#include "tests/image/samples.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

Result<Image> decode(const std::string& file, int64_t most_pixels = kMostPixels) {
  return decode_image(bytes_of(file), "photo", most_pixels);
}

std::string message_of(const std::string& file, int64_t most_pixels = kMostPixels) {
  const Result<Image> image = decode(file, most_pixels);
  REQUIRE_FALSE(image);
  CHECK(image.error().code() == StatusCode::bad_file);
  return image.error().message();
}

/// The most addresses that this process has had, in bytes: also memory that is taken and not used.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPeak:")) return std::stoll(line.substr(7)) * 1024;
  }
  FAIL("no VmPeak");
  return 0;
}

/// The file with some of its bytes replaced.
std::string with(std::string file, size_t at, std::string_view bytes) {
  REQUIRE(at + bytes.size() <= file.size());
  return file.replace(at, bytes.size(), bytes);
}

}  // namespace

TEST_CASE("pictures are decoded as Pillow does") {
  for (const std::string& name : sample_names()) {
    CAPTURE(name);
    const Result<Image> image = decode(sample(name));
    REQUIRE_MESSAGE(image, image.error().message());
    const Image expected = ppm(name + ".ppm").at(0);
    CHECK(image->width == expected.width);
    CHECK(image->height == expected.height);
    CHECK(image->rgb == expected.rgb);
  }
}

TEST_CASE("what follows a picture does not matter") {
  for (const std::string& name : sample_names()) {
    CAPTURE(name);
    const Result<Image> image = decode(sample(name) + "and more");
    REQUIRE(image);
    CHECK(same(*image, ppm(name + ".ppm").at(0)));
  }
}

TEST_CASE("pictures that are cut short are refused") {
  for (const std::string& name : sample_names()) {
    CAPTURE(name);
    const std::string file = sample(name);
    for (size_t size = 0; size < file.size(); ++size) {
      const Result<Image> image = decode(file.substr(0, size));
      CHECK_MESSAGE(!image, size, " of ", file.size(), " bytes are decoded");
      if (image) continue;
      CHECK(image.error().code() == StatusCode::bad_file);
      CHECK(image.error().message().starts_with("photo: expected a "));
    }
  }
}

TEST_CASE("pictures with a wrong bit do no harm") {
  constexpr size_t kBytes = 200;
  for (const std::string& name : sample_names()) {
    CAPTURE(name);
    std::string file = sample(name);
    for (size_t bit = 0; bit < 8 * std::min(kBytes, file.size()); ++bit) {
      const char mask = static_cast<char>(1 << bit % 8);
      file[bit / 8] ^= mask;
      const Result<Image> image = decode(file, 1 << 14);
      if (image) {
        CHECK(image->rgb.size() == size_t{3} * image->width * image->height);
      } else {
        CHECK(image.error().code() == StatusCode::bad_file);
        CHECK(image.error().message().starts_with("photo: expected "));
      }
      file[bit / 8] ^= mask;
    }
  }
}

TEST_CASE("pictures have a limit") {
  for (const std::string& name : sample_names()) {
    CAPTURE(name);
    const std::string file = sample(name);
    const Result<Image> image = decode(file);
    REQUIRE(image);
    const int64_t pixels = int64_t{image->width} * image->height;
    CHECK(decode(file, pixels));
    CHECK(decode(file, INT64_MAX));
    const std::string refusal = message_of(file, pixels - 1);
    CHECK(refusal.starts_with("photo: expected 1 to " + std::to_string(pixels - 1) +
                              " pixels, found "));
  }
  const Result<Image> image = decode(sample("rgb8.png"), 0);
  REQUIRE_FALSE(image);
  CHECK(image.error().code() == StatusCode::invalid_argument);
}

TEST_CASE("a picture that claims to be huge takes no memory") {
  const int64_t before = peak_bytes();
  const std::string jpeg = sample("grey.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  CHECK(message_of(with(jpeg, frame + 5, "\xff\xdc\xff\xdc")) ==
        "photo: expected 1 to 64000000 pixels, found 65500 x 65500");
  // A canvas of an animation, whose sides are 24 bits less one each.
  const std::string webp = sample("animation.webp");
  const size_t canvas = webp.find("VP8X") + 12;
  const std::string_view sides("\xff\x7f\0\xff\x7f\0", 6);
  CHECK(message_of(with(webp, canvas, sides)) ==
        "photo: expected 1 to 64000000 pixels, found 32768 x 32768");
  CHECK(peak_bytes() - before < 1'000'000'000);
}

TEST_CASE("a chunk that claims to be huge takes no memory") {
  const int64_t before = peak_bytes();
  // Below 2^31, the most that the format allows.
  for (const char* name : {"exif6.png", "gamma.png", "text.png", "palette8.png"}) {
    CAPTURE(std::string(name));
    const std::string png = sample(name);
    const size_t at = 8 + 25;  // behind the first chunk
    CHECK(message_of(with(png, at, "\x7e")).starts_with("photo: expected a "));
  }
  CHECK(peak_bytes() - before < 1'000'000'000);
}

TEST_CASE("an orientation with a wrong checksum is not used") {
  std::string png = sample("exif6.png");
  png[png.find("IDAT") - 5] ^= 1;
  const Result<Image> image = decode(png);
  REQUIRE(image);
  CHECK(image->width == 13);
}

TEST_CASE("other files are named") {
  using namespace std::string_literals;
  const auto found = [](const std::string& file) {
    const std::string message = message_of(file);
    const std::string begin = "photo: expected a PNG, JPEG or WebP image, found ";
    REQUIRE(message.starts_with(begin));
    return message.substr(begin.size());
  };
  CHECK(found("") == "an empty file");
  CHECK(found("GIF89a...") == "a GIF image");
  CHECK(found("BM......") == "a BMP image");
  CHECK(found("II*\0...."s) == "a TIFF image");
  CHECK(found("\0\0\0\x1c"
              "ftypavif...."s) == "an AVIF image");
  CHECK(found("\0\0\0\x1c"
              "ftypheic...."s) == "a HEIC image");
  CHECK(found("%PDF-1.7") == "a PDF document");
  CHECK(found("<svg xmlns") == "an SVG image");
  CHECK(found("RIFF....WAVEfmt ") == "a file that begins with the bytes 52 49 46 46 2e 2e 2e 2e");
  CHECK(found("ab") == "a file that begins with the bytes 61 62");
}

TEST_CASE("damage is found where a library only warns") {
  // The scan of this file ends early: its last bytes are missing, its end is there.
  const std::string jpeg = sample("grey.jpg");
  const std::string shorter = jpeg.substr(0, jpeg.size() - 12) + "\xff\xd9";
  CHECK(message_of(shorter) ==
        "photo: expected a sound JPEG image, found a damaged one: Corrupt JPEG data: premature end "
        "of data segment");
  const std::string restarts = sample("restarts.jpg");
  const size_t first = restarts.find("\xff\xd0");
  REQUIRE(first != std::string::npos);
  CHECK(message_of(with(restarts, first, "\xff\xd3")).find("damaged") != std::string::npos);
  // The last byte of a checksum: of the pixels, and of what stands before them.
  for (const char* chunk : {"IEND", "gAMA"}) {
    std::string png = sample("gamma.png");
    png[png.find(chunk) - 5] ^= 1;
    CHECK(message_of(png).find("CRC error") != std::string::npos);
  }
}

TEST_CASE("scans without end are refused") {
  const std::string jpeg = sample("progressive.jpg");
  const size_t first = jpeg.find("\xff\xda"), next = jpeg.find("\xff\xc4", first);
  REQUIRE(next != std::string::npos);
  const std::string scan = jpeg.substr(first, next - first);
  const auto repeated = [&](int times) {
    std::string file = jpeg.substr(0, first);
    for (int i = 0; i < times; ++i) file += scan;
    return file + jpeg.substr(next);
  };
  CHECK(decode(repeated(50)));
  CHECK(message_of(repeated(200)) ==
        "photo: expected a sound JPEG image, found a damaged one: it has more than 100 scans");
}

TEST_CASE("a first frame stays inside its canvas") {
  const std::string webp = sample("animation_placed.webp");
  const size_t frame = webp.find("ANMF") + 8;
  const Result<Image> corner = decode(with(webp, frame, "\3"));
  REQUIRE(corner);
  const std::string expected =
      "photo: expected a sound WebP image, found a damaged one: a frame of another size than it "
      "says";
  CHECK(message_of(with(webp, frame, "\4")) == expected);
  CHECK(message_of(with(webp, frame + 3, "\3")) == expected);
  CHECK(message_of(with(webp, frame + 6, "\x0b")) == expected);
  const std::string second = with(webp, frame - 8, "JUNK");
  const std::string none = with(second, second.find("ANMF"), "JUNK");
  CHECK(message_of(none) ==
        "photo: expected a sound WebP image, found a damaged one: an animation without a frame");
}
