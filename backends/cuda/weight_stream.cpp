#include "backends/cuda/weight_stream.h"

#include <utility>

#include "backends/cuda/packing.h"
#include "backends/cuda/repack_cell.h"
#include "backends/gpu/calls.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

constexpr size_t kLanes = 2;

}  // namespace

bool CudaWeightStream::takes(const TensorDesc& desc, const HostLayout& layout,
                             gpu::Repacking& repacking) {
  const gpu::RepackTables* tables = repacking.find(desc, layout);
  return tables != nullptr && tables->cells.size() <= kCellWords;
}

int64_t CudaWeightStream::work_bytes(std::span<const StreamedWeight> weights,
                                     gpu::Repacking& repacking) {
  int64_t bytes = kLanes * gpu::kPieceBytes;
  for (const gpu::RepackTables* tables : repacking.find_all(weights)) bytes += tables->bytes();
  return bytes;
}

Result<std::unique_ptr<CudaWeightStream>> CudaWeightStream::create(
    Context& context, Modules& modules, gpu::Repacking& repacking,
    std::span<const StreamedWeight> weights, uint64_t work) {
  std::unique_ptr<CudaWeightStream> made(new CudaWeightStream(context, repacking));
  INFER_TRY(made->kernel_, modules.get("repack", 0));
  INFER_CHECK_R(context.enter());
  INFER_CHECK_R(made->computed_.create(false));
  for (size_t i = 0; i < kLanes; ++i, work += gpu::kPieceBytes) {
    Lane& lane = *made->lanes_.emplace_back(std::make_unique<Lane>(context));
    lane.piece = work;
    INFER_CHECK_R(context.check(context.cu().cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING),
                                "cannot make a stream"));
    for (Event& event : lane.arrived) INFER_CHECK_R(event.create(false));
  }
  INFER_CHECK_R(made->upload_tables(weights, work));
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
  for (const gpu::RepackTables* tables : repacking_.find_all(weights)) {
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
  pin(weights);
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
  const gpu::RepackTables* tables = repacking_.find(weight.desc.type, weight.layout);
  const OnDevice& on = tables_.at(tables);
  const gpu::RepackSteps steps(layout, weight.layout);
  gpu::RepackParams params{};
  params.to = gpu::address_of(weight.to);
  params.shape = steps.shape(layout, weight.layout, *tables);
  params.shape.cells = on.cells;
  params.shape.words = on.words;
  params.shape.terms = on.terms;
  for (int64_t step = 0, end = 0; step < steps.all(); step = end) {
    end = steps.end_of_piece(step);
    const int64_t from = steps.byte(step);
    const Lane& lane = *lanes_[next_];
    next_ = (next_ + 1) % lanes_.size();
    INFER_CHECK(copy(lane, weight.data + from, steps.byte(end) - from));
    params.from = lane.piece - static_cast<uint64_t>(from);
    params.first_group = static_cast<uint32_t>(steps.group(step));
    INFER_CHECK(repack(lane, params, steps.group(end) - steps.group(step)));
  }
  return {};
}

void CudaWeightStream::pin(std::span<const StreamedWeight> weights) {
  std::vector<std::span<const std::byte>> parts;
  for (const StreamedWeight& weight : weights) {
    if (!used_.insert(weight.data).second) continue;
    const gpu::RepackSteps steps(weight_layout(weight.desc), weight.layout);
    parts.emplace_back(weight.data, static_cast<size_t>(steps.byte(steps.all())));
  }
  if (!parts.empty()) pinned_.pin(std::move(parts));
}

Status CudaWeightStream::copy(const Lane& lane, const std::byte* from, int64_t bytes) {
  for (int64_t done = 0; done < bytes;) {
    const int64_t now = PinnedMemory::together(from + done, bytes - done);
    INFER_CHECK(context_.check(
        context_.cu().cuMemcpyHtoDAsync(lane.piece + static_cast<uint64_t>(done), from + done,
                                        static_cast<size_t>(now), lane.stream),
        "cannot copy weights to the device"));
    done += now;
  }
  return {};
}

Status CudaWeightStream::repack(const Lane& lane, const gpu::RepackParams& params, int64_t groups) {
  void* all[] = {const_cast<gpu::RepackParams*>(&params)};
  return context_.check(
      context_.cu().cuLaunchKernel(kernel_, params.shape.row_blocks, static_cast<unsigned>(groups),
                                   1, gpu::kRepackThreads, 1, 1, 0, lane.stream, all, nullptr),
      "cannot launch 'repack'");
}

}  // namespace infer::cuda
