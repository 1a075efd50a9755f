// Writes a model of random weights. A value depends on the seed, its tensor and its place alone, so
// the number of threads changes no byte; memory is bounded by a panel of rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/core/thread_pool.h"
#include "engine/jobs/output_check.h"
#include "engine/jobs/synth_model.h"
#include "engine/model/open_weights.h"
#include "engine/quant/quant.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

constexpr int64_t kSynthBytes = int64_t{16} << 20;  ///< encoded bytes made at a time

uint64_t mix(uint64_t z) {  // the finaliser of SplitMix64 (Steele, Lea, Flood 2014)
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Normally distributed numbers by counter: 16 random bits choose one of 65,536 that were drawn.
class NormalTable {
 public:
  NormalTable() : values_(65536) {
    for (size_t i = 0; i < values_.size(); ++i) {  // Box and Muller 1958
      const double u = (static_cast<double>(mix(2 * i + 1) >> 11) + 0.5) * 0x1p-53;
      const double v = static_cast<double>(mix(2 * i + 2) >> 11) * 0x1p-53;
      values_[i] =
          static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
    }
  }

  void fill(uint64_t key, std::span<float> out, float mean, float deviation) const {
    for (size_t i = 0; i < out.size(); i += 4) {
      const uint64_t bits = mix(key + (i / 4 + 1) * 0x9e3779b97f4a7c15u);
      for (size_t j = i; j < std::min(i + 4, out.size()); ++j) {
        out[j] = mean + deviation * values_[(bits >> (16 * (j - i))) & 0xffff];
      }
    }
  }

 private:
  std::vector<float> values_;
};

class Writer {
 public:
  Writer(const SynthOptions& options, SynthShape shape)
      : options_(options), shape_(std::move(shape)), pool_(available_threads()) {}

  Status write(const std::string& path, const std::vector<SynthTensor>& tensors,
               const Metadata& metadata) {
    INFER_TRY_S(const std::unique_ptr<WeightSink> sink, create_model_file("GGUF", path, metadata));
    for (const SynthTensor& tensor : tensors) {
      INFER_CHECK(sink->declare(tensor.name, tensor.desc));
      total_ += tensor.desc.extent_bytes();
    }
    INFER_CHECK(sink->begin());
    for (size_t i = 0; i < tensors.size(); ++i) {
      INFER_CHECK(write_tensor(*sink, tensors[i], mix(mix(options_.seed) + i)));
    }
    return sink->finish();
  }

 private:
  Status write_tensor(WeightSink& sink, const SynthTensor& tensor, uint64_t key) {
    const int64_t rows = tensor.desc.rows();
    const int64_t row_bytes = tensor.desc.row_bytes();
    const int64_t most = std::clamp<int64_t>(kSynthBytes / row_bytes, 1, rows);
    panel_.resize(static_cast<size_t>(most * row_bytes));
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      make_rows(tensor, key, first, count);
      INFER_CHECK(sink.write(std::span(panel_).first(static_cast<size_t>(count * row_bytes))));
      done_ += count * row_bytes;
      INFER_CHECK(
          tell(options_.progress, static_cast<double>(done_) / static_cast<double>(total_)));
    }
    return {};
  }

  void make_rows(const SynthTensor& tensor, uint64_t key, int64_t first, int64_t count) {
    const QuantTraits& traits = quant_traits(tensor.desc.type);
    pool_.run([&](int thread) {
      std::vector<float> values(static_cast<size_t>(tensor.desc.shape[0]));
      const Range mine = split_range(count, thread, pool_.size());
      for (int64_t r = mine.begin; r < mine.end; ++r) {
        switch (tensor.fill) {
          case SynthTensor::Fill::rope_factors: values = rope_factors(shape_); break;
          case SynthTensor::Fill::experts:
            for (size_t i = 0; i < values.size(); ++i) {
              const auto at = static_cast<size_t>(first + r) * values.size() + i;
              values[i] = static_cast<float>(at % static_cast<size_t>(shape_.experts));
            }
            break;
          case SynthTensor::Fill::ones:
          case SynthTensor::Fill::decays:
          case SynthTensor::Fill::normal:
            const float mean = tensor.fill == SynthTensor::Fill::ones     ? 1.0f
                               : tensor.fill == SynthTensor::Fill::decays ? -1.0f
                                                                          : 0.0f;
            normal_.fill(mix(key + static_cast<uint64_t>(first + r)), values, mean,
                         tensor.deviation);
        }
        std::byte* const row = &panel_[static_cast<size_t>(r * tensor.desc.row_bytes())];
        if (traits.encode != nullptr) {
          traits.encode(values.data(), row, tensor.desc.shape[0]);
        } else {
          traits.quantise(values.data(), nullptr, row, tensor.desc.shape[0]);
        }
      }
    });
  }

  const SynthOptions& options_;
  SynthShape shape_;
  ThreadPool pool_;
  NormalTable normal_;
  std::vector<std::byte> panel_;
  int64_t total_ = 0;
  int64_t done_ = 0;
};

/// Takes every key of the vocabulary over; gives its number of tokens.
Result<int64_t> copy_vocabulary(const std::string& path, Metadata& metadata) {
  INFER_TRY(const std::unique_ptr<WeightSource> source, open_weights(path));
  for (const auto& [key, value] : source->metadata().values()) {
    if (key.starts_with("tokenizer.")) metadata.set(key, value);
  }
  const auto tokens = static_cast<int64_t>(source->tokenizer().tokens.size());
  if (tokens == 0) return fail(StatusCode::bad_file, "{}: has no vocabulary", path);
  return tokens;
}

Status run_synth(const std::string& path, SynthOptions options) {
  INFER_TRY_S(const TypeMix types, parse_synth_type(options.type));
  INFER_CHECK(check_output({options.vocabulary}, path));
  Metadata metadata(path);
  if (!options.vocabulary.empty()) {
    INFER_TRY_S(const int64_t tokens, copy_vocabulary(options.vocabulary, metadata));
    if (options.tokens != 0 && options.tokens != tokens) {
      return error(StatusCode::invalid_argument, "{}: expected {} tokens, found {}",
                   options.vocabulary, options.tokens, tokens);
    }
    options.tokens = tokens;
  }
  INFER_TRY_S(const SynthShape shape, synth_shape(options));
  if (options.vocabulary.empty()) add_made_up_vocabulary(shape.tokens, metadata);
  add_shape_metadata(shape, types, metadata);
  INFER_TRY_S(const std::vector<SynthTensor> tensors, synth_tensors(shape, types));
  return Writer(options, shape).write(path, tensors, metadata);
}

}  // namespace

Status synth(const std::string& path, const SynthOptions& options) {
  return guarded([&] { return run_synth(path, options); });
}

}  // namespace infer
