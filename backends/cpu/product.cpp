#include "backends/cpu/product.h"

#include <algorithm>
#include <cstring>

#include "engine/core/checked.h"
#include "engine/core/platform/processor.h"
#include "engine/quant/quant.h"

namespace infer::cpu {
namespace {

/// Rows of a group of floats, or of decoded ones.
int64_t float_rows(int64_t k) { return k <= kShortRow ? 16 : 4; }

/// Whether `columns` columns are multiplied with such weights as they lie in the file.
bool read_in_place(const VecOps& vec, DType type, int64_t columns) {
  return type == DType::f32 ||
         ((type == DType::f16 || type == DType::bf16) && columns <= vec.most_converted_columns);
}

/// Half of a core's second-level cache, for the columns of a tile.
int64_t columns_cache() {
  static const int64_t bytes = [] {
    const int64_t whole = os::level2_cache_bytes();
    return std::clamp<int64_t>(whole > 0 ? whole : 512 << 10, 256 << 10, 2 << 20) / 2;
  }();
  return bytes;
}

/// Floats of a tile: in the first-level cache with what is streamed through it.
constexpr int64_t kTile = 4096;

int64_t tile_groups(int64_t group_rows, int64_t columns) {
  return std::clamp<int64_t>(kTile / (group_rows * columns), 1, 16);
}

/// y = scale·(tile) + bias of column c, as one line of `rows` results.
void take_line(const VecOps& vec, const Matrix& m, int64_t expert, int64_t first_row, int64_t rows,
               const float* sums, int64_t columns, int64_t c, float* line) {
  const int64_t width = m.product.layout.rows;
  for (int64_t r = 0; r < rows; r += width) {
    const float* from = sums + (r / width * columns + c) * width;
    // By fours, which all widths are a multiple of: calls for a group each would take longer.
    for (int64_t i = 0; i < width; i += 4) std::memcpy(line + r + i, from + i, 16);
  }
  if (m.scale.data != nullptr) {
    vec.scale_mul(line, line, nullptr, m.scale.row<float>(0, 0)[expert], rows);
  }
  if (m.bias.data != nullptr) {
    vec.add_scaled(line, line, m.bias.row<float>(expert, 0) + first_row, 1.0f, rows);
  }
}

/// Asks for what rows [first, first + rows) of the results are written to, and added to: with many
/// columns these are short pieces, far apart, which would be waited for one after another.
void ask_for(std::span<const Target> targets, int64_t first, int64_t rows) {
  constexpr int64_t kLine = 16;  // floats
  for (const Target& to : targets) {
    for (int64_t i = first; i < first + rows; i += kLine) {
      __builtin_prefetch(to.y + i, 1, 2);
      if (to.residual != nullptr) __builtin_prefetch(to.residual + i, 0, 2);
    }
  }
}

}  // namespace

Product Product::choose(const CpuContext& context, const TensorDesc& w) {
  const RowKernel* kernel = context.exact ? nullptr : context.row_kernel(w.type);
  return {kernel,
          {w, kernel == nullptr ? float_rows(w.shape[0]) : kernel->rows},
          kernel != nullptr && context.repack && w.shape[1] * 2 >= kernel->rows};
}

int64_t Product::thread_scratch() const {
  if (packed) return 0;
  return round_up<int64_t>(kernel == nullptr ? layout.rows * k() * 4 : layout.group_bytes(), 64);
}

void decode_row(const VecOps& vec, DType type, const std::byte* w, float* out, int64_t n) {
  switch (type) {
    case DType::f32: std::memcpy(out, w, static_cast<size_t>(n) * sizeof(float)); break;
    case DType::f16: vec.f16_to_f32(out, reinterpret_cast<const uint16_t*>(w), n); break;
    case DType::bf16: vec.bf16_to_f32(out, reinterpret_cast<const uint16_t*>(w), n); break;
    default: quant_traits(type).decode(w, out, n); break;
  }
}

int64_t stored_bytes(const CpuContext& context, const TensorDesc& w) {
  const Product product = Product::choose(context, w);
  return product.packed ? product.layout.bytes() : w.extent_bytes();
}

void read_row(const CpuContext& context, const TensorRef& w, int64_t row, int64_t matrix,
              std::byte* scratch, float* out) {
  const Product product = Product::choose(context, w.desc);
  const std::byte* from = scratch;
  if (product.packed) {
    const PackedLayout& layout = product.layout;
    const std::byte* group =
        w.data + matrix * layout.matrix_bytes() + row / layout.rows * layout.group_bytes();
    unpack_row(layout, group, row % layout.rows, scratch);
  } else {
    from = w.row<std::byte>(row, matrix);
  }
  decode_row(*context.isa->vec, w.desc.type, from, out, product.k());
}

void Product::run(const CpuContext& context, const TensorRef& w, int64_t matrix, int64_t group,
                  int64_t groups, const Columns& x, float* sums, std::byte* scratch) const {
  if (packed) {
    const std::byte* at = w.data + matrix * layout.matrix_bytes() + group * layout.group_bytes();
    kernel->run(at, groups, k(), x.panel, context.streams, sums);
    return;
  }
  for (int64_t g = group; g < group + groups; ++g, sums += layout.rows * x.count) {
    const int64_t first = g * layout.rows;
    const int64_t count = std::min(layout.rows, n() - first);
    if (kernel != nullptr) {
      pack_group(layout, w.row<std::byte>(first, matrix), w.desc.stride[1], count, scratch);
      kernel->run(scratch, 1, k(), x.panel, 1, sums);
      continue;
    }
    const VecOps& vec = *context.isa->vec;
    const std::byte* rows = w.row<std::byte>(first, matrix);
    DType type = w.desc.type;
    int64_t stride = w.desc.stride[1] / dtype_info(type).block_bytes;
    if (!read_in_place(vec, type, x.count)) {
      auto* decoded = reinterpret_cast<float*>(scratch);
      for (int64_t r = 0; r < count; ++r) {
        decode_row(vec, type, w.row<std::byte>(first + r, matrix), decoded + r * k(), k());
      }
      rows = scratch;
      type = DType::f32;
      stride = k();
    }
    vec.dot_rows(type, rows, stride, count, k(), x.rows, x.count, sums, layout.rows);
  }
}

int64_t Product::columns(int64_t rows) const {
  if (quantised()) return PanelSet::width(k(), rows);
  // Short rows are computed faster than their results are stored, which long pieces make faster.
  if (k() <= kShortRow) return 16;
  return std::clamp<int64_t>(columns_cache() / (4 * k()) / 12 * 12, 12, kMaxColumns / 12 * 12);
}

int64_t PanelSet::widest(int64_t k) {
  return std::clamp<int64_t>(columns_cache() * 32 / (Panel::kColumnBytes * k) / 8 * 8, 16,
                             kMaxColumns);
}

int64_t PanelSet::width(int64_t k, int64_t rows) {
  const int64_t panels = std::max<int64_t>(div_ceil(rows, widest(k)), 1);
  return std::max<int64_t>(round_up<int64_t>(div_ceil(rows, panels), 8), 8);
}

int64_t PanelSet::bytes(int64_t k, int64_t rows) {
  const int64_t panels = div_ceil(rows, widest(k));
  return (rows + 8 * panels) * Panel::bytes(4, k) / 4;
}

Panel PanelSet::panel(int64_t i) const {
  const int64_t w = width(k, rows);
  return {data + i * Panel::bytes(w, k), std::min(w, rows - i * w)};
}

std::vector<Matrix> matrices_of(const CpuCall& call, size_t begin) {
  std::vector<Matrix> matrices;
  matrices.reserve((call.inputs.size() - begin) / 3);
  for (size_t i = begin; i < call.inputs.size(); i += 3) {
    matrices.push_back({Product::choose(call.context, call.inputs[i].desc), call.inputs[i],
                        call.inputs[i + 1], call.inputs[i + 2]});
  }
  return matrices;
}

void multiply(const CpuCall& call, std::span<const Matrix> matrices, int64_t expert, Range groups,
              const Columns& x, const Target* targets, std::byte* scratch) {
  const VecOps& vec = call.vec();
  const Product& product = matrices[0].product;
  const int64_t width = product.layout.rows;
  const int64_t step = tile_groups(width, x.count);
  const bool paired = call.fused.glu != nullptr;
  float sums[2][kTile];
  float lines[2][kTile];
  for (int64_t g = groups.begin; g < groups.end; g += step) {
    const int64_t count = std::min(step, groups.end - g);
    const int64_t first = g * width;
    const int64_t rows = std::min(count * width, product.n() - first);
    ask_for({targets, static_cast<size_t>(x.count)}, first, rows);
    for (size_t m = 0; m < (paired ? 2 : 1); ++m) {
      matrices[m].product.run(call.context, matrices[m].w, expert, g, count, x, sums[m], scratch);
    }
    for (int64_t c = 0; c < x.count; ++c) {
      const Target& to = targets[c];
      take_line(vec, matrices[0], expert, first, rows, sums[0], x.count, c, lines[0]);
      if (paired) {
        take_line(vec, matrices[1], expert, first, rows, sums[1], x.count, c, lines[1]);
        vec.glu(to.y + first, lines[0], lines[1], *call.fused.glu, rows);
      } else if (to.residual != nullptr) {
        vec.add_scaled(to.y + first, to.residual + first, lines[0], call.fused.add->scale, rows);
      } else {
        std::memcpy(to.y + first, lines[0], static_cast<size_t>(rows) * sizeof(float));
      }
    }
  }
}

}  // namespace infer::cpu
