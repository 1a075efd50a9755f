// Reading weights into memory: every thread reads stretches of the file into a small buffer of its
// own and interleaves them from there, so that a file is passed over once and nothing as large as a
// tensor is held beside the result.
#include <algorithm>
#include <mutex>

#include "backends/cpu/device.h"
#include "backends/cpu/product.h"
#include "engine/core/checked.h"
#include "engine/core/platform/large_pages.h"

namespace infer::cpu {
namespace {

/// Bytes read at a time: within the second-level cache.
constexpr int64_t kStretch = 256 << 10;

/// The first failure of several threads.
class FirstFailure {
 public:
  void add(Status status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
  }
  Status take() { return std::move(status_); }

 private:
  std::mutex mutex_;
  Status status_;
};

/// The part of a weight that a thread reads, at `bytes` of its buffer, is touched by this thread
/// first: so it lies at the thread's memory node. Else the device has done it.
void take_pages(const ThreadPool& pool, const Buffer& buffer, Range bytes) {
  if (pool.nodes().empty() || buffer.size() < kWorthLargePages) return;
  os::take_large_pages(buffer.address() + bytes.begin, bytes.end - bytes.begin,
                       buffer.size() - bytes.end);
}

Status load_as_it_is(ThreadPool& pool, int64_t bytes, const ReadFn& read, const MemoryRef& to) {
  FirstFailure failure;
  std::byte* data = to.buffer->address() + to.offset;
  pool.run([&](int thread) {
    const Range mine = split_range(bytes, thread, pool.size(), 4096);
    if (mine.begin == mine.end) return;
    take_pages(pool, *to.buffer, {to.offset + mine.begin, to.offset + mine.end});
    failure.add(read(static_cast<uint64_t>(mine.begin),
                     {data + mine.begin, static_cast<size_t>(mine.end - mine.begin)}));
  });
  return failure.take();
}

/// Groups [range.begin, range.end), counted over all matrices.
Status load_groups(const PackedLayout& layout, Range range, const ReadFn& read, std::byte* to) {
  const int64_t row_bytes = layout.desc.row_bytes();
  const int64_t n = layout.desc.shape[1];
  const int64_t most = std::clamp<int64_t>(kStretch / layout.group_bytes(), 1, layout.groups());
  std::vector<std::byte> rows(static_cast<size_t>(std::min(n, most * layout.rows) * row_bytes));
  for (int64_t g = range.begin; g < range.end;) {
    const int64_t matrix = g / layout.groups();
    const int64_t group = g % layout.groups();
    const int64_t count = std::min({most, range.end - g, layout.groups() - group});
    const int64_t first = group * layout.rows;
    const int64_t bytes = (std::min(n, first + count * layout.rows) - first) * row_bytes;
    INFER_CHECK(read(static_cast<uint64_t>((matrix * n + first) * row_bytes),
                     std::span(rows).first(static_cast<size_t>(bytes))));
    for (int64_t i = 0; i < count; ++i) {
      pack_group(layout, rows.data() + i * layout.rows * row_bytes, row_bytes,
                 std::min(layout.rows, n - first - i * layout.rows),
                 to + (g + i) * layout.group_bytes());
    }
    g += count;
  }
  return {};
}

}  // namespace

Status load(const CpuContext& context, const TensorDesc& desc, const ReadFn& read,
            const MemoryRef& to) {
  ThreadPool& pool = *context.pool;
  const Product product = Product::choose(context, desc);
  if (!product.packed) return load_as_it_is(pool, desc.extent_bytes(), read, to);
  const PackedLayout& layout = product.layout;
  const int64_t matrices = desc.shape[2] * desc.shape[3];
  // Threads share each matrix, or else all of them, which are longer stretches of the file.
  const int64_t runs = pool.nodes().empty() ? 1 : matrices;
  const int64_t count = layout.groups() * (matrices / runs);
  FirstFailure failure;
  pool.run([&](int thread) {
    const Range mine = split_range(count, thread, pool.size());
    for (int64_t run = 0; run < runs && mine.begin < mine.end; ++run) {
      const Range groups{run * count + mine.begin, run * count + mine.end};
      const int64_t bytes = layout.group_bytes();
      take_pages(pool, *to.buffer,
                 {to.offset + groups.begin * bytes, to.offset + groups.end * bytes});
      Status done = load_groups(layout, groups, read, to.buffer->address() + to.offset);
      if (!done.ok()) return failure.add(std::move(done));
    }
  });
  return failure.take();
}

}  // namespace infer::cpu
