#include "engine/plan/host_bytes.h"

#include <type_traits>
#include <variant>

namespace infer {
namespace {

/// Code and data of the program and of the C and C++ libraries, allocator and log included.
constexpr int64_t kProgram = 17 << 20;
/// Of an allocation, beside its bytes.
constexpr int64_t kAllocation = 16;
/// Of a token: places in tables from bytes to ids, and the tree of its bytes.
constexpr int64_t kToken = 64;
constexpr int64_t kTokenByte = 20;
constexpr int64_t kMerge = 40;
/// Of a node's kernel call with its operands, and of an operand's places.
constexpr int64_t kCall = 320;
constexpr int64_t kValuePlace = 48;
/// Of a weight: its name in tables, its place and its buffer.
constexpr int64_t kWeight = 256;
/// Of a candidate token in a sampler's lists: edited logits, candidates and their copy.
constexpr int64_t kCandidate = 20;
/// Of a page of the cache: its place in the pool and what is known of its tokens.
constexpr int64_t kCachedPage = 640;

int64_t text_bytes(const std::string& text) {
  constexpr size_t kInPlace = 15;
  const auto size = static_cast<int64_t>(text.size());
  return int64_t{sizeof(std::string)} + (text.size() > kInPlace ? size + kAllocation : 0);
}

int64_t text_bytes(const std::vector<std::string>& texts) {
  int64_t sum = 0;
  for (const std::string& text : texts) sum += text_bytes(text);
  return sum;
}

int64_t value_bytes(const MetaValue& value) {
  return std::visit(
      [](const auto& v) -> int64_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string> ||
                      std::is_same_v<T, std::vector<std::string>>) {
          return text_bytes(v);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return 0;
        } else {
          return static_cast<int64_t>(v.size() * sizeof(typename T::value_type));
        }
      },
      value);
}

int64_t vocabulary_bytes(const TokenizerSpec& spec) {
  int64_t sum = text_bytes(spec.tokens) + text_bytes(spec.merges);
  sum += static_cast<int64_t>(spec.scores.size() * sizeof(float) + spec.types.size());
  for (const std::string& token : spec.tokens) {
    sum += kToken + kTokenByte * static_cast<int64_t>(token.size());
  }
  sum += kMerge * static_cast<int64_t>(spec.merges.size());
  // Kept by the source and unpacked by the tokenizer.
  return sum + 2 * static_cast<int64_t>(spec.precompiled_charsmap.size());
}

}  // namespace

int64_t rope_table_bytes(const ModelInfo& info, int64_t rows) {
  int64_t sum = 0;
  for (const RopeSpec& spec : info.ropes) {
    sum += 2 * int64_t{spec.pairs} * rows * int64_t{sizeof(float)};
  }
  return sum;
}

int64_t host_bytes(const ModelInfo& info, int64_t rows, int64_t outputs, int64_t context) {
  constexpr int64_t kId = sizeof(int32_t);
  // Vectors that grow take up to twice what they hold.
  const int64_t inputs =
      2 * kId * (info.embeds ? 9 * rows + 2 * outputs : (info.block ? 7 : 6) * rows + outputs);
  // A draft head's hidden states grow likewise; what the model returns is copied once.
  const int64_t states =
      rows * int64_t{sizeof(float)} *
      (2 * (info.takes_hidden + info.takes_own) + (info.returns_hidden ? info.hidden_width() : 0));
  int64_t images = 0;
  for (const int64_t width : info.takes_images) images += 2 * int64_t{sizeof(float)} * width * rows;
  images += 2 * kId * (info.more_output_rows * outputs + (info.parted ? 2 * rows : 0));
  // Of n-grams, and the places that they are read from.
  const int64_t ngrams = info.ngrams
                             ? rows * (info.ngrams->elements() * int64_t{sizeof(float)} +
                                       std::ssize(info.ngrams->heads) * int64_t{sizeof(uint64_t)})
                             : 0;
  const auto adapters = 2 * int64_t{sizeof(float)} * std::ssize(info.adapter_alphas) * rows;
  const int64_t tokens = 2 * kId * context + kCachedPage * (context / kPageTokens);
  return rope_table_bytes(info, rows) + inputs + images + ngrams + adapters + states + tokens +
         kCandidate * info.vocabulary;
}

int64_t step_program_bytes(const Graph& graph) {
  auto sum = static_cast<int64_t>(graph.values().size()) * (int64_t{sizeof(Value)} + kValuePlace);
  for (const Node& node : graph.nodes()) {
    const size_t ids = node.inputs.size() + node.outputs.size();
    sum += int64_t{sizeof(Node)} + static_cast<int64_t>(ids * sizeof(ValueId)) + 2 * kAllocation;
    sum += kCall;
  }
  return sum;
}

int64_t program_bytes(const DeviceInfo& device) {
  return kProgram + device.thread_stack * (int64_t{device.threads} + 1);
}

int64_t model_bytes(const WeightSource& source) {
  int64_t sum = 0;
  for (const auto& [key, value] : source.metadata().values()) {
    sum += text_bytes(key) + int64_t{sizeof(MetaValue)} + value_bytes(value) + 4 * kAllocation;
  }
  for (const Weight& weight : source.weights()) {
    sum += int64_t{sizeof(Weight)} + 2 * text_bytes(weight.name) + kWeight;
  }
  return sum + vocabulary_bytes(source.tokenizer());
}

}  // namespace infer
