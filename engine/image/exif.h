// The one field of EXIF data that changes a picture.
#pragma once

#include <cstdint>
#include <span>

namespace infer {

/// The orientation in EXIF data, which may begin with "Exif\0\0": 1 to 8. 1, which means upright,
/// if the data have none or are damaged. Source: EXIF 2.32, 4.6.4; TIFF 6.0, section 2.
int exif_orientation(std::span<const uint8_t> data);

}  // namespace infer
