// A model that is served.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "infer/infer.hpp"

namespace infer::server {

class ServedModel {
 public:
  /// `source`: a chat template in place of the model's; may be empty. `slots`: sessions that the
  /// engine computes together. bad_file: the template.
  static Result<std::unique_ptr<ServedModel>> create(std::unique_ptr<Engine> engine,
                                                     std::string name, std::string source,
                                                     int32_t slots);

  Engine& engine() const { return *engine_; }
  const std::string& name() const { return name_; }
  int32_t slots() const { return slots_; }
  /// Empty: the model has none.
  const std::string& template_source() const { return source_; }
  /// The text that the model continues. `variables`: an object with "messages" and what else the
  /// template is to see, as chat::render_conversation() takes them. invalid_argument: the template
  /// refuses them; or the model has none.
  Result<std::string> render(nlohmann::ordered_json variables) const;

 private:
  std::unique_ptr<Engine> engine_;
  std::string name_;
  std::string source_;
  std::unique_ptr<ChatTemplate> template_;
  int32_t slots_ = 0;
};

}  // namespace infer::server
