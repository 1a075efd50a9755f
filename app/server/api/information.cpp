// What a client can ask about the server and its models, and which of them are to be loaded.
#include <fmt/format.h>

#include <algorithm>

#include "server/api/api.h"

namespace infer::server {
namespace {

const char* state_of(const ModelPool::Entry& entry) {
  if (entry.model != nullptr) return "loaded";
  return entry.loading ? "loading" : "unloaded";
}

void send_state(Exchange& exchange, const std::string& name, const char* state) {
  send_json(exchange, {{"id", name}, {"object", "model"}, {"status", state}});
}

Json model_json(const ModelPool& pool, const ModelPool::Entry& entry) {
  Json model = {{"id", entry.source.name},
                {"object", "model"},
                {"created", pool.created()},
                {"owned_by", "infer"},
                {"status", state_of(entry)}};
  if (entry.model == nullptr) return model;
  const Engine& engine = entry.model->engine();
  const ModelDescription& description = engine.model();
  model["max_model_len"] = engine.memory().longest;
  model["meta"] = {{"vocab_type", description.tokenizer}, {"n_vocab", engine.vocabulary_size()},
                   {"n_ctx_train", description.context},  {"n_embd", description.embedding},
                   {"n_params", description.parameters},  {"size", description.weight_bytes}};
  return model;
}

/// A text with %XX resolved.
std::string unescaped(std::string_view given) {
  const auto digit = [](char c) { return std::string_view("0123456789abcdef").find(c | 32); };
  std::string value;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == '%' && i + 2 < given.size() && digit(given[i + 1]) < 16 &&
        digit(given[i + 2]) < 16) {
      value += static_cast<char>(digit(given[i + 1]) * 16 + digit(given[i + 2]));
      i += 2;
    } else {
      value += given[i];
    }
  }
  return value;
}

/// The value of a field of the query, with %XX and '+' resolved. Empty if it is absent.
std::string query_value(const std::string& query, std::string_view name) {
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string_view field = std::string_view(query).substr(at, end - at);
    at = end + 1;
    if (!field.starts_with(name) || field.substr(name.size()).find('=') != 0) continue;
    std::string value(field.substr(name.size() + 1));
    std::ranges::replace(value, '+', ' ');
    return unescaped(value);
  }
  return {};
}

}  // namespace

std::string model_of_query(const Call& call) {
  Json named = Json::object();
  if (std::string name = query_value(call.exchange->request().query, "model"); !name.empty()) {
    named["model"] = std::move(name);
  }
  return call.api.model_name(named);
}

void list_models(const Call& call) {
  Json data = Json::array();
  for (const ModelPool::Entry& entry : call.api.pool().list()) {
    data.push_back(model_json(call.api.pool(), entry));
  }
  send_json(*call.exchange, {{"object", "list"}, {"data", std::move(data)}});
}

void retrieve_model(const Call& call) {
  constexpr std::string_view kBefore = "/v1/models/";
  const std::string name =
      unescaped(std::string_view(call.exchange->request().path).substr(kBefore.size()));
  for (const ModelPool::Entry& entry : call.api.pool().list()) {
    if (entry.source.name != name) continue;
    return send_json(*call.exchange, model_json(call.api.pool(), entry));
  }
  throw Problem(404, fmt::format("there is no model '{}' here", name), "model");
}

void load_model(const Call& call) { send_state(*call.exchange, call.model->name(), "loaded"); }

void unload_model(const Call& call) {
  const std::string name = call.api.model_name(call.body);
  if (call.api.pool().single()) {
    throw Problem(400, "the server was started with this one model, which stays", "model");
  }
  call.api.pool().unload(
      name, [exchange = call.exchange] { return !exchange->closed(); },
      [exchange = call.exchange, name](const Result<ModelLease>& unloaded) {
        Api::guard(*exchange, [&] {
          must_have(unloaded);
          send_state(*exchange, name, "unloaded");
        });
      });
}

void health(const Call& call) { send_json(*call.exchange, {{"status", "ok"}}); }

void ready(const Call& call) {
  if (call.api.draining()) {
    send_json(*call.exchange, {{"status", "draining"}}, 503);
  } else {
    send_json(*call.exchange, {{"status", "ok"}});
  }
}

void props(const Call& call) {
  const std::string name = model_of_query(call);
  const ModelLease model = call.api.pool().find(name);
  Json json = {{"model_alias", name}, {"build_info", version()}};
  json["is_sleeping"] = model == nullptr;
  if (model != nullptr) {
    const MemoryReport memory = model->engine().memory();
    json["default_generation_settings"] = {{"n_ctx", memory.longest}};
    json["chat_template"] = model->template_source();
    if (const std::string& tools = model->template_source(true);
        tools != model->template_source()) {
      json["chat_template_tool_use"] = tools;
    }
  }
  send_json(*call.exchange, json);
}

void metrics(const Call& call) {
  std::vector<MeasuredModel> models;
  for (const ModelPool::Entry& entry : call.api.pool().list()) {
    models.push_back({entry.source.name, entry.model});
  }
  const TraceExporter* const traces = call.api.traces();
  call.exchange->send(200, "text/plain; version=0.0.4; charset=utf-8",
                      call.api.metrics().text(models, traces ? &traces->counts() : nullptr));
}

}  // namespace infer::server
