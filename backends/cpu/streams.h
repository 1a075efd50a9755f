// How many places of a matrix a thread reads at once where a product has one column, which reads
// each weight once: the prefetchers of some processors bring more bytes in a second for several
// streams than for one. A measurement decides, since pages, hypervisors and neighbours count as
// much as the processor. Where it chooses several, products of two to eight columns read two.
#pragma once

#include <optional>

#include "backends/cpu/kernels.h"
#include "engine/backend/device.h"

namespace infer::cpu {

/// Times products of the segment's weights with one column in all ways that RowKernel::run has, and
/// returns the fastest number of streams: 1, unless another takes a fortieth less time. Takes
/// some milliseconds. Nothing where the segment has too few packed weights, less than 64 MiB, to
/// tell: those that were loaded last are in caches.
std::optional<int> measure_streams(const CpuContext& context, const CompileSpec& spec);

}  // namespace infer::cpu
