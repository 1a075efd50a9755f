// What ollama's clients ask about the models: /api/tags, /api/ps, /api/show, /api/version.
#include <fmt/format.h>

#include "platform/folders.h"
#include "server/api/api.h"

namespace infer::server {
namespace {

/// As ollama writes a count of parameters.
std::string short_count(int64_t count) {
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000'000) return fmt::format("{:.1f}B", number / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.2f}M", number / 1e6);
  if (count >= 1'000) return fmt::format("{:.0f}K", number / 1e3);
  return fmt::format("{}", count);
}

Json details_of(const ModelDescription& model) {
  return {{"format", "gguf"},
          {"family", model.architecture},
          {"families", Json::array({model.architecture})},
          {"parameter_size", short_count(model.parameters)},
          {"quantization_level", model.file_type}};
}

/// What stands for the SHA-256 of a model's files, which clients show the beginning of: reading
/// these would take too long.
std::string digest_of(const ModelSource& source) {
  const uint64_t name = std::hash<std::string>()(source.name);
  return fmt::format("{:016x}{:016x}{:032x}", name, static_cast<uint64_t>(source.bytes), 0);
}

/// A model that is not loaded is known by its name and size.
Json entry_of(const ModelPool::Entry& model) {
  Json details = {{"format", "gguf"}};
  if (model.model != nullptr) details = details_of(model.model->engine().model());
  return {{"name", model.source.name},
          {"model", model.source.name},
          {"modified_at", platform::changed_text(model.source.path)},
          {"size", model.source.bytes},
          {"digest", digest_of(model.source)},
          {"details", std::move(details)}};
}

/// What a model can do, apart from its template.
struct Abilities {
  bool vectors = false;
  bool fills_in = false;
  bool sees = false;
};

bool can_fill_in(const Vocabulary& vocabulary) {
  constexpr int64_t kMost = 64;
  const auto made = vocabulary.infill({}, kMost);
  return made || made.error().code() != StatusCode::unsupported;
}

Abilities abilities_of(const Engine& engine) {
  return {engine.makes_embeddings(), can_fill_in(engine.vocabulary()), engine.reads_images()};
}

/// Of a model that is not loaded, by its file.
Abilities abilities_of(const ModelDescription& model, const LoadOptions& options) {
  Abilities abilities{.vectors = options.embeddings, .sees = !options.vision.empty()};
  for (const auto& [key, value] : model.metadata) {
    const bool pools = key == model.architecture + ".pooling_type" && value != "0";
    const bool reads_all = key == model.architecture + ".attention.causal" && value == "false";
    abilities.vectors = abilities.vectors || pools || reads_all;
  }
  const auto vocabulary = Vocabulary::load(model.path);
  abilities.fills_in = vocabulary && can_fill_in(**vocabulary);
  return abilities;
}

/// Whether answers of a chat template may have reasoning.
bool shows_reasoning(const std::string& source) {
  const auto parser = OutputParser::create(source, "");
  if (parser && (*parser)->format() == "harmony") return true;
  // The source as a grammar has all marks of the template's, so that one which has marks of
  // reasoning is not constrained by it.
  GenerateOptions options;
  options.grammar = source;
  return !source.empty() && !OutputParser::is_constrained(source, options);
}

}  // namespace

void ollama_tags(const Call& call) {
  Json models = Json::array();
  for (const ModelPool::Entry& model : call.api.pool().list()) models.push_back(entry_of(model));
  send_json(*call.exchange, {{"models", std::move(models)}});
}

void ollama_ps(const Call& call) {
  Json models = Json::array();
  for (const ModelPool::Entry& model : call.api.pool().list()) {
    if (model.model == nullptr) continue;
    Json entry = entry_of(model);
    entry["size_vram"] = 0;
    // Far away, if it goes only when memory is needed.
    entry["expires_at"] = model.left ? platform::utc_text(*model.left) : "2318-01-01T00:00:00Z";
    entry["context_length"] = model.model->engine().memory().longest;
    models.push_back(std::move(entry));
  }
  send_json(*call.exchange, {{"models", std::move(models)}});
}

void ollama_show(const Call& call) {
  Json named = call.body;
  if (!named.contains("model") && named.contains("name")) named["model"] = named["name"];  // older
  const std::string name = call.api.model_name(named);
  const ModelLease model = call.api.pool().find(name);
  ModelDescription description;
  if (model != nullptr) {
    description = model->engine().model();
  } else {
    for (const ModelPool::Entry& entry : call.api.pool().list()) {
      if (entry.source.name != name) continue;
      Result<ModelDescription> described = describe_model(entry.source.path);
      if (!described) {
        const Status why = for_clients(described.error(), entry.source.path, name);
        throw Problem(503, why.message(), "", true);
      }
      description = *std::move(described);
    }
  }
  const std::string& source =
      model != nullptr ? model->template_source() : description.chat_template;
  const std::string& tool_source =
      model != nullptr ? model->template_source(true) : description.tool_template;
  const Abilities abilities = model != nullptr
                                  ? abilities_of(model->engine())
                                  : abilities_of(description, call.api.pool().load_options());
  Json capabilities = Json::array({abilities.vectors ? "embedding" : "completion"});
  const auto add = [&](bool can, const char* name) {
    if (can && !abilities.vectors) capabilities.push_back(name);
  };
  add((source + tool_source).find("tools") != std::string::npos, "tools");
  add(abilities.fills_in, "insert");
  add(abilities.sees, "vision");
  add(shows_reasoning(source), "thinking");
  send_json(*call.exchange,
            {{"modelfile", ""},
             {"parameters", ""},
             {"template", source},
             {"details", details_of(description)},
             {"model_info",
              {{"general.architecture", description.architecture},
               {"general.parameter_count", description.parameters},
               {description.architecture + ".context_length", description.context},
               {description.architecture + ".embedding_length", description.embedding}}},
             {"capabilities", std::move(capabilities)}});
}

void ollama_version(const Call& call) { send_json(*call.exchange, {{"version", version()}}); }

}  // namespace infer::server
