#include "engine/jobs/importance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>

#include "engine/weights/weight_source.h"

namespace infer {
namespace {

constexpr const char* kType = "imatrix";
constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

bool is_sound(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v) && v >= 0; });
}

Status unsound(const std::string& path, const std::string& name) {
  return error(StatusCode::bad_file,
               "{}: importance of '{}': expected finite values of at least 0, found others", path,
               name);
}

Result<std::vector<float>> read_floats(const WeightSource& source, const Weight& weight) {
  const std::string& path = source.metadata().source();
  if (weight.desc.type != DType::f32 || weight.desc.shape[2] != 1 || weight.desc.shape[3] != 1) {
    return fail(StatusCode::bad_file,
                "{}: tensor '{}': expected F32 of at most two dimensions, found {}", path,
                weight.name, to_string(weight.desc));
  }
  std::vector<float> values(static_cast<size_t>(weight.desc.elements()));
  INFER_CHECK_R(source.read(weight.place, 0, std::as_writable_bytes(std::span(values))));
  if (!is_sound(values)) return tl::unexpected(unsound(path, weight.name));
  return values;
}

Result<ImportanceMatrix> load_gguf(const std::string& path) {
  INFER_TRY(const std::unique_ptr<WeightSource> source, open_model(path));
  const Metadata& metadata = source->metadata();
  INFER_TRY(const auto type, metadata.get_string("general.type"));
  if (type != kType) {
    return fail(StatusCode::bad_file, "{}: key 'general.type': expected '{}', found '{}'", path,
                kType, type.value_or("nothing"));
  }
  ImportanceMatrix matrix;
  INFER_TRY(const auto* const datasets, metadata.get_strings("imatrix.datasets"));
  if (datasets != nullptr) matrix.datasets = *datasets;
  INFER_TRY(const auto chunks, metadata.get_int("imatrix.chunk_count", 0, INT32_MAX));
  INFER_TRY(const auto size, metadata.get_int("imatrix.chunk_size", 0, INT32_MAX));
  matrix.chunks = chunks.value_or(0);
  matrix.chunk_tokens = size.value_or(0);
  for (const Weight& weight : source->weights()) {
    if (!weight.name.ends_with(kSums)) continue;
    const std::string name = weight.name.substr(0, weight.name.size() - kSums.size());
    const Weight* const counts = source->find(name + std::string(kCounts));
    if (counts == nullptr) {
      return fail(StatusCode::bad_file, "{}: tensor '{}{}' is missing", path, name, kCounts);
    }
    ImportanceEntry entry;
    entry.columns = weight.desc.shape[0];
    entry.experts = weight.desc.shape[1];
    INFER_TRY(entry.sums, read_floats(*source, weight));
    INFER_TRY(entry.counts, read_floats(*source, *counts));
    if (static_cast<int64_t>(entry.counts.size()) != entry.experts) {
      return fail(StatusCode::bad_file, "{}: tensor '{}': expected [1, {}], found {}", path,
                  counts->name, entry.experts, to_string(counts->desc));
    }
    matrix.entries.emplace(name, std::move(entry));
  }
  return matrix;
}

/// The older format: a number of entries, then of each its name, how many steps it was in, and the
/// sums of squares over columns of all experts, divided so that the steps make them means; at the
/// end, in younger files, the number of chunks and the text's name. Numbers are int32 and float32,
/// strings have their length before them.
class OldReader {
 public:
  explicit OldReader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code ignored;
    left_ = std::filesystem::file_size(path, ignored);
    if (ignored) left_ = 0;
  }

  Result<ImportanceMatrix> read() {
    ImportanceMatrix matrix;
    INFER_TRY(const int32_t count, number(1, 1 << 24, "number of entries"));
    for (int32_t i = 0; i < count; ++i) {
      INFER_TRY(const std::string name, text());
      INFER_TRY(const int32_t steps, number(0, INT32_MAX, "number of steps"));
      INFER_TRY(const int32_t columns, number(1, INT32_MAX, "number of columns"));
      ImportanceEntry entry;
      entry.columns = columns;
      // Experts follow one another; how many they are, the weight says.
      entry.counts = {static_cast<float>(steps)};
      if (static_cast<uint64_t>(columns) * sizeof(float) > left_) return tl::unexpected(cut());
      entry.sums.resize(static_cast<size_t>(columns));
      INFER_CHECK_R(bytes(entry.sums.data(), entry.sums.size() * sizeof(float)));
      if (!is_sound(entry.sums)) return tl::unexpected(unsound(path_, name));
      matrix.entries.insert_or_assign(name, std::move(entry));
    }
    if (left_ == 0) return matrix;
    INFER_TRY(const int32_t chunks, number(0, INT32_MAX, "number of chunks"));
    matrix.chunks = chunks;
    INFER_TRY(std::string dataset, text());
    matrix.datasets.push_back(std::move(dataset));
    return matrix;
  }

 private:
  Status cut() const {
    return error(StatusCode::bad_file,
                 "{}: ends before its last entry, or is not an importance matrix", path_);
  }
  Status bytes(void* to, size_t count) {
    if (count > left_ || !file_.read(static_cast<char*>(to), static_cast<std::streamsize>(count))) {
      return cut();
    }
    left_ -= count;
    return {};
  }
  Result<int32_t> number(int32_t least, int32_t most, const char* what) {
    int32_t value = 0;
    INFER_CHECK_R(bytes(&value, sizeof(value)));
    if (value < least || value > most) {
      return fail(StatusCode::bad_file,
                  "{}: {}: expected {} to {}, found {}; is it an importance matrix?", path_, what,
                  least, most, value);
    }
    return value;
  }
  Result<std::string> text() {
    INFER_TRY(const int32_t length, number(0, 4096, "length of a name"));
    std::string value(static_cast<size_t>(length), '\0');
    INFER_CHECK_R(bytes(value.data(), value.size()));
    return value;
  }

  std::string path_;
  std::ifstream file_;
  uint64_t left_ = 0;
};

}  // namespace

std::vector<float> ImportanceEntry::means() const {
  std::vector<float> means(sums.size(), 1.0f);
  const auto width = sums.size() / counts.size();
  for (size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] <= 0) continue;
    for (size_t i = e * width; i < (e + 1) * width; ++i) {
      means[i] = std::min(sums[i] / counts[e], std::numeric_limits<float>::max());
    }
  }
  return means;
}

Result<ImportanceMatrix> load_importance(const std::string& path) {
  std::array<char, 4> magic{};
  {
    std::error_code code;
    if (!std::filesystem::exists(path, code)) {
      return fail(StatusCode::not_found, "{}: no such file", path);
    }
    if (!std::filesystem::is_regular_file(path, code)) {
      return fail(StatusCode::bad_file, "{}: expected a regular file, the importance matrix", path);
    }
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(StatusCode::io, "{}: cannot be read", path);
    file.read(magic.data(), magic.size());
  }
  const bool gguf = std::string_view(magic.data(), magic.size()) == "GGUF";
  INFER_TRY(ImportanceMatrix matrix, gguf ? load_gguf(path) : OldReader(path).read());
  if (matrix.entries.empty()) {
    return fail(StatusCode::bad_file, "{}: holds the importance of no weight", path);
  }
  return matrix;
}

Status save_importance(const std::string& path, const ImportanceMatrix& matrix) {
  Metadata metadata(path);
  metadata.set("general.type", std::string(kType));
  metadata.set("imatrix.datasets", matrix.datasets);
  metadata.set("imatrix.chunk_count", static_cast<uint32_t>(matrix.chunks));
  metadata.set("imatrix.chunk_size", static_cast<uint32_t>(matrix.chunk_tokens));
  INFER_TRY_S(const std::unique_ptr<WeightSink> sink, create_model_file("GGUF", path, metadata));
  for (const auto& [name, entry] : matrix.entries) {
    INFER_CHECK(
        sink->declare(name + std::string(kSums), tensor(DType::f32, entry.columns, entry.experts)));
    INFER_CHECK(sink->declare(name + std::string(kCounts), tensor(DType::f32, 1, entry.experts)));
  }
  INFER_CHECK(sink->begin());
  for (const auto& [name, entry] : matrix.entries) {
    INFER_CHECK(sink->write(std::as_bytes(std::span(entry.sums))));
    INFER_CHECK(sink->write(std::as_bytes(std::span(entry.counts))));
  }
  return sink->finish();
}

}  // namespace infer
