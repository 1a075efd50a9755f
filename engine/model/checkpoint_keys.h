// The metadata of a model that is read from a Hugging Face checkpoint: GGUF's keys, as llama.cpp's
// converter writes them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/model/checkpoint_config.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {

/// The name of the directory that was opened, or of the one of the file.
std::string checkpoint_name(const std::string& source);

class CheckpointKeys {
 public:
  /// `source`: what was opened.
  explicit CheckpointKeys(const std::string& source) : values_(source) {}

  /// Comes first: the other keys begin with the architecture's name.
  void set_architecture(const std::string& name);
  void set_int(const std::string& key, int64_t value);
  void set_float(const std::string& key, double value);
  void set_bool(const std::string& key, bool value);
  void set_string(const std::string& key, const std::string& value);
  void set_flags(const std::string& key, std::vector<bool> values);
  void set_ints(const std::string& key, const std::vector<int64_t>& values);
  void set_floats(const std::string& key, std::vector<float> values);
  /// The same as numbers of 64 bits.
  void set_longs(const std::string& key, std::vector<uint64_t> values);
  /// A key that does not begin with the architecture's name.
  void set_whole(const std::string& key, MetaValue value) { values_.set(key, std::move(value)); }

  // What stands in every file, and comes last.

  /// The model's name and type. `elements`: of its matrices, by type.
  void add_general(const std::map<DType, int64_t>& elements);
  /// generation_config.json: what sampling begins with.
  void add_generation(CheckpointConfig& config);
  /// Special tokens that the vocabulary leaves open, and the chat templates. Without a vocabulary
  /// the ids are kept as keys alone.
  void add_texts(CheckpointConfig& config, TokenizerSpec& tokenizer);

  Metadata take() { return std::move(values_); }

 private:
  void set(const std::string& key, MetaValue value) {
    values_.set(prefix_ + key, std::move(value));
  }

  Metadata values_;
  std::string prefix_;  ///< "llama."
};

}  // namespace infer
