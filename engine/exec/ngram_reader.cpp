#include "engine/exec/ngram_reader.h"

#include <algorithm>
#include <array>

#include "engine/core/thread_pool.h"
#include "engine/exec/executor.h"
#include "engine/quant/quant.h"

namespace infer {

Status NgramReader::read(const StepBatch& batch, ThreadPool* threads) {
  const size_t heads = spec_.heads.size();
  const auto most = static_cast<size_t>(spec_.tokens());
  places_.resize(batch.tokens.size() * heads);
  values_.resize(batch.tokens.size() * static_cast<size_t>(spec_.elements()));
  size_t first = 0;  // row of the sequence
  for (size_t r = 0; r < batch.tokens.size(); ++r) {
    if (r > 0 && batch.sequences[r] != batch.sequences[r - 1]) first = r;
    const auto begin = static_cast<size_t>(batch.sequences[r]) * kTokensBefore;
    if (begin + kTokensBefore > batch.before.size()) {
      return error(StatusCode::internal, "a step of {} rows that does not say what is before them",
                   batch.rows());
    }
    std::array<int32_t, kMostNgram> tokens{};
    const size_t count = std::min(most, static_cast<size_t>(batch.slots[r]) + 1);
    for (size_t back = 0; back < count; ++back) {
      tokens[back] = back <= r - first ? batch.tokens[r - back]
                                       : batch.before[begin + kTokensBefore - (back - (r - first))];
    }
    find_ngram_rows(spec_, std::span(tokens).first(count),
                    std::span(places_).subspan(r * heads, heads));
  }
  const auto reads = static_cast<int64_t>(places_.size());
  if (threads == nullptr) return read_part(0, reads);
  std::vector<Status> read(static_cast<size_t>(threads->size()));
  threads->run([&](int thread) {
    const Range part = split_range(reads, thread, threads->size());
    read[static_cast<size_t>(thread)] = read_part(part.begin, part.end);
  });
  const auto failed = std::ranges::find_if_not(read, &Status::ok);
  return failed == read.end() ? Status() : *failed;
}

/// Places [begin, end).
Status NgramReader::read_part(int64_t begin, int64_t end) {
  const Weight& table = source_.weights()[static_cast<size_t>(spec_.table)];
  std::vector<std::byte> bytes(static_cast<size_t>(table.desc.row_bytes()));
  for (int64_t i = begin; i < end; ++i) {
    INFER_CHECK(source_.read(table.place, places_[static_cast<size_t>(i)] * bytes.size(), bytes));
    quant_traits(table.desc.type)
        .decode(bytes.data(), values_.data() + i * spec_.width, spec_.width);
  }
  return {};
}

}  // namespace infer
