#include "backends/cuda/weight_stream.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/packing.h"
#include "backends/gpu/calls.h"
#include "engine/core/checked.h"
#include "engine/core/log.h"

namespace infer::cuda {
namespace {

static_assert(kRepackPlanes == gpu::kMaxPlanes);

constexpr size_t kLanes = 2;
/// Of a weight, what is copied at a time: so much that the bus is busy, and little beside a layer.
constexpr int64_t kPieceBytes = int64_t{16} << 20;
/// Blocks of a launch along y.
constexpr int64_t kMostGroups = 65535;
/// Less than this is copied as quickly without being registered.
constexpr size_t kWorthRegistering = size_t{128} << 10;
constexpr uintptr_t kPage = 4096;

/// Rows that both layouts have in whole groups.
int64_t common_rows(const gpu::WeightLayout& layout, const HostLayout& host) {
  return std::max(layout.together, host.rows);  // powers of two
}

/// A weight in steps of rows that both layouts have in whole groups, counted over all matrices.
class Steps {
 public:
  Steps(const gpu::WeightLayout& layout, const HostLayout& host)
      : common_(common_rows(layout, host)),
        packed_groups_(layout.matrix_groups),
        packed_step_(common_ / layout.together),
        host_groups_(div_ceil(layout.desc.shape[1], host.rows)),
        host_step_(common_ / host.rows),
        group_bytes_(layout.row_bytes * host.rows),
        of_matrix_(div_ceil(layout.desc.shape[1], common_)),
        all_(of_matrix_ * layout.desc.shape[2] * layout.desc.shape[3]) {}

  int64_t all() const { return all_; }
  int64_t group_bytes() const { return group_bytes_; }
  int64_t host_groups() const { return host_groups_; }
  int64_t matrix_bytes() const { return host_groups_ * group_bytes_; }
  /// Byte of the host's weight at which a step begins.
  int64_t byte(int64_t step) const {
    const int64_t group = std::min(step % of_matrix_ * host_step_, host_groups_);
    return step / of_matrix_ * matrix_bytes() + group * group_bytes_;
  }
  /// The group of the packed weight.
  int64_t group(int64_t step) const {
    return step / of_matrix_ * packed_groups_ +
           std::min(step % of_matrix_ * packed_step_, packed_groups_);
  }
  /// The end of a piece that begins there: whole matrices if they are small, else within one.
  int64_t end_of_piece(int64_t begin) const {
    const auto most = [](int64_t bytes, int64_t groups) {
      return std::max<int64_t>(std::min(kPieceBytes / bytes, kMostGroups / groups), 1);
    };
    if (matrix_bytes() <= kPieceBytes && packed_groups_ <= kMostGroups) {
      return std::min(begin + most(matrix_bytes(), packed_groups_) * of_matrix_, all_);
    }
    const int64_t end = (begin / of_matrix_ + 1) * of_matrix_;
    return std::min(begin + most(host_step_ * group_bytes_, packed_step_), end);
  }

 private:
  int64_t common_;
  int64_t packed_groups_, packed_step_;
  int64_t host_groups_, host_step_;
  int64_t group_bytes_;
  int64_t of_matrix_;
  int64_t all_;
};

/// By table of the weights, once each.
std::vector<const RepackTables*> tables_of(std::span<const StreamedWeight> weights,
                                           Repacking& repacking) {
  std::vector<const RepackTables*> all;
  for (const StreamedWeight& weight : weights) {
    const RepackTables* tables = repacking.find(weight.desc.type, weight.layout);
    if (std::ranges::find(all, tables) == all.end()) all.push_back(tables);
  }
  return all;
}

}  // namespace

RegisteredMemory::RegisteredMemory(Context& context, std::span<const std::byte> memory)
    : context_(context) {
  if (memory.size() < kWorthRegistering) return;
  const auto at = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t begin = at / kPage * kPage;
  const uintptr_t end = round_up<uintptr_t>(at + memory.size(), kPage);
  const CUresult result = context.cu().cuMemHostRegister(reinterpret_cast<void*>(begin),
                                                         end - begin, CU_MEMHOSTREGISTER_PORTABLE);
  // Another GPU gets weights from there too: pinned for it, it is pinned for all.
  if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) return;
  const Status status = context.check(result, "cannot pin weights in the host's memory");
  if (status.ok()) {
    begin_ = reinterpret_cast<void*>(begin);
  } else {
    log(LogLevel::info, "{}; they are copied more slowly", status.message());
  }
}

RegisteredMemory::~RegisteredMemory() {
  if (begin_ != nullptr && context_.enter().ok()) (void)context_.cu().cuMemHostUnregister(begin_);
}

bool CudaWeightStream::takes(const TensorDesc& desc, const HostLayout& layout,
                             Repacking& repacking) {
  const RepackTables* tables = repacking.find(desc.type, layout);
  if (tables == nullptr || !desc.contiguous() || desc.elements() == 0) return false;
  if (layout.rows == 1 && desc.row_bytes() % tables->host_block_bytes != 0) return false;
  return desc.row_bytes() * common_rows(weight_layout(desc), layout) <= kPieceBytes;
}

int64_t CudaWeightStream::work_bytes(std::span<const StreamedWeight> weights,
                                     Repacking& repacking) {
  int64_t bytes = kLanes * kPieceBytes;
  for (const RepackTables* tables : tables_of(weights, repacking)) bytes += tables->bytes();
  return bytes;
}

Result<std::unique_ptr<CudaWeightStream>> CudaWeightStream::create(
    Context& context, Modules& modules, Repacking& repacking,
    std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
    uint64_t work) {
  std::unique_ptr<CudaWeightStream> made(new CudaWeightStream(context, repacking));
  INFER_TRY(made->kernel_, modules.get("repack", 0));
  INFER_CHECK_R(context.enter());
  INFER_CHECK_R(made->computed_.create(false));
  for (size_t i = 0; i < kLanes; ++i, work += kPieceBytes) {
    Lane& lane = *made->lanes_.emplace_back(std::make_unique<Lane>(context));
    lane.piece = work;
    INFER_CHECK_R(context.check(context.cu().cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING),
                                "cannot make a stream"));
    for (Event& event : lane.arrived) INFER_CHECK_R(event.create(false));
  }
  INFER_CHECK_R(made->upload_tables(weights, work));
  for (const std::span<const std::byte> memory : host) {
    made->registered_.push_back(std::make_unique<RegisteredMemory>(context, memory));
  }
  return made;
}

CudaWeightStream::~CudaWeightStream() {
  if (!context_.enter().ok()) return;
  for (const auto& lane : lanes_) {
    if (lane->stream == nullptr) continue;
    (void)context_.cu().cuStreamSynchronize(lane->stream);
    (void)context_.cu().cuStreamDestroy(lane->stream);
  }
}

Status CudaWeightStream::upload_tables(std::span<const StreamedWeight> weights, uint64_t to) {
  const auto upload = [&](const auto& all) -> Result<uint64_t> {
    const auto bytes = std::as_bytes(std::span(all));
    INFER_CHECK_R(context_.check(
        context_.cu().cuMemcpyHtoDAsync(to, bytes.data(), bytes.size(), lanes_[0]->stream),
        "cannot copy to the device"));
    return std::exchange(to, to + round_up<uint64_t>(bytes.size(), 16));
  };
  for (const RepackTables* tables : tables_of(weights, repacking_)) {
    OnDevice& on = tables_[tables];
    INFER_TRY_S(on.cells, upload(tables->cells));
    INFER_TRY_S(on.words, upload(tables->words));
    INFER_TRY_S(on.terms, upload(tables->terms));
  }
  return context_.check(context_.cu().cuStreamSynchronize(lanes_[0]->stream),
                        "cannot copy to the device");
}

Status CudaWeightStream::bring(std::span<const StreamedWeight> weights, int place) {
  INFER_CHECK(context_.enter());
  INFER_CHECK(computed_.record());
  for (const auto& lane : lanes_) INFER_CHECK(computed_.hold(lane->stream));
  for (const StreamedWeight& weight : weights) INFER_CHECK(bring(weight));
  for (const auto& lane : lanes_) INFER_CHECK(lane->arrived[place].record(lane->stream));
  return {};
}

Status CudaWeightStream::await(int place) {
  INFER_CHECK(context_.enter());
  for (const auto& lane : lanes_) INFER_CHECK(lane->arrived[place].hold(context_.stream()));
  return {};
}

Status CudaWeightStream::bring(const StreamedWeight& weight) {
  const gpu::WeightLayout layout = weight_layout(weight.desc);
  const RepackTables* tables = repacking_.find(weight.desc.type, weight.layout);
  const OnDevice& on = tables_.at(tables);
  const Steps steps(layout, weight.layout);
  RepackParams params{};
  params.to = gpu::address_of(weight.to);
  params.cells = on.cells;
  params.words = on.words;
  params.terms = on.terms;
  params.matrix_bytes = static_cast<uint64_t>(steps.matrix_bytes());
  params.group_bytes = static_cast<uint64_t>(steps.group_bytes());
  for (size_t p = 0; p < layout.planes; ++p) {
    params.offsets[p] = static_cast<uint64_t>(layout.offsets[p]);
    params.plane_bytes[p] = static_cast<uint32_t>(layout.plane_bytes[p]);
  }
  params.cell_words = static_cast<uint32_t>(tables->cells.size());
  params.packed_words = static_cast<uint32_t>(tables->words.size());
  params.matrix_groups = static_cast<uint32_t>(layout.matrix_groups);
  params.cell_rows = static_cast<uint32_t>(layout.together);
  params.row_blocks = static_cast<uint32_t>(layout.row_blocks);
  params.host_rows = static_cast<uint32_t>(weight.layout.rows);
  params.host_groups = static_cast<uint32_t>(steps.host_groups());
  params.host_block_bytes = static_cast<uint32_t>(tables->host_block_bytes);
  params.host_blocks = static_cast<uint32_t>(steps.group_bytes() / tables->host_block_bytes);
  params.stored_blocks = static_cast<uint32_t>(tables->host_blocks);
  for (int64_t step = 0, end = 0; step < steps.all(); step = end) {
    end = steps.end_of_piece(step);
    const int64_t from = steps.byte(step);
    const Lane& lane = *lanes_[next_];
    next_ = (next_ + 1) % lanes_.size();
    INFER_CHECK(context_.check(
        context_.cu().cuMemcpyHtoDAsync(lane.piece, weight.data + from,
                                        static_cast<size_t>(steps.byte(end) - from), lane.stream),
        "cannot copy weights to the device"));
    params.from = lane.piece - static_cast<uint64_t>(from);
    params.first_group = static_cast<uint32_t>(steps.group(step));
    INFER_CHECK(repack(lane, params, steps.group(end) - steps.group(step)));
  }
  return {};
}

Status CudaWeightStream::repack(const Lane& lane, const RepackParams& params, int64_t groups) {
  void* all[] = {const_cast<RepackParams*>(&params)};
  return context_.check(
      context_.cu().cuLaunchKernel(kernel_, params.row_blocks, static_cast<unsigned>(groups), 1,
                                   kRepackThreads, 1, 1, 0, lane.stream, all, nullptr),
      "cannot launch 'repack'");
}

}  // namespace infer::cuda
