#include "engine/core/thread_pool.h"
#include "engine/jobs/conformance.h"
#include "engine/session/engine_impl.h"
#include "engine/session/guarded.h"
#include "infer/jobs.hpp"

namespace infer {
namespace {

Status check_op_name(const std::string& only) {
  std::string names;
  for (const OpDef* op : all_ops()) {
    if (only.empty() || only == op->name) return {};
    names += (names.empty() ? "" : ", ") + std::string(op->name);
  }
  return error(StatusCode::invalid_argument, "unknown operation '{}'; expected one of {}", only,
               names);
}

}  // namespace

Result<SelftestReport> selftest(const LoadOptions& options, const std::string& only) {
  return guarded([&]() -> Result<SelftestReport> {
    INFER_CHECK_R(check_op_name(only));
    SelftestReport all;
    // Of all threads: small cases are not left to one.
    const int32_t threads = options.threads > 0 ? options.threads : available_threads();
    const auto open = [&](const std::string& isa, bool exact) {
      return open_device(options.device, {threads, exact, !options.mmap, isa});
    };
    INFER_TRY(const std::unique_ptr<Device> device, open(options.isa, options.exact));
    std::vector<std::string> isas = device->info().isas;
    if (isas.empty() || !options.isa.empty()) isas = {options.isa};
    const double runs = static_cast<double>(isas.size()) * (options.exact ? 1 : 2);
    double done = 0;
    Status ended;
    const ProgressFn progress = [&](double of_run) {
      ended = tell(options.progress, (done + of_run) / runs);
      return ended.ok();
    };
    for (const std::string& isa : isas) {
      for (const bool exact : {false, true}) {
        if (options.exact && !exact) continue;
        const Result<std::unique_ptr<Device>> variant = open(isa, exact);
        if (!variant) {
          if (variant.error().code() != StatusCode::invalid_argument) {
            return tl::unexpected(variant.error());
          }
          // The device itself was opened, so it is these kernels that do not run here.
          if (!exact || options.exact) all.untested.push_back(isa);
          continue;
        }
        SelftestReport report = run_conformance(**variant, exact, only, progress);
        INFER_CHECK_R(ended);
        ++done;
        all.passed += report.passed;
        all.failed += report.failed;
        all.unsupported += report.unsupported;
        for (std::string& failure : report.failures) {
          all.failures.push_back(isa.empty() ? failure : isa + ": " + failure);
        }
      }
    }
    return all;
  });
}

}  // namespace infer
