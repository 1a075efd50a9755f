// A model that is served.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "infer/infer.hpp"

namespace infer::server {

/// A failure with a model's name in place of its path, which clients do not know.
Status for_clients(const Status& status, const std::string& path, const std::string& name);

class ServedModel {
 public:
  /// `source`: a chat template in place of the model's; may be empty. `slots`: sessions that the
  /// engine computes together. `most_waiting`: requests that may wait beyond them; -1: any number.
  /// bad_file: the template.
  static Result<std::unique_ptr<ServedModel>> create(std::unique_ptr<Engine> engine,
                                                     std::string name, std::string source,
                                                     int32_t slots, int32_t most_waiting = -1);

  Engine& engine() const { return *engine_; }
  const std::string& name() const { return name_; }
  int32_t slots() const { return slots_; }
  /// By adapter: what it is multiplied with where a request does not say. Any thread.
  std::vector<float> adapters() const;
  void set_adapters(std::vector<float> factors);
  /// Empty: the model has none. `tools`: of conversations with tools, for which some models have a
  /// template of their own.
  const std::string& template_source(bool tools = false) const {
    return tools && tool_template_ ? tool_source_ : source_;
  }
  /// The text that the model continues. `variables`: an object with "messages" and what else the
  /// template is to see, as chat::render_conversation() takes them. invalid_argument: the template
  /// refuses them; or the model has none.
  /// `images`: places that the text is to have for images, each {"type": "image"} in a content.
  Result<std::string> render(nlohmann::ordered_json variables, size_t images = 0) const;

  /// A request has one place until it is answered, however many answers it wants. False: all
  /// places are taken. Any thread.
  bool take_place();
  void give_place_back() { --requests_; }
  /// How often all places were taken.
  int64_t refused() const { return refused_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::string name_;
  std::string source_;
  std::string tool_source_;
  std::unique_ptr<ChatTemplate> template_;
  std::unique_ptr<ChatTemplate> tool_template_;  ///< null: it is no other
  int32_t slots_ = 0;
  mutable std::mutex adapters_mutex_;
  std::vector<float> adapters_;
  int64_t most_requests_ = -1;  // -1: any number
  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> refused_{0};
};

}  // namespace infer::server
