// Weights of a mapped file that memory cannot hold: read ahead and dropped layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace infer::cpu {

/// The mapped stretches that each layer of a program uses, in the order of the layers. Dropping a
/// stretch that is still read is safe: its pages are read from the file again.
class Spill {
 public:
  /// Begins the next layer; returns its number.
  size_t add_layer();
  /// A weight of the last layer; `ahead`: to be read before the layer begins.
  void add(const std::byte* data, int64_t bytes, bool ahead);
  /// After the last: joins what lies side by side.
  void finish();

  /// A layer begins: drops the one before it and asks for the one behind it. By one thread.
  void enter(size_t layer) const;
  /// The run ends: drops the last layer and asks for the first.
  void leave() const;

 private:
  struct Stretch {
    std::byte* begin;
    int64_t bytes;
    bool ahead;
  };
  using Layer = std::vector<Stretch>;

  static void drop(const Layer& layer);
  static void ask(const Layer& layer);

  std::vector<Layer> layers_;
};

}  // namespace infer::cpu
