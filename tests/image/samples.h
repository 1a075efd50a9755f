// The pictures in tests/data/image.
#pragma once

#include <doctest.h>

#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine/image/image.h"
#include "tests/support.h"

namespace infer::test {

/// The names of the files to decode. Each has a NAME.ppm beside it.
inline std::vector<std::string> sample_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_path("image"))) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".png" || ending == ".jpg" || ending == ".webp") {
      names.insert(entry.path().filename().string());
    }
  }
  REQUIRE(names.size() > 40);
  return {names.begin(), names.end()};
}

inline std::string sample(const std::string& name) { return read_text(data_path("image/" + name)); }

/// All pictures of a PPM file.
inline std::vector<Image> ppm(const std::string& name) {
  std::istringstream file(sample(name));
  std::vector<Image> images;
  for (std::string kind; file >> kind;) {
    Image image;
    int most = 0;
    file >> image.width >> image.height >> most;
    REQUIRE((kind == "P6" && most == 255 && file.get() == '\n'));
    image.rgb.resize(static_cast<size_t>(image.width) * static_cast<size_t>(image.height) * 3);
    REQUIRE(file.read(reinterpret_cast<char*>(image.rgb.data()),
                      static_cast<std::streamsize>(image.rgb.size())));
    images.push_back(std::move(image));
  }
  return images;
}

inline bool same(const Image& a, const Image& b) {
  return a.width == b.width && a.height == b.height && a.rgb == b.rgb;
}

}  // namespace infer::test
