#include "engine/model/ngram_layer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/builder.h"

namespace infer {
namespace {

constexpr int64_t kMostHashes = 64;  ///< of n-grams of one length
constexpr int64_t kMostRow = int64_t{1} << 20;
constexpr const char* kNgramTable = "per_layer_token_embd.weight";

/// At least `count` numbers of a key; those behind them are left out.
std::vector<uint64_t> read_numbers(HparamReader& r, const char* key, int64_t count, int64_t least) {
  const std::string name = r.architecture() + ".ple." + key;
  const auto found = r.metadata().get_ints(name, least, INT64_MAX);
  std::vector<int64_t> values;
  if (!found) r.set_error(found.error());
  if (found && *found) values = **found;
  if (std::ssize(values) < count) {
    r.set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} numbers, found {}",
                      r.metadata().source(), name, count, values.size()));
  }
  values.resize(static_cast<size_t>(count), least);
  return {values.begin(), values.end()};
}

void find_table(HparamReader& r, NgramSpec& spec) {
  const std::string& file = r.metadata().source();
  spec.table = weight_index(r.source(), kNgramTable);
  if (spec.table < 0) {
    return r.set_error(
        error(StatusCode::bad_file, "{}: tensor '{}' is missing", file, kNgramTable));
  }
  const TensorDesc& table = r.source().weights()[static_cast<size_t>(spec.table)].desc;
  const DType type = table.type;
  if (table.shape[0] != spec.width || table.rows() != table.shape[1] || type == DType::i8 ||
      type == DType::i16 || type == DType::i32 || type == DType::i64) {
    return r.set_error(error(StatusCode::bad_file,
                             "{}: tensor '{}': expected numbers [{}, rows], found {}", file,
                             kNgramTable, spec.width, to_string(table)));
  }
  const auto rows = static_cast<uint64_t>(table.shape[1]);
  for (const auto& [offset, size] : spec.heads) {
    if (size <= rows && offset <= rows - size) continue;
    return r.set_error(error(StatusCode::bad_file,
                             "{}: ple.head_offsets: expected rows of '{}', which has {}, found {} "
                             "rows from {} on",
                             file, kNgramTable, rows, size, offset));
  }
}

}  // namespace

std::optional<NgramLayer> read_ngram_layer(HparamReader& r, const DecoderParams& params) {
  const std::string& file = r.metadata().source();
  const auto layers = r.metadata().get_ints(r.architecture() + ".ple.layers", 0, INT32_MAX);
  if (!layers) r.set_error(layers.error());
  if (!layers || !*layers || (*layers)->empty()) return std::nullopt;
  NgramLayer ngrams;
  ngrams.layer = (*layers)->front();
  if ((*layers)->size() != 1 || ngrams.layer >= params.layers) {
    r.set_error(error(StatusCode::unsupported,
                      "{}: ple.layers: expected one of {} layers, found {} of them, {} the first",
                      file, params.layers, (*layers)->size(), ngrams.layer));
    return std::nullopt;
  }
  const int64_t longest = r.need_int("ple.ngram_size", 2, kMostNgram);
  const int64_t each = r.need_int("ple.heads_per_ngram", 1, kMostHashes);
  ngrams.taps = r.need_int("ple.conv_kernel", 2, kMostTaps);
  if ((ngrams.taps - 1) * longest >= kMostTaps) {
    r.set_error(error(StatusCode::unsupported,
                      "{}: ple.conv_kernel: expected at most {} tokens between the first and the "
                      "last of {} taps, which are {} apart",
                      file, kMostTaps - 1, ngrams.taps, longest));
  }
  NgramSpec& spec = ngrams.spec;
  const int64_t heads = (longest - 1) * each;
  spec.multipliers = read_numbers(r, "layer_multipliers", longest, 0);
  const std::vector<uint64_t> offsets = read_numbers(r, "head_offsets", heads, 0);
  const std::vector<uint64_t> sizes = read_numbers(r, "head_vocab_sizes", heads, 1);
  for (size_t h = 0; h < sizes.size(); ++h) spec.heads.push_back({offsets[h], sizes[h]});
  const int64_t last = std::max<int64_t>(params.vocabulary, 1) - 1;
  spec.end = static_cast<int32_t>(r.need_int("ple.eos_token_id", 0, last));
  spec.image = static_cast<int32_t>(r.get_int("ple.image_token_id", spec.end, 0, last));
  spec.width = r.need_int("embedding_length_per_layer_input", 1, kMostRow);
  find_table(r, spec);
  return ngrams;
}

namespace {

uint64_t split_mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The multipliers that transformers draws (SplitMix64, Steele et al. 2014): odd, and so small that
/// no product with an id needs more than 63 bits.
std::vector<uint64_t> draw_multipliers(uint64_t seed, int64_t tokens, int64_t vocabulary) {
  const int64_t half = std::max<int64_t>(1, INT64_MAX / std::max<int64_t>(vocabulary, 1) / 2);
  std::vector<uint64_t> drawn;
  for (uint64_t i = 1; i <= static_cast<uint64_t>(tokens); ++i) {
    const uint64_t x = split_mix(seed + 0x9E3779B97F4A7C15 * i);
    drawn.push_back(2 * (x % static_cast<uint64_t>(half)) + 1);
  }
  return drawn;
}

bool is_prime(uint64_t n) {
  for (uint64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n >= 2;
}

/// The first `count` primes from `least` on.
std::vector<uint64_t> find_primes(uint64_t least, int64_t count) {
  std::vector<uint64_t> primes;
  for (uint64_t n = least; std::ssize(primes) < count; ++n) {
    if (is_prime(n)) primes.push_back(n);
  }
  return primes;
}

/// The constants of the hashes, in the three keys. `rows`: of the table.
void map_hashes(CheckpointMap& m, const std::string& from, int64_t longest, int64_t heads,
                int64_t rows) {
  const auto stored = [&](const char* name, int64_t count, std::vector<uint64_t> otherwise) {
    if (!m.tensors.has(from + name)) return otherwise;
    const std::vector<int64_t> values = m.tensors.integers(from + name, count);
    const bool good = std::ranges::none_of(values, [](int64_t v) { return v < 0; });
    m.config.require(good, fmt::format("a number below 0 in {}{}", from, name));
    return std::vector<uint64_t>(values.begin(), values.end());
  };
  const int64_t seed = m.config.get_int("seed", 1234, 0, INT64_MAX);
  const int64_t vocabulary = m.config.need_int("vocab_size", 1, INT32_MAX);
  m.keys.set_longs("ple.layer_multipliers",
                   stored("layer_multipliers", longest,
                          draw_multipliers(static_cast<uint64_t>(seed), longest, vocabulary)));
  // Each head has at least `base` rows. A larger one would take long to find primes for.
  const int64_t most = std::max<int64_t>(rows / heads, 1);
  std::vector<uint64_t> primes;
  if (!m.tensors.has(from + "ngram_heads_vocab_sizes")) {
    const int64_t usual = std::min<int64_t>(20'000'000, most);
    const int64_t base = m.config.get_int("ngram_vocab_size_base", usual, 1, most);
    primes = find_primes(static_cast<uint64_t>(base), heads);
  }
  const std::vector<uint64_t> sizes = stored("ngram_heads_vocab_sizes", heads, std::move(primes));
  std::vector<uint64_t> offsets{0};
  for (const uint64_t size : sizes) offsets.push_back(offsets.back() + size);
  offsets.pop_back();
  m.keys.set_longs("ple.head_offsets", stored("ngram_heads_offsets", heads, std::move(offsets)));
  m.keys.set_longs("ple.head_vocab_sizes", sizes);
}

/// The table, whole or in parts ("shard_0", …), with rows of `width` elements. Returns their
/// number.
int64_t map_table(CheckpointMap& m, const std::string& from, int64_t width) {
  CheckpointTensors& t = m.tensors;
  if (!t.has(from + "shard_0.weight")) {
    const int64_t all = t.shape_of(from + "weight")[1];
    t.put(kNgramTable, t.view(from + "weight", {width, all}));
    return all;
  }
  std::vector<TensorView> parts;
  int64_t rows = 0;
  for (int64_t i = 0;; ++i) {
    const std::string name = fmt::format("{}shard_{}.weight", from, i);
    if (!t.has(name) || !t.ok()) break;
    parts.push_back(t.view(name, {width, t.shape_of(name)[1]}));
    rows += parts.back().shape[1];
  }
  t.put_parts(kNgramTable, std::move(parts), {width, rows});
  return rows;
}

}  // namespace

void map_ngram_layer(CheckpointMap& m) {
  const std::vector<int64_t> layers = m.config.get_ints("ple_layer_ids");
  if (layers.empty()) return;
  m.config.require(layers.size() == 1 && layers[0] >= 1 && layers[0] <= m.layer_count(),
                   "ple_layer_ids other than the number of one layer");
  const int64_t layer = layers[0] - 1;
  const int64_t longest = m.config.get_int("ngram_size", 3, 2, kMostNgram);
  const int64_t each = m.config.get_int("heads_per_ngram", 8, 1, kMostHashes);
  const int64_t heads = (longest - 1) * each;
  const int64_t width = m.config.get_int(
      "ple_embed_dim", m.config.need_int("hidden_size", 1, kMostRow), 1, kMostRow * kMostHashes);
  m.config.require(width % heads == 0,
                   fmt::format("a ple_embed_dim of {} with {} heads", width, heads));
  const std::vector<int64_t> ends = m.config.get_ints("eos_token_id");
  m.config.require(!ends.empty(), "a configuration without eos_token_id");
  if (!m.config.status().ok()) return;
  const int64_t taps = m.config.get_int("ple_conv_kernel_size", 4, 2, kMostTaps);
  m.keys.set_ints("ple.layers", {layer});
  m.keys.set_int("ple.ngram_size", longest);
  m.keys.set_int("ple.heads_per_ngram", each);
  m.keys.set_int("ple.conv_kernel", taps);
  m.keys.set_int("ple.eos_token_id", ends[0]);
  m.keys.set_int("embedding_length_per_layer_input", width / heads);
  // Of the whole model, which also sees.
  constexpr const char* kImage = "hf.config.image_token_id";
  if (const auto image = m.config.values().get_int(kImage, 0, INT32_MAX); image && *image) {
    m.keys.set_int("ple.image_token_id", **image);
  }
  const std::string from = layer_name(layer, "ple.");
  const int64_t rows = map_table(m, from + "ple_embedding.ngram_embedding.", width / heads);
  map_hashes(m, from + "ple_embedding.", longest, heads, rows);
  const auto copy = [&](const char* name, const char* to, Change change = Change::none) {
    m.tensors.copy(from + name + ".weight", block_name(layer, to) + ".weight", change);
  };
  copy("key_proj", "ple_key");
  copy("value_proj", "ple_value");
  copy("norm_key", "ple_norm_key", Change::add_one);
  copy("norm_query", "ple_norm_query", Change::add_one);
  copy("norm_conv", "ple_norm_conv", Change::add_one);
  const int64_t channels = m.tensors.shape_of(from + "conv1d.weight")[2];
  m.tensors.put(block_name(layer, "ple_conv1d.weight"),
                m.tensors.view(from + "conv1d.weight", {taps, channels}));
}

}  // namespace infer
