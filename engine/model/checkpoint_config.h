// The configuration of a Hugging Face checkpoint, as the architectures read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/bounds.h"
#include "engine/weights/metadata.h"

namespace infer {

/// The class that a checkpoint is one of: its entry in `architectures`, or if that is one for
/// images around several families of decoders, that of the decoder. bad_file if there is none.
Result<std::string> checkpoint_class(const Metadata& raw);

/// Keys are those of config.json (of its "text_config" where that describes the decoder, or of the
/// "transformer_layer_config" of a drafter of `speculators`), paths with dots; null counts as
/// absent. Values out of range are failures. The first failure of a checkpoint is kept here; later
/// ones change nothing.
class CheckpointConfig {
 public:
  /// `raw`: the source's metadata.
  explicit CheckpointConfig(const Metadata& raw);
  /// The keys of this section of config.json.
  CheckpointConfig(const Metadata& raw, const std::string& section);

  /// checkpoint_class(); empty if there is none.
  const std::string& checkpoint() const { return checkpoint_; }
  /// What was opened, for messages.
  const std::string& source() const { return values_.source(); }

  bool has(std::string_view key) const;
  int64_t need_int(const std::string& key, int64_t min, int64_t max);
  int64_t get_int(const std::string& key, int64_t absent, int64_t min, int64_t max);
  double get_float(const std::string& key, double absent);
  bool get_bool(const std::string& key, bool absent);
  std::string get_string(const std::string& key, const std::string& absent);
  /// Empty if absent; a single number is a list of one.
  std::vector<float> get_floats(const std::string& key);
  std::vector<int64_t> get_ints(const std::string& key);
  /// Null if absent.
  const std::vector<std::string>* get_strings(const std::string& key);
  /// Sets the value of a key that config.json leaves out because it is the family's default.
  void assume(const std::string& key, MetaValue value);
  /// Sets the value of a key that the family's code reads in another form.
  void replace(const std::string& key, MetaValue value);
  /// A list of two equal numbers, of the sides of a square, becomes one of them.
  void make_square(const std::string& key);

  /// Fails (unsupported) unless `holds`, since the engine would compute something else.
  void require(bool holds, const std::string& what);
  void fail_with(Status status);
  /// The first failure.
  const Status& status() const { return status_; }

  /// The keys of all of the checkpoint's files, with what assume() added.
  const Metadata& values() const { return values_; }
  /// What stands before the decoder's keys there: "hf.config." or "hf.config.text_config." or such.
  const std::string& prefix() const { return prefix_; }
  /// The value that was found there, or `absent`.
  template <typename T>
  T take(Result<std::optional<T>> found, const T& absent) {
    if (found) return found->value_or(absent);
    fail_with(std::move(found).error());
    return absent;
  }

 private:
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }

  Metadata values_;
  std::string prefix_;
  std::string checkpoint_;
  Status status_;
};

}  // namespace infer
