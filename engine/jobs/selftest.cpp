#include <algorithm>

#include "engine/jobs/conformance.h"
#include "engine/session/engine_impl.h"

namespace infer {
namespace {

Status check_op_name(const std::string& only) {
  std::string names;
  for (const OpDef* op : all_ops()) {
    if (only.empty() || only == op->name) return {};
    names += (names.empty() ? "" : ", ") + std::string(op->name);
  }
  return error(StatusCode::invalid_argument, "there is no operation '{}'; there are: {}", only,
               names);
}

}  // namespace

Result<SelftestReport> selftest(const LoadOptions& options, const std::string& only) {
  return guarded([&]() -> Result<SelftestReport> {
    INFER_CHECK_R(check_op_name(only));
    SelftestReport all;
    for (const bool exact : {false, true}) {
      if (options.exact && !exact) continue;
      INFER_TRY(const std::unique_ptr<Device> device,
                open_device(options.device, {options.threads, exact, !options.mmap, options.isa}));
      SelftestReport report = run_conformance(*device, exact, only);
      all.passed += report.passed;
      all.failed += report.failed;
      all.unsupported += report.unsupported;
      std::ranges::move(report.failures, std::back_inserter(all.failures));
    }
    return all;
  });
}

}  // namespace infer
