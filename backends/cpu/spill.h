// Weights of a mapped file that is larger than memory: reads layers ahead and drops them after use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace infer::cpu {

/// The mapped parts that each layer of a program uses, in the order of the layers. Dropping a part
/// while it is still in use is safe: the system reads its pages from the file again.
class Spill {
 public:
  /// Begins the next layer; returns its number.
  size_t add_layer();
  /// Adds a weight to the last layer. `ahead`: read it before the layer begins.
  void add(const std::byte* data, int64_t bytes, bool ahead);
  /// Called after the last layer: joins adjacent parts.
  void finish();

  /// A layer begins: drops the previous one and starts reading the next one. Called by one thread.
  void enter(size_t layer) const;
  /// The run ends: drops the last layer and starts reading the first one.
  void leave() const;

 private:
  struct Stretch {
    const std::byte* begin;
    int64_t bytes;
    bool ahead;
  };
  using Layer = std::vector<Stretch>;

  static void drop(const Layer& layer);
  static void ask(const Layer& layer);

  std::vector<Layer> layers_;
};

}  // namespace infer::cpu
