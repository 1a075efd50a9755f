#include "engine/backend/device.h"

#include <algorithm>
#include <charconv>
#include <numeric>

namespace infer {

const char* purpose_name(Purpose purpose) {
  switch (purpose) {
    case Purpose::weights: return "weights";
    case Purpose::kv: return "kv";
    case Purpose::activations: return "activations";
    case Purpose::scratch: return "scratch";
    case Purpose::host: return "host";
    case Purpose::process: return "process";
  }
  return "unknown";
}

Status Program::run(const Bindings& bindings) {
  INFER_CHECK(submit(bindings));
  return wait();
}

int64_t Device::taken_by(std::span<const int64_t> buffers) const {
  return std::accumulate(buffers.begin(), buffers.end(), int64_t{0});
}

Status Device::copy_from(Device& other, const MemoryRef&, const MemoryRef&, int64_t) {
  return error(StatusCode::unsupported, "{} cannot copy from {}", info().name, other.info().name);
}

Status Device::near_largest(const MemoryRef&, int64_t, int64_t, float,
                            std::vector<std::vector<IndexedValue>>&) {
  return error(StatusCode::unsupported, "{} does not search rows of values", info().name);
}

Result<std::unique_ptr<Device>> open_device(const std::string& name, const DeviceOptions& options) {
  const size_t colon = name.find(':');
  const std::string backend_name = name.substr(0, colon);
  int32_t index = -1;
  if (colon != std::string::npos) {
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + colon + 1, end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end || index < 0) {
      return fail(StatusCode::invalid_argument, "device '{}': expected NAME or NAME:NUMBER", name);
    }
  }
  std::string known;
  for (const BackendDef* backend : all_backends()) {
    if (backend->name == backend_name) return backend->open(index, options);
    known += (known.empty() ? "" : ", ") + std::string(backend->name);
  }
  return fail(StatusCode::not_found, "there is no device '{}'; this build knows: {}", name, known);
}

Result<std::unique_ptr<WeightStream>> Device::open_stream(
    std::span<const StreamedWeight>, std::span<const std::span<const std::byte>>,
    const MemoryRef&) {
  return fail(StatusCode::unsupported, "{} brings no weights from the host's memory", info().name);
}

std::span<const Roles> roles_of_programs(std::span<Device* const> devices, bool apart) {
  static constexpr Roles kAll[] = {Roles::generated, Roles::prompt, Roles::both};
  const bool two =
      apart || std::ranges::any_of(devices, [](const Device* d) { return d->two_classes(); });
  return std::span(kAll).first(two ? std::size(kAll) : 1);
}

}  // namespace infer
