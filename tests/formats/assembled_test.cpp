// Weights that a checkpoint keeps as several tensors: what they decode to by the formula of their
// format, and what is refused.
#include <doctest.h>

#include <functional>
#include <numeric>

#include "engine/core/half.h"
#include "tests/formats/raw_checkpoint.h"

using namespace infer;
using namespace infer::test;

namespace {

constexpr float kNf4[16] = {-1,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1};

/// bitsandbytes' tensors of one weight W [rows, columns], and what they stand for.
struct Nf4Case {
  int64_t rows = 3, columns = 128, block = 64, nested = 0;
  std::vector<float> expected;
  RawSafetensors tensors;

  std::string state(const std::string& type = "nf4") const {
    const std::string shape = std::to_string(rows) + "," + std::to_string(columns);
    std::string text = R"({"quant_type":")" + type + R"(","blocksize":)" + std::to_string(block) +
                       R"(,"dtype":"bfloat16","shape":[)" + shape + "]";
    if (nested > 0) {
      text += R"(,"nested_blocksize":)" + std::to_string(nested) +
              R"(,"nested_dtype":"float32","nested_offset":0.25)";
    }
    return text + "}";
  }

  void make() {
    Numbers numbers;
    const int64_t count = rows * columns;
    const int64_t blocks = (count + block - 1) / block;
    std::vector<uint8_t> codes(static_cast<size_t>((count + 1) / 2));
    for (uint8_t& byte : codes) byte = static_cast<uint8_t>(numbers.below(256));
    std::vector<float> absmax(static_cast<size_t>(blocks));
    if (nested == 0) {
      for (float& scale : absmax) scale = numbers.unit();
      tensors.put("W.absmax", "F32", {blocks}, absmax);
    } else {
      std::vector<uint8_t> of_absmax(static_cast<size_t>(blocks));
      std::vector<float> map(256);
      std::vector<float> scales(static_cast<size_t>((blocks + nested - 1) / nested));
      for (float& level : map) level = numbers.unit() - 0.5f;
      for (float& scale : scales) scale = numbers.unit();
      for (size_t i = 0; i < absmax.size(); ++i) {
        of_absmax[i] = static_cast<uint8_t>(numbers.below(256));
        absmax[i] = map[of_absmax[i]] * scales[i / static_cast<size_t>(nested)] + 0.25f;
      }
      tensors.put("W.absmax", "U8", {blocks}, of_absmax);
      tensors.put("W.nested_quant_map", "F32", {256}, map);
      tensors.put("W.nested_absmax", "F32", {static_cast<int64_t>(scales.size())}, scales);
    }
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t byte = codes[static_cast<size_t>(i / 2)];
      const int code = i % 2 == 0 ? byte >> 4 : byte & 15;
      expected.push_back(kNf4[code] * absmax[static_cast<size_t>(i / block)]);
    }
    tensors.put("W", "U8", {static_cast<int64_t>(codes.size()), 1}, codes);
    tensors.put("W.quant_map", "F32", {16}, std::vector<float>(kNf4, kNf4 + 16));
    tensors.text("W.quant_state.bitsandbytes__nf4", state());
  }
};

}  // namespace

TEST_CASE("NF4 of bitsandbytes decodes to its formula") {
  struct Shape {
    int64_t rows, columns, block, nested;
    DType type;
  };
  // Rows or blocks that are no whole 64 weights are given as numbers.
  const Shape shapes[] = {
      {3, 128, 64, 0, DType::nf4},   {5, 192, 64, 256, DType::nf4}, {4, 64, 4096, 0, DType::nf4},
      {33, 640, 128, 3, DType::nf4}, {7, 96, 64, 2, DType::f32},    {3, 33, 64, 0, DType::f32},
      {2, 128, 32, 0, DType::f32},   {1, 64, 64, 256, DType::nf4},
  };
  for (const Shape& shape : shapes) {
    CAPTURE(shape.columns);
    CAPTURE(shape.block);
    Nf4Case nf4{shape.rows, shape.columns, shape.block, shape.nested, {}, {}};
    nf4.make();
    const Checkpoint checkpoint(nf4.tensors);
    const auto source = checkpoint.open();
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    REQUIRE((*source)->weights().size() == 1);
    CHECK((*source)->weights()[0].desc.type == shape.type);
    CHECK((*source)->weights()[0].desc.shape[0] == shape.columns);
    CHECK(values_of(**source, "W") == nf4.expected);
  }
}

TEST_CASE("parts of an NF4 weight that do not fit each other are named") {
  using Change = std::function<void(RawSafetensors&)>;
  struct Case {
    Change change;
    const char* why;
    StatusCode code = StatusCode::bad_file;
  };
  const std::string state = Nf4Case{.nested = 2}.state();
  const auto with_state = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return [text](RawSafetensors& t) { t.text("W.quant_state.bitsandbytes__nf4", text); };
  };
  const std::vector<float> other_levels(16, 0.5f);
  const Case cases[] = {
      {[](RawSafetensors& t) { t.leave_out("W"); }, "tensor 'W' is missing"},
      {[](RawSafetensors& t) { t.leave_out("W.absmax"); }, "'W.absmax' is missing"},
      {[](RawSafetensors& t) { t.leave_out("W.quant_map"); }, "'W.quant_map' is missing"},
      {[](RawSafetensors& t) { t.leave_out("W.nested_absmax"); }, "nested_absmax' is missing"},
      {[](RawSafetensors& t) { t.leave_out("W.nested_quant_map"); }, "nested_quant_map' is"},
      {[](RawSafetensors& t) { t.put("W", "U8", {4}, std::string(4, '1')); }, "expected 192 bytes"},
      {[](RawSafetensors& t) { t.put("W", "F64", {24}, std::string(192, '1')); }, "found F64"},
      {[](RawSafetensors& t) { t.put("W.absmax", "U8", {5}, std::string(5, '1')); }, "6 elements"},
      {[](RawSafetensors& t) { t.put("W.absmax", "F32", {6}, std::string(24, '1')); }, "found F32"},
      {[&](RawSafetensors& t) { t.put("W.quant_map", "F32", {16}, other_levels); }, "level 0",
       StatusCode::unsupported},
      {[](RawSafetensors& t) { t.put("W.quant_map", "F32", {2}, std::string(8, '1')); }, "of 16"},
      {with_state(state, R"({"quant_type")", R"(["quant_type")"), "expected an object"},
      {with_state(state, R"("nf4")", R"("fp4")"), "expected 'nf4', found 'fp4'"},
      {with_state(state, R"("blocksize":64)", R"("blocksize":0)"), "blocksize"},
      {with_state(state, R"("blocksize":64)", R"("blocksize":1e9)"), "blocksize"},
      {with_state(state, R"("blocksize":64)", R"("blocksize":128)"), "absmax"},
      {with_state(state, R"([3,128])", R"([])"), "shape"},
      {with_state(state, R"([3,128])", R"([3,-128])"), "shape"},
      {with_state(state, R"([3,128])", R"([1099511627776,1099511627776])"), "2^62"},
      {with_state(state, R"([3,128])", R"([3,1,1,1,128])"), "dimensions"},
      {with_state(state, R"([3,128])", R"([3,64])"), "expected 96 bytes"},
      {with_state(state, R"("nested_blocksize":2)", R"("nested_blocksize":4)"), "nested_absmax"},
      {with_state(state, R"(,"nested_offset":0.25)", ""), "nested_offset"},
      {[](RawSafetensors& t) {
         t.text("W.quant_state.bitsandbytes__nf4", std::string(65537, ' '));
       },
       "at most 65536 bytes"},
  };
  for (const Case& c : cases) {
    Nf4Case nf4{.nested = 2};
    nf4.make();
    c.change(nf4.tensors);
    refused(nf4.tensors, c.why, c.code);
  }
}

TEST_CASE("every bit flip and truncation of an NF4 weight gives a typed error or a source") {
  Nf4Case nf4{.rows = 1, .columns = 64, .nested = 1};
  nf4.make();
  const std::string whole = nf4.tensors.bytes();
  // The levels of scales are data of which nothing follows.
  const size_t end = whole.size() - 256 * sizeof(float);
  const Checkpoint checkpoint(nf4.tensors);
  int opened = 0;
  for (size_t bit = 0; bit < 8 * end; ++bit) {
    CAPTURE(bit);
    std::string file = whole;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
    write_bytes(checkpoint.path(), bytes_of(file));
    opened += opens_or_says(checkpoint) ? 1 : 0;
  }
  CHECK(opened > 0);
  for (size_t size = 0; size < whole.size(); size += 3) {
    CAPTURE(size);
    write_bytes(checkpoint.path(), bytes_of(whole.substr(0, size)));
    CHECK_FALSE(opens_or_says(checkpoint));
  }
}

namespace {

/// A weight of 4 bits with groups, as GPTQ or AWQ packs it.
struct Int4Case {
  bool awq = false;
  bool second_version = false;  ///< GPTQ's zeros are stored as they are
  bool symmetric = false;       ///< all zero points are 8
  bool act_order = false;
  int64_t n = 24, k = 128, group = 32;

  std::vector<float> expected;  ///< [n][k], columns as the model has them
  std::vector<int32_t> group_of_k;
  RawSafetensors tensors;

  int64_t groups() const { return k / group; }
  std::string config() const {
    if (awq) return R"({"quant_method":"awq","bits":4,"version":"gemm"})";
    return std::string(R"({"quant_method":"gptq","bits":4,"checkpoint_format":")") +
           (second_version ? "gptq_v2" : "gptq") + "\"}";
  }

  void make() {
    Numbers numbers;
    const auto sized = [](int64_t a, int64_t b) {
      return std::vector<int>(static_cast<size_t>(a * b));
    };
    std::vector<int> codes = sized(k, n);
    std::vector<int> zeros = sized(groups(), n);
    std::vector<uint16_t> scales(static_cast<size_t>(groups() * n));
    for (int& code : codes) code = numbers.below(16);
    for (int& zero : zeros) zero = symmetric ? 8 : numbers.below(15) + 1;
    for (uint16_t& scale : scales) scale = f32_to_f16(numbers.unit() * 0.1f);
    for (int64_t i = 0; i < k; ++i) group_of_k.push_back(static_cast<int32_t>(i / group));
    if (act_order) {
      for (size_t i = group_of_k.size() - 1; i > 0; --i) {
        std::swap(group_of_k[i],
                  group_of_k[static_cast<size_t>(numbers.below(static_cast<int>(i) + 1))]);
      }
    }
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<size_t>(group_of_k[static_cast<size_t>(i)] * n + row);
        expected.push_back(f16_to_f32(scales[at]) *
                           static_cast<float>(codes[static_cast<size_t>(i * n + row)] - zeros[at]));
      }
    }
    // Eight along the rows of a line, or along lines.
    constexpr int kAwqOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    const auto pack_rows = [&](const std::vector<int>& values, int64_t lines, int offset) {
      std::vector<uint32_t> packed(static_cast<size_t>(lines * n / 8));
      for (size_t i = 0; i < packed.size(); ++i) {
        for (size_t j = 0; j < 8; ++j) {
          const size_t from = 8 * i + static_cast<size_t>(awq ? kAwqOrder[j] : static_cast<int>(j));
          packed[i] |= static_cast<uint32_t>((values[from] - offset) & 15) << (4 * j);
        }
      }
      return packed;
    };
    if (awq) {
      tensors.put("m.qweight", "I32", {k, n / 8}, pack_rows(codes, k, 0));
    } else {
      std::vector<uint32_t> packed(static_cast<size_t>(k / 8 * n));
      for (int64_t i = 0; i < k * n; ++i) {
        packed[static_cast<size_t>(i / n / 8 * n + i % n)] |=
            static_cast<uint32_t>(codes[static_cast<size_t>(i)]) << (4 * (i / n % 8));
      }
      tensors.put("m.qweight", "I32", {k / 8, n}, packed);
      tensors.put("m.g_idx", "I32", {k}, group_of_k);
    }
    tensors.put("m.qzeros", "I32", {groups(), n / 8},
                pack_rows(zeros, groups(), awq || second_version ? 0 : 1));
    tensors.put("m.scales", "F16", {groups(), n}, scales);
  }
};

}  // namespace

TEST_CASE("GPTQ and AWQ are repacked without loss") {
  Int4Case cases[] = {
      {.symmetric = true},
      {},
      {.second_version = true},
      {.symmetric = true, .act_order = true},
      {.act_order = true, .n = 8, .k = 512, .group = 128},
      {.n = 264, .k = 4096, .group = 4096},
      {.awq = true},
      {.awq = true, .symmetric = true, .n = 520, .k = 192, .group = 64},
  };
  for (Int4Case& c : cases) {
    CAPTURE(&c - cases);
    c.make();
    const Checkpoint checkpoint(c.tensors, c.config());
    const auto source = checkpoint.open();
    REQUIRE_MESSAGE(source.has_value(), source.error().message());
    const Weight* weight = (*source)->find("m.weight");
    REQUIRE(weight != nullptr);
    CHECK(weight->desc.type == (c.symmetric ? DType::q4_0 : DType::q5_0));
    std::vector<int32_t> order(static_cast<size_t>(c.k));
    std::iota(order.begin(), order.end(), 0);
    const Weight* listed = (*source)->find("m.order");
    CHECK((listed != nullptr) == c.act_order);
    if (listed != nullptr) {
      REQUIRE((*source)->read(listed->place, 0, std::as_writable_bytes(std::span(order))).ok());
    }
    const std::vector<float> found = values_of(**source, "m.weight");
    std::vector<float> restored(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t row = i / order.size();
      restored[row * order.size() + static_cast<size_t>(order[i % order.size()])] = found[i];
    }
    CHECK(restored == c.expected);
  }
}

TEST_CASE("scales in bfloat16 are taken where binary16 holds them") {
  Int4Case c{.symmetric = true, .n = 8, .k = 32};
  c.make();
  std::vector<uint16_t> scales(8, 0x3c00);  // 0.0078125
  c.tensors.put("m.scales", "BF16", {1, 8}, scales);
  const Checkpoint good(c.tensors, c.config());
  CHECK(values_of(**good.open(), "m.weight")[0] != 0);
  scales[3] = 0x0100;  // far below the range of binary16
  c.tensors.put("m.scales", "BF16", {1, 8}, scales);
  const Checkpoint bad(c.tensors, c.config());
  const auto source = bad.open();
  REQUIRE(source.has_value());
  std::vector<std::byte> data(18 * 8);
  const Status status = (*source)->read((*source)->find("m.weight")->place, 0, data);
  CHECK(status.code() == StatusCode::unsupported);
  CHECK(status.message().find("m.scales") != std::string::npos);
}

TEST_CASE("parts of a GPTQ or AWQ weight that do not fit each other are named") {
  struct Case {
    std::function<void(RawSafetensors&)> change;
    const char* why;
    std::string config;
    StatusCode code = StatusCode::bad_file;
  };
  const std::string gptq = Int4Case{}.config();
  const auto groups = [](std::vector<int32_t> values) {
    return [values](RawSafetensors& t) {
      t.put("m.g_idx", "I32", {static_cast<int64_t>(values.size())}, values);
    };
  };
  std::vector<int32_t> outside(128, 0), uneven(128, 0);
  outside[5] = 4;
  for (size_t i = 32; i < 128; ++i) uneven[i] = i < 65 ? 1 : 2;
  const auto same = [](RawSafetensors&) {};
  const StatusCode unsupported = StatusCode::unsupported;
  const Case cases[] = {
      {[](RawSafetensors& t) { t.leave_out("m.scales"); }, "'m.scales' is missing", gptq},
      {[](RawSafetensors& t) { t.leave_out("m.qzeros"); }, "'m.qzeros' is missing", gptq},
      {[](RawSafetensors& t) {
         t.put("m.scales", "F16", {4, 8}, std::string(64, '1'));
       },
       "expected [24, groups]", gptq},
      {[](RawSafetensors& t) {
         t.put("m.scales", "F16", {8, 24}, std::string(384, '1'));
       },
       "groups of 32", gptq},
      {[](RawSafetensors& t) {
         t.put("m.qzeros", "I32", {4, 2}, std::string(32, '1'));
       },
       "12 elements", gptq},
      {[](RawSafetensors& t) {
         t.put("m.qweight", "I8", {16, 24}, std::string(384, '1'));
       },
       "expected I32", gptq},
      {groups(outside), "expected groups 0 to 3, found 4", gptq},
      {groups(std::vector<int32_t>(128, -1)), "found -1", gptq},
      {groups(uneven), "groups of 32 columns", gptq},
      {groups({0, 1}), "128 elements", gptq},
      {same, "quant_method ''", "{}", unsupported},
      {same, "quant_method 'hqq'", R"({"quant_method":"hqq"})", unsupported},
      {same, "8 bits", R"({"quant_method":"gptq","bits":8})", unsupported},
      {same, "checkpoint_format 'marlin'",
       R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})", unsupported},
      {same, "version 'gemv'", R"({"quant_method":"awq","bits":4,"version":"gemv"})", unsupported},
      {[](RawSafetensors& t) { t.put("m.weight", "F32", {1}, std::string(4, '1')); }, "two forms",
       gptq},
  };
  for (const Case& c : cases) {
    Int4Case good;
    good.make();
    c.change(good.tensors);
    refused(good.tensors, c.why, c.code, c.config);
  }
}
