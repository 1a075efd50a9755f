// llama.cpp's field `lora`, and its GET and POST /lora-adapters.
#include "server/api/adapters.h"

#include <fmt/format.h>

#include <filesystem>

#include "server/api/api.h"

namespace infer::server {
namespace {

ModelLease loaded_model(const Call& call) {
  const std::string name = model_of_query(call);
  ModelLease model = call.api.pool().find(name);
  if (model == nullptr) throw Problem(503, fmt::format("the model '{}' is not loaded", name));
  return model;
}

void send_adapters(Exchange& exchange, const ServedModel& model) {
  Json all = Json::array();
  const std::vector<float> factors = model.adapters();
  for (const AdapterDescription& adapter : model.engine().adapters()) {
    all.push_back({{"id", all.size()},
                   // Clients do not know the server's folders.
                   {"path", std::filesystem::path(adapter.path).filename().string()},
                   {"scale", factors[all.size()]},
                   {"task_name", adapter.task}});
  }
  send_json(exchange, all);
}

}  // namespace

std::vector<float> read_adapters(Fields& fields, const ServedModel& model) {
  std::vector<float> factors = model.adapters();
  const size_t count = factors.size();
  const Json* given = fields.array("lora", count);
  if (given == nullptr) return factors;
  factors.assign(count, 0.0f);
  for (size_t i = 0; i < given->size(); ++i) {
    Fields adapter((*given)[i], fields.path_of(fmt::format("lora[{}]", i)));
    const auto id = adapter.integer("id", 0, static_cast<int64_t>(count) - 1);
    if (!id) adapter.wrong("id", "the number of an adapter");
    factors[static_cast<size_t>(*id)] =
        static_cast<float>(adapter.number("scale", -1e6, 1e6).value_or(1));
  }
  return factors;
}

void adapters(const Call& call) { send_adapters(*call.exchange, *loaded_model(call)); }

void set_adapters(const Call& call) {
  const ModelLease model = loaded_model(call);
  const Json given = parse_json(call.exchange->request().body);
  if (given.is_discarded() || given.is_null()) {
    throw Problem(400, "the body: expected an array of adapters in JSON");
  }
  const Json body = {{"lora", given}};
  Fields fields(body);
  model->set_adapters(read_adapters(fields, *model));
  send_adapters(*call.exchange, *model);
}

}  // namespace infer::server
