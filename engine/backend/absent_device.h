// Devices that are not present, for planning: a back end answers as it would for the device itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/backend/device.h"

namespace infer {

struct AbsentDevice {
  std::string name;
  int64_t memory = 0;     ///< bytes
  bool matrices = false;  ///< it has matrix units for float16, which compute prompts
  bool exact = false;     ///< DeviceOptions::exact
};

/// What a device that is not present cannot do.
class NotPresent : public Device {
 public:
  Ceilings measure_ceilings() override { return {}; }
  bool asynchronous() const override { return true; }
  Result<std::unique_ptr<Buffer>> alloc(int64_t, Purpose) override {
    return tl::unexpected(absent());
  }
  int64_t allocated(Purpose) const override { return 0; }
  Status load_weight(const TensorDesc&, const ReadFn&, const MemoryRef&) override {
    return absent();
  }
  std::unique_ptr<Buffer> adopt(const TensorDesc&, std::span<const std::byte>) override {
    return nullptr;
  }
  Result<std::unique_ptr<Program>> compile(const CompileSpec&) override {
    return tl::unexpected(absent());
  }
  Status read(const MemoryRef&, std::span<std::byte>) override { return absent(); }
  Status write(std::span<const std::byte>, const MemoryRef&) override { return absent(); }
  Status copy(const MemoryRef&, const MemoryRef&, int64_t) override { return absent(); }

 private:
  Status absent() const {
    return error(StatusCode::unsupported, "{} is not present: it can only be planned for",
                 info().name);
  }
};

/// A back end that can plan for devices that are not present.
struct AbsentDef {
  const char* name;
  /// A device that answers all const queries. Everything else fails with unsupported.
  std::unique_ptr<Device> (*make)(const AbsentDevice& device);
};

/// Generated from the back ends that have a file <name>_absent.cpp.
std::span<const AbsentDef* const> all_absent();

}  // namespace infer
