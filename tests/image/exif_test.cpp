// How a picture is turned, from EXIF data.
#include "engine/image/exif.h"

#include <doctest.h>

#include <string>
#include <vector>

using namespace infer;
using namespace std::string_literals;

namespace {

int orientation(const std::string& text) {
  return exif_orientation(std::vector<uint8_t>(text.begin(), text.end()));
}

/// A header and a list of one field.
const std::string kBegin = "II*\0\x08\0\0\0\1\0"s;
const std::string kField = "\x12\1\3\0\1\0\0\0\6\0\0\0"s;

}  // namespace

TEST_CASE("orientation: where it stands and how it is written") {
  CHECK(orientation(kBegin + kField) == 6);
  CHECK(orientation("Exif\0\0"s + kBegin + kField) == 6);
  CHECK(orientation("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0"s) == 6);
  CHECK(orientation("MM\0*\0\0\0\x0a..\0\1\1\x12\0\4\0\0\0\1\0\0\0\6"s) == 6);
  CHECK(orientation("II*\0\x08\0\0\0\2\0"s + "\0\1\3\0\1\0\0\0\2\0\0\0"s + kField) == 6);
}

TEST_CASE("orientation: upright where the data make no sense") {
  const std::string whole = kBegin + kField;
  for (size_t size = 0; size < whole.size(); ++size) CHECK(orientation(whole.substr(0, size)) == 1);
  CHECK(orientation("II*\0\xff\xff\xff\xff\1\0"s + kField) == 1);
  CHECK(orientation("II*\0\x08\0\0\0\xff\xff"s + kField) == 6);
  CHECK(orientation(kBegin + "\x12\1\3\0\1\0\0\0\0\0\0\0"s) == 1);
  CHECK(orientation(kBegin + "\x12\1\3\0\1\0\0\0\x09\0\0\0"s) == 1);
  CHECK(orientation(kBegin + "\x12\1\2\0\1\0\0\0\6\0\0\0"s) == 1);  // a text
  CHECK(orientation(kBegin + "\x12\1\3\0\2\0\0\0\6\0\0\0"s) == 1);  // two of them
  CHECK(orientation(kBegin + "\x13\1\3\0\1\0\0\0\6\0\0\0"s) == 1);  // another field
  CHECK(orientation("xx*\0\x08\0\0\0\1\0"s + kField) == 1);
}
