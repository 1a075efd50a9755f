#include "engine/model/mapped_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/core/checked.h"
#include "engine/quant/quant.h"
#include "engine/weights/read_blocks.h"

namespace infer {
namespace {

/// Elements put together at a time; with the conversion by way of float, a megabyte or two.
constexpr int64_t kStretch = int64_t{1} << 17;

/// Units `count` apart by `stride`, from unit `first`: read one by one where they lie far apart,
/// else with what is between them, which is left out.
Status read_strided(const WeightSource& raw, const TensorPlace& place, int64_t unit, int64_t first,
                    int64_t stride, int64_t count, std::byte* out, int64_t out_stride) {
  constexpr int64_t kFar = 256;  // bytes
  std::byte buffer[16384];
  const int64_t most =
      stride * unit > kFar ? 1 : (static_cast<int64_t>(sizeof(buffer)) / unit - 1) / stride + 1;
  for (int64_t done = 0; done < count;) {
    const int64_t take = std::min(most, count - done);
    const int64_t span = ((take - 1) * stride + 1) * unit;
    INFER_CHECK(raw.read(place, static_cast<uint64_t>((first + done * stride) * unit),
                         std::span(buffer).first(static_cast<size_t>(span))));
    for (int64_t i = 0; i < take; ++i) {
      std::memcpy(out + (done + i) * out_stride * unit, buffer + i * stride * unit,
                  static_cast<size_t>(unit));
    }
    done += take;
  }
  return {};
}

/// Divides runs of `length` elements by the roots of the sums of their squares.
void make_unit_rows(std::span<float> values, int64_t length) {
  for (auto row = values.begin(); row != values.end(); row += length) {
    double sum = 0;
    for (auto x = row; x != row + length; ++x) sum += double{*x} * *x;
    const double root = std::max(std::sqrt(sum), 1e-12);
    for (auto x = row; x != row + length; ++x) *x = static_cast<float>(*x / root);
  }
}

}  // namespace

MappedSource::MappedSource(std::unique_ptr<WeightSource> raw, Metadata metadata,
                           TokenizerSpec tokenizer, std::vector<MappedTensor> tensors)
    : raw_(std::move(raw)),
      metadata_(std::move(metadata)),
      tokenizer_(std::move(tokenizer)),
      tensors_(std::move(tensors)) {
  weights_.reserve(tensors_.size());
  for (const MappedTensor& tensor : tensors_) {
    weights_.push_back({tensor.name, tensor.desc, {0, weights_.size()}});
  }
}

Status MappedSource::gather(const TensorView& v, int32_t weight, int64_t unit, int64_t first,
                            int64_t count, std::byte* out) const {
  const TensorPlace& place = raw_->weights()[static_cast<size_t>(weight)].place;
  const int64_t n0 = v.shape[0];
  const int64_t n1 = v.shape[1];
  while (count > 0) {
    const int64_t i = first % n0;
    const int64_t j = first / n0 % n1;
    const int64_t plane = first / n0 / n1;
    const int64_t at = v.offset + i * v.stride[0] + j * v.stride[1] +
                       plane % v.shape[2] * v.stride[2] + plane / v.shape[2] * v.stride[3];
    int64_t done = 0;
    if (v.stride[0] == 1) {
      // Rows, or all rows of the plane where they follow each other.
      done = v.stride[1] == n0 ? (n1 - j) * n0 - i : n0 - i;
      done = std::min(done, count);
      INFER_CHECK(raw_->read(place, static_cast<uint64_t>(at * unit),
                             std::span(out, static_cast<size_t>(done * unit))));
    } else if (i == 0 && count >= n0 && v.stride[1] < v.stride[0]) {
      // Whole rows of a transposed plane: along the columns, which are dense in the file.
      const int64_t rows = std::min(n1 - j, count / n0);
      done = rows * n0;
      for (int64_t k = 0; k < n0; ++k) {
        INFER_CHECK(read_strided(*raw_, place, unit, at + k * v.stride[0], v.stride[1], rows,
                                 out + k * unit, n0));
      }
    } else {
      done = std::min(n0 - i, count);
      INFER_CHECK(read_strided(*raw_, place, unit, at, v.stride[0], done, out, 1));
    }
    out += done * unit;
    first += done;
    count -= done;
  }
  return {};
}

/// Blocks of an MXFP4 tensor: the exponent, then the codes with weight j in the low and j + 16 in
/// the high nibble of byte j.
Status MappedSource::make_mxfp4(const MappedTensor& tensor, const TensorView& view, int64_t first,
                                int64_t count, std::byte* out) const {
  std::vector<std::byte> codes(static_cast<size_t>(count * kMxfp4CodeBytes));
  std::vector<std::byte> scales(static_cast<size_t>(count));
  INFER_CHECK(gather(view, view.weight, kMxfp4CodeBytes, first, count, codes.data()));
  INFER_CHECK(gather(view, tensor.scales, 1, first, count, scales.data()));
  for (int64_t b = 0; b < count; ++b) {
    const std::byte* from = codes.data() + b * kMxfp4CodeBytes;
    *out++ = scales[static_cast<size_t>(b)];
    for (int64_t j = 0; j < kMxfp4CodeBytes; ++j) {
      const int shift = j % 2 * 4;
      const std::byte low = from[j / 2] >> shift & std::byte{15};
      const std::byte high = from[j / 2 + 8] >> shift & std::byte{15};
      *out++ = low | high << 4;
    }
  }
  return {};
}

/// Elements [begin, begin + count) of a view whose type is another one, or changed.
Status MappedSource::convert(const MappedTensor& tensor, const TensorView& view, int64_t begin,
                             int64_t count, std::byte* out) const {
  const DTypeInfo& type = stored_type(view);
  const int64_t each = tensor.unit_rows ? view.shape[0] : type.block_elements;
  const int64_t first = begin / each * each / type.block_elements;
  const int64_t blocks = div_ceil(begin + count, each) * each / type.block_elements - first;
  std::vector<std::byte> stored(static_cast<size_t>(blocks * type.block_bytes));
  std::vector<float> floats(static_cast<size_t>(blocks * type.block_elements));
  INFER_CHECK(gather(view, view.weight, type.block_bytes, first, blocks, stored.data()));
  quant_traits(type.type).decode(stored.data(), floats.data(), blocks * type.block_elements);
  if (tensor.unit_rows) make_unit_rows(floats, each);
  const std::span<float> values = std::span(floats).subspan(
      static_cast<size_t>(begin - first * type.block_elements), static_cast<size_t>(count));
  for (float& value : values) value += tensor.add;
  if (!tensor.factors.empty()) {
    const float factor = tensor.factors[static_cast<size_t>(&view - tensor.parts.data())];
    for (float& value : values) value *= factor;
  }
  if (tensor.desc.type == DType::f32 && type.type == DType::f32) {
    quant_traits(DType::f32).encode(values.data(), out, count);
    return {};
  }
  return encode(tensor, values, out);
}

Status MappedSource::encode(const MappedTensor& tensor, std::span<const float> values,
                            std::byte* out) const {
  const DType made = tensor.desc.type;
  const auto bad = std::ranges::find_if_not(values, [&](float v) { return holds(made, v); });
  if (bad != values.end()) {
    return error(StatusCode::bad_file,
                 "{}: tensor '{}': expected finite numbers that {} can hold, found {}",
                 metadata_.source(), tensor.name, dtype_info(made).name, *bad);
  }
  quant_traits(made).encode(values.data(), out, static_cast<int64_t>(values.size()));
  return {};
}

/// Elements [begin, begin + count) of a view whose columns are stored as rows of blocks: each plane
/// is decoded row by row.
Status MappedSource::make_decoded(const MappedTensor& tensor, const TensorView& v, int64_t begin,
                                  int64_t count, std::byte* out) const {
  const TensorPlace& place = raw_->weights()[static_cast<size_t>(v.weight)].place;
  const DTypeInfo& type = stored_type(v);
  const int64_t n0 = v.shape[0];
  const int64_t n1 = v.shape[1];
  std::vector<std::byte> stored(static_cast<size_t>(n1 / type.block_elements * type.block_bytes));
  std::vector<float> row(static_cast<size_t>(n1));
  std::vector<float> plane(static_cast<size_t>(n0 * n1));
  while (count > 0) {
    const int64_t number = begin / (n0 * n1);
    const int64_t within = begin % (n0 * n1);
    const int64_t take = std::min(count, n0 * n1 - within);
    const int64_t at =
        v.offset + number % v.shape[2] * v.stride[2] + number / v.shape[2] * v.stride[3];
    for (int64_t i = 0; i < n0; ++i) {
      const int64_t block = (at + i * v.stride[0]) / type.block_elements;
      INFER_CHECK(raw_->read(place, static_cast<uint64_t>(block * type.block_bytes), stored));
      quant_traits(type.type).decode(stored.data(), row.data(), n1);
      for (int64_t j = 0; j < n1; ++j) {
        plane[static_cast<size_t>(j * n0 + i)] = row[static_cast<size_t>(j)];
      }
    }
    const std::span<const float> made =
        std::span(plane).subspan(static_cast<size_t>(within), static_cast<size_t>(take));
    INFER_CHECK(encode(tensor, made, out));
    out += take * dtype_info(tensor.desc.type).block_bytes;
    begin += take;
    count -= take;
  }
  return {};
}

Status MappedSource::make_blocks(const MappedTensor& tensor, int64_t first, int64_t count,
                                 std::byte* out) const {
  const DTypeInfo& made = dtype_info(tensor.desc.type);
  const int64_t bytes = made.block_bytes;
  if (!tensor.values.empty()) {
    std::memcpy(out, tensor.values.data() + first, static_cast<size_t>(count * bytes));
    return {};
  }
  const bool mxfp4 = tensor.scales >= 0;
  const bool single = mxfp4 || tensor.decoded;
  const int64_t each = single ? 1 : stored_type(tensor.parts.front()).block_elements;
  // In blocks of what is made.
  const auto size_of = [&](const TensorView& part) {
    return part.size() * each / (mxfp4 ? 1 : made.block_elements);
  };
  size_t part = 0;
  int64_t begin = first;
  while (begin >= size_of(tensor.parts[part])) begin -= size_of(tensor.parts[part++]);
  for (; count > 0; ++part, begin = 0) {
    const TensorView& view = tensor.parts[part];
    const int64_t take = std::min(count, size_of(view) - begin);
    if (mxfp4) {
      INFER_CHECK(make_mxfp4(tensor, view, begin, take, out));
    } else if (tensor.decoded) {
      INFER_CHECK(make_decoded(tensor, view, begin, take, out));
    } else if (stored_type(view).type == made.type && tensor.add == 0 && tensor.factors.empty() &&
               !tensor.unit_rows) {
      INFER_CHECK(gather(view, view.weight, bytes, begin, take, out));
    } else {
      INFER_CHECK(
          convert(tensor, view, begin * made.block_elements, take * made.block_elements, out));
    }
    out += take * bytes;
    count -= take;
  }
  return {};
}

/// Whether the tensor lies in the file just as it is wanted.
bool MappedSource::is_plain(const MappedTensor& tensor) const {
  if (tensor.parts.size() != 1 || tensor.scales >= 0 || tensor.add != 0 ||
      !tensor.factors.empty() || tensor.unit_rows) {
    return false;
  }
  const TensorView& view = tensor.parts.front();
  const TensorDesc& stored = raw_->weights()[static_cast<size_t>(view.weight)].desc;
  if (stored.type != tensor.desc.type || view.offset != 0) return false;
  int64_t step = 1;
  for (size_t d = 0; d < kMaxDims; ++d) {
    if (view.shape[d] != 1 && view.stride[d] != step) return false;
    step *= view.shape[d];
  }
  return true;
}

Status MappedSource::check(const TensorPlace& place, uint64_t offset, uint64_t bytes) const {
  const bool known = place.file == 0 && place.offset < tensors_.size();
  const uint64_t size =
      known ? static_cast<uint64_t>(tensors_[place.offset].desc.extent_bytes()) : 0;
  if (known && offset <= size && bytes <= size - offset) return {};
  return error(StatusCode::invalid_argument, "{}: no {} bytes at {} of tensor {} of {}",
               metadata_.source(), bytes, offset, place.offset, tensors_.size());
}

Status MappedSource::read(const TensorPlace& place, uint64_t offset,
                          std::span<std::byte> out) const {
  INFER_CHECK(check(place, offset, out.size()));
  const MappedTensor& tensor = tensors_[place.offset];
  if (is_plain(tensor)) {
    const auto weight = static_cast<size_t>(tensor.parts.front().weight);
    return raw_->read(raw_->weights()[weight].place, offset, out);
  }
  const DTypeInfo& type = dtype_info(tensor.desc.type);
  return read_blocks(offset, out, type.block_bytes, kStretch / type.block_elements,
                     [&](int64_t first, int64_t count, std::byte* to) {
                       return make_blocks(tensor, first, count, to);
                     });
}

bool MappedSource::can_map(const TensorPlace& place) const {
  if (!check(place, 0, 0).ok()) return false;
  const MappedTensor& tensor = tensors_[place.offset];
  if (!is_plain(tensor)) return false;
  const auto weight = static_cast<size_t>(tensor.parts.front().weight);
  return raw_->can_map(raw_->weights()[weight].place);
}

Result<std::span<const std::byte>> MappedSource::map(const TensorPlace& place,
                                                     uint64_t bytes) const {
  INFER_CHECK_R(check(place, 0, bytes));
  const MappedTensor& tensor = tensors_[place.offset];
  if (!is_plain(tensor)) {
    return fail(StatusCode::unsupported,
                "{}: tensor '{}' cannot be mapped: it is stored in another layout",
                metadata_.source(), tensor.name);
  }
  const auto weight = static_cast<size_t>(tensor.parts.front().weight);
  return raw_->map(raw_->weights()[weight].place, bytes);
}

}  // namespace infer
