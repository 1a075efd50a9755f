// Weights put together from others: every kind against its definition, and any part of it against
// the whole.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "engine/model/mapped_source.h"
#include "engine/quant/quant.h"
#include "tests/support.h"

using namespace infer;
using namespace infer::test;

namespace {

/// Weights in memory, of random numbers between −2 and 2 or, of bytes, of any bits.
class MemorySource final : public WeightSource {
 public:
  int32_t add(DType type, std::initializer_list<int64_t> shape) {
    const TensorDesc desc = make_tensor(type, std::vector<int64_t>(shape)).value();
    std::vector<std::byte> data(static_cast<size_t>(desc.extent_bytes()));
    if (type == DType::i8) {
      for (std::byte& byte : data) byte = static_cast<std::byte>(random_() & 255);
    } else {
      std::vector<float> values(static_cast<size_t>(desc.elements()));
      for (float& v : values) v = std::uniform_real_distribution<float>(-2, 2)(random_);
      quant_traits(type).encode(values.data(), data.data(), desc.elements());
    }
    weights_.push_back({fmt::format("w{}", weights_.size()), desc, {0, weights_.size()}});
    data_.push_back(std::move(data));
    return static_cast<int32_t>(weights_.size() - 1);
  }
  float value(int32_t weight, int64_t element) const {
    const auto i = static_cast<size_t>(weight);
    const DTypeInfo& type = dtype_info(weights_[i].desc.type);
    std::vector<float> block(static_cast<size_t>(type.block_elements));
    quant_traits(type.type).decode(
        data_[i].data() + element / type.block_elements * type.block_bytes, block.data(),
        type.block_elements);
    return block[static_cast<size_t>(element % type.block_elements)];
  }
  uint8_t byte(int32_t weight, int64_t at) const {
    return static_cast<uint8_t>(data_[static_cast<size_t>(weight)][static_cast<size_t>(at)]);
  }

  const Metadata& metadata() const override { return metadata_; }
  std::span<const Weight> weights() const override { return weights_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  Status read(const TensorPlace& place, uint64_t offset, std::span<std::byte> out) const override {
    const std::vector<std::byte>& data = data_[place.offset];
    REQUIRE(offset + out.size() <= data.size());
    largest_read = std::max(largest_read, out.size());
    std::copy_n(data.begin() + static_cast<long>(offset), out.size(), out.begin());
    return {};
  }
  bool can_map(const TensorPlace&) const override { return true; }
  Result<std::span<const std::byte>> map(const TensorPlace& place, uint64_t bytes) const override {
    return std::span<const std::byte>(data_[place.offset]).first(bytes);
  }

  mutable size_t largest_read = 0;

 private:
  std::mt19937 random_{7};
  Metadata metadata_{"memory"};
  TokenizerSpec tokenizer_;
  std::vector<Weight> weights_;
  std::vector<std::vector<std::byte>> data_;
};

struct Fixture {
  std::unique_ptr<MemorySource> owned = std::make_unique<MemorySource>();
  MemorySource& raw = *owned;
  std::vector<MappedTensor> tensors;

  void put(DType type, std::vector<int64_t> shape, std::vector<TensorView> parts, float add = 0) {
    MappedTensor tensor{fmt::format("t{}", tensors.size()), make_tensor(type, shape).value(),
                        std::move(parts)};
    tensor.add = add;
    tensors.push_back(std::move(tensor));
  }
  MappedSource source() {
    return MappedSource(std::move(owned), Metadata("mapped"), TokenizerSpec(), tensors);
  }
};

std::vector<std::byte> read_all(const WeightSource& source, size_t index) {
  const Weight& weight = source.weights()[index];
  std::vector<std::byte> data(static_cast<size_t>(weight.desc.extent_bytes()));
  REQUIRE(source.read(weight.place, 0, data).ok());
  return data;
}

/// Every part of a small weight, random parts of a large one.
void check_parts(const WeightSource& source, size_t index) {
  const std::vector<std::byte> whole = read_all(source, index);
  const auto check = [&](size_t begin, size_t size) {
    std::vector<std::byte> part(size);
    REQUIRE(source.read(source.weights()[index].place, begin, part).ok());
    const bool same =
        std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(begin));
    CHECK_MESSAGE(same, "tensor ", index, ", ", size, " bytes from ", begin);
    return same;
  };
  if (whole.size() <= 300) {
    for (size_t begin = 0; begin <= whole.size(); ++begin) {
      for (size_t size = 0; begin + size <= whole.size(); ++size) {
        if (!check(begin, size)) return;
      }
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const size_t begin = random() % whole.size();
    if (!check(begin, random() % (whole.size() - begin + 1))) return;
  }
  const TensorPlace& place = source.weights()[index].place;
  std::vector<std::byte> beyond(whole.size());
  CHECK_FALSE(source.read(place, 1, beyond).ok());
  CHECK_FALSE(source.read(place, UINT64_MAX, std::span(beyond).first(1)).ok());
}

/// Element `i` of a tensor by the definition of its views.
float expected(const MemorySource& raw, const MappedTensor& tensor, int64_t i) {
  const TensorView* part = tensor.parts.data();
  int64_t rest = i;
  for (; rest >= part->size(); ++part) rest -= part->size();
  const TensorView& v = *part;
  int64_t at = v.offset;
  for (size_t d = 0; d < kMaxDims; ++d) {
    at += rest % v.shape[d] * v.stride[d];
    rest /= v.shape[d];
  }
  return raw.value(v.weight, at) + tensor.add;
}

}  // namespace

TEST_CASE("views of any shape give the elements that they name") {
  for (const DType stored : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const DType given : {DType::f32, DType::f16, DType::bf16}) {
      CAPTURE(dtype_info(stored).name);
      CAPTURE(dtype_info(given).name);
      Fixture f;
      const int32_t matrix = f.raw.add(stored, {6, 8});
      const int32_t cube = f.raw.add(stored, {5, 7, 3});
      const int32_t row = f.raw.add(stored, {24});
      const TensorView whole = TensorView::whole(matrix, {6, 8, 1, 1});
      f.put(given, {6, 8}, {whole});
      f.put(given, {6, 8}, {TensorView::whole(matrix, {6, 2, 2, 2}).swapped(1, 2)});
      f.put(given, {24}, {TensorView::whole(row, {1, 4, 2, 3}).swapped(1, 2)});
      f.put(given, {6, 8}, {whole}, 1.0f);
      f.put(given, {6, 3}, {whole.sliced(1, 2, 3)});
      f.put(given, {2, 8}, {whole.sliced(0, 1, 2, 3)});
      f.put(given, {8, 6}, {whole.swapped(0, 1)});
      f.put(given, {4, 3}, {whole.sliced(1, 1, 4, 2).sliced(0, 1, 3).swapped(0, 1)});
      f.put(given, {7, 5, 3}, {TensorView::whole(cube, {5, 7, 3, 1}).swapped(0, 1)});
      f.put(given, {5, 3, 7}, {TensorView::whole(cube, {5, 7, 3, 1}).swapped(1, 2)});
      f.put(given, {7, 2, 3},
            {TensorView::whole(cube, {5, 7, 3, 1}).sliced(0, 1, 2, 2).swapped(0, 1)});
      f.put(given, {6, 8, 3}, {whole, whole.swapped(0, 1), whole});
      f.put(given, {6, 14},
            {whole.sliced(1, 5, 2), whole, whole.sliced(1, 0, 1), whole.sliced(1, 3, 3)});
      const MemorySource& raw = f.raw;
      const MappedSource source = f.source();
      for (size_t t = 0; t < f.tensors.size(); ++t) {
        CAPTURE(t);
        const MappedTensor& tensor = f.tensors[t];
        const std::vector<std::byte> data = read_all(source, t);
        const int64_t bytes = dtype_info(given).block_bytes;
        for (int64_t i = 0; i < tensor.desc.elements(); ++i) {
          const float value = expected(raw, tensor, i);
          std::byte encoded[4];
          quant_traits(given).encode(&value, encoded, 1);
          REQUIRE(std::memcmp(encoded, data.data() + i * bytes, static_cast<size_t>(bytes)) == 0);
        }
        check_parts(source, t);
      }
    }
  }
}

TEST_CASE("rows of blocks become columns") {
  for (const DType stored : {DType::q8_0, DType::nf4, DType::q4_k}) {
    CAPTURE(dtype_info(stored).name);
    Fixture f;
    const int64_t rows = dtype_info(stored).block_elements * 2;
    const int32_t both = f.raw.add(stored, {rows, 5, 3});
    const TensorView whole = TensorView::whole(both, {rows, 5, 3, 1});
    f.put(DType::bf16, {5, rows, 3}, {whole.swapped(0, 1)});
    f.put(DType::f32, {3, rows, 3}, {whole.sliced(1, 2, 3).swapped(0, 1)});
    for (MappedTensor& tensor : f.tensors) tensor.decoded = true;
    const MemorySource& raw = f.raw;
    const MappedSource source = f.source();
    for (size_t t = 0; t < f.tensors.size(); ++t) {
      const MappedTensor& tensor = f.tensors[t];
      const std::vector<std::byte> data = read_all(source, t);
      const DType made = tensor.desc.type;
      const int64_t bytes = dtype_info(made).block_bytes;
      for (int64_t i = 0; i < tensor.desc.elements(); ++i) {
        const float value = expected(raw, tensor, i);
        std::byte encoded[4];
        quant_traits(made).encode(&value, encoded, 1);
        REQUIRE(std::memcmp(encoded, data.data() + i * bytes, static_cast<size_t>(bytes)) == 0);
      }
      check_parts(source, t);
    }
  }
}

TEST_CASE("large weights pass through bounded memory") {
  Fixture f;
  const int32_t matrix = f.raw.add(DType::bf16, {700, 900});
  const TensorView whole = TensorView::whole(matrix, {700, 900, 1, 1});
  f.put(DType::bf16, {900, 700}, {whole.swapped(0, 1)});
  f.put(DType::f32, {700, 900}, {whole});
  f.put(DType::bf16, {700, 900}, {TensorView::whole(matrix, {700, 225, 2, 2}).swapped(1, 2)});
  const MemorySource& raw = f.raw;
  const MappedSource source = f.source();
  for (size_t t = 0; t < 3; ++t) {
    raw.largest_read = 0;
    const std::vector<std::byte> data = read_all(source, t);
    CHECK(raw.largest_read <= size_t{1} << 20);
    const int64_t bytes = dtype_info(f.tensors[t].desc.type).block_bytes;
    for (int64_t i = 0; i < 630'000; i += 997) {
      float value = 0;
      quant_traits(f.tensors[t].desc.type).decode(data.data() + i * bytes, &value, 1);
      REQUIRE(value == expected(raw, f.tensors[t], i));
    }
    check_parts(source, t);
  }
}

TEST_CASE("codes and exponents become blocks of MXFP4") {
  // Rows of two blocks, eight rows, three experts; every second row, as of a gate.
  Fixture f;
  const int32_t codes = f.raw.add(DType::i8, {16, 2, 8, 3});
  const int32_t scales = f.raw.add(DType::i8, {2, 8, 3});
  for (const int64_t first : {0, 1}) {
    MappedTensor tensor{"gate", infer::tensor(DType::mxfp4, 64, 4, 3), {}};
    tensor.parts = {TensorView::whole(codes, {2, 8, 3, 1}).sliced(1, first, 4, 2)};
    tensor.scales = scales;
    f.tensors.push_back(std::move(tensor));
  }
  constexpr float kLevels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const MemorySource& raw = f.raw;
  const MappedSource source = f.source();
  for (int64_t half = 0; half < 2; ++half) {
    const std::vector<std::byte> data = read_all(source, static_cast<size_t>(half));
    std::vector<float> values(64 * 4 * 3);
    quant_traits(DType::mxfp4)
        .decode(data.data(), values.data(), static_cast<int64_t>(values.size()));
    for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
      const int64_t column = i % 64;
      const int64_t row = i / 64 % 4 * 2 + half;
      const int64_t block = (i / 256 * 8 + row) * 2 + column / 32;
      const uint8_t byte = raw.byte(codes, block * 16 + column % 32 / 2);
      const int code = column % 2 == 0 ? byte & 15 : byte >> 4;
      const float level = code < 8 ? kLevels[code] : -kLevels[code - 8];
      const uint8_t exponent = raw.byte(scales, block);
      CHECK(values[static_cast<size_t>(i)] == std::ldexp(level, exponent - 127));
    }
    check_parts(source, static_cast<size_t>(half));
  }
}

TEST_CASE("values given outright") {
  Fixture f;
  MappedTensor tensor{"v", infer::tensor(DType::f32, 5), {}};
  tensor.values = {1, 2.5f, -3, 0, 7};
  f.tensors.push_back(tensor);
  const MappedSource source = f.source();
  const std::vector<std::byte> data = read_all(source, 0);
  CHECK(std::memcmp(data.data(), tensor.values.data(), data.size()) == 0);
  check_parts(source, 0);
}

TEST_CASE("mapping: in place, kept where small, else refused") {
  Fixture f;
  const int32_t matrix = f.raw.add(DType::f32, {512, 1024});
  const int32_t norm = f.raw.add(DType::bf16, {512});
  f.put(DType::f32, {512, 1024}, {TensorView::whole(matrix, {512, 1024, 1, 1})});
  f.put(DType::f32, {512}, {TensorView::whole(norm, {512, 1, 1, 1})}, 1.0f);
  f.put(DType::f32, {1024, 512}, {TensorView::whole(matrix, {512, 1024, 1, 1}).swapped(0, 1)});
  const MemorySource& raw = f.raw;
  const MappedSource source = f.source();
  const auto map = [&](size_t i) {
    const Weight& weight = source.weights()[i];
    return source.map(weight.place, static_cast<uint64_t>(weight.desc.extent_bytes()));
  };
  const auto whole = map(0);
  REQUIRE(whole.has_value());
  CHECK(whole->data() == raw.map(raw.weights()[0].place, 1)->data());
  CHECK(source.can_map(source.weights()[0].place));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    CHECK_FALSE(source.can_map(source.weights()[i].place));
    const auto refused = map(i);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == StatusCode::unsupported);
    CHECK(refused.error().message().find("'" + source.weights()[i].name + "'") !=
          std::string::npos);
  }
  CHECK_FALSE(source.can_map({0, 99}));
  CHECK_FALSE(source.map({0, 99}, 1).has_value());
  CHECK_FALSE(source.map(source.weights()[0].place, 1 << 30).has_value());
}
