// The C API of errors, log and descriptions: of devices and of models.
#include "engine/session/c_api.h"

using namespace infer::c;

static_assert(INFER_LOG_DEBUG == static_cast<int>(infer::Verbosity::debug));

namespace {

std::string& last_error() {
  thread_local std::string message;
  return message;
}

}  // namespace

namespace infer::c {

infer_status record(const Status& status) {
  if (status.ok()) return INFER_OK;
  try {
    last_error() = status.message();
  } catch (...) {
    last_error().clear();
  }
  return static_cast<infer_status>(status.code());
}

Status null_argument(const char* what) {
  return error(StatusCode::invalid_argument, "{} is a null pointer", what);
}

Result<std::span<const int32_t>> token_span(const int32_t* tokens, size_t count) {
  if (tokens == nullptr && count > 0) {
    return tl::unexpected(null_argument("the array of tokens"));
  }
  if (count > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return fail(StatusCode::invalid_argument, "{} tokens are too many", count);
  }
  return std::span(tokens, count);
}

Result<infer::TokenizeOptions> tokenize_options(uint32_t flags) {
  if ((flags & ~uint32_t{INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL}) != 0) {
    return fail(StatusCode::invalid_argument, "unknown flags in {:#x}", flags);
  }
  infer::TokenizeOptions options;
  options.add_special = (flags & INFER_ADD_SPECIAL) != 0;
  options.parse_special = (flags & INFER_PARSE_SPECIAL) != 0;
  return options;
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void describe_in_c(ModelDescription description, infer_description& to) {
  to.description = std::move(description);
  const ModelDescription& d = to.description;
  to.model = {d.path.c_str(),      d.name.c_str(),      d.architecture.c_str(),
              d.file_type.c_str(), d.tokenizer.c_str(), d.chat_template.c_str(),
              d.parameters,        d.weight_bytes,      d.vocabulary,
              d.context,           d.embedding,         d.layers,
              d.metadata.size(),   d.tensors.size(),    d.unsupported.c_str()};
  to.tensors.clear();
  for (const TensorDescription& t : d.tensors) {
    to.tensors.push_back({t.name.c_str(), t.type.c_str(), t.shape.data(), t.shape.size(), t.bytes});
  }
}

infer_gpu gpu_in_c(const GpuTelemetry& gpu) {
  return {.pci = gpu.pci.c_str(),
          .throttled = gpu.throttled ? gpu.throttled->c_str() : nullptr,
          .busy = gpu.busy.value_or(-1),
          .memory_busy = gpu.memory_busy.value_or(-1),
          .memory_used = gpu.memory_used.value_or(-1),
          .memory_total = gpu.memory_total.value_or(-1),
          .celsius = gpu.celsius.value_or(-1),
          .watts = gpu.watts.value_or(-1),
          .watts_limit = gpu.watts_limit.value_or(-1),
          .core_mhz = gpu.core_mhz.value_or(-1),
          .memory_mhz = gpu.memory_mhz.value_or(-1)};
}

void list_in_c(std::vector<DeviceDescription> devices, infer_device_list& to) {
  to.devices = std::move(devices);
  to.gpus.reserve(to.devices.size());  // items point there
  for (const DeviceDescription& d : to.devices) {
    to.gpus.push_back(d.telemetry ? gpu_in_c(*d.telemetry) : infer_gpu{});
    to.items.push_back({d.name.c_str(), d.description.c_str(), d.isa.c_str(), d.memory_total,
                        d.memory_free, d.threads, d.unusable.c_str()});
    if (d.telemetry) to.items.back().gpu = &to.gpus.back();
  }
}

}  // namespace infer::c

const char* infer_status_name(infer_status status) {
  return infer::status_code_name(static_cast<StatusCode>(status));
}

const char* infer_last_error(void) { return last_error().c_str(); }

const char* infer_version(void) { return infer::version(); }

infer_status infer_set_log_level(infer_log_level level) {
  return checked([&]() -> Status {
    if (level < INFER_LOG_ERROR || level > INFER_LOG_DEBUG) {
      return infer::error(StatusCode::invalid_argument, "log level: expected 0 to 3, found {}",
                          level);
    }
    infer::set_verbosity(static_cast<infer::Verbosity>(level));
    return {};
  });
}

infer_status infer_set_log_callback(infer_log_fn log, void* user) {
  return checked([&]() -> Status {
    if (log == nullptr) {
      infer::set_log_callback({});
    } else {
      infer::set_log_callback([log, user](infer::Verbosity level, std::string_view message) {
        log(user, static_cast<infer_log_level>(level), std::string(message).c_str());
      });
    }
    return {};
  });
}

infer_status infer_device_list_create(infer_device_list** list) {
  return checked([&]() -> Status {
    if (list == nullptr) return null_argument("list");
    auto made = std::make_unique<infer_device_list>();
    list_in_c(infer::devices(), *made);
    *list = made.release();
    return {};
  });
}

void infer_device_list_free(infer_device_list* list) { delete list; }

size_t infer_device_list_size(const infer_device_list* list) {
  return list == nullptr ? 0 : list->items.size();
}

const infer_device* infer_device_list_get(const infer_device_list* list, size_t index) {
  return index < infer_device_list_size(list) ? &list->items[index] : nullptr;
}

infer_status infer_description_create(const char* path, infer_description** description) {
  return checked([&]() -> Status {
    if (path == nullptr) return null_argument("path");
    if (description == nullptr) return null_argument("description");
    auto made = std::make_unique<infer_description>();
    INFER_TRY_S(infer::ModelDescription model, infer::describe_model(path));
    describe_in_c(std::move(model), *made);
    *description = made.release();
    return {};
  });
}

void infer_description_free(infer_description* description) { delete description; }

const infer_model* infer_description_model(const infer_description* description) {
  return description == nullptr ? nullptr : &description->model;
}

const char* infer_description_key(const infer_description* description, size_t index) {
  if (description == nullptr || index >= description->model.metadata_count) return nullptr;
  return description->description.metadata[index].first.c_str();
}

const char* infer_description_value(const infer_description* description, size_t index) {
  if (description == nullptr || index >= description->model.metadata_count) return nullptr;
  return description->description.metadata[index].second.c_str();
}

const infer_tensor* infer_description_tensor(const infer_description* description, size_t index) {
  if (description == nullptr || index >= description->tensors.size()) return nullptr;
  return &description->tensors[index];
}
