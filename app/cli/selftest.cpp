// infer selftest: whether this machine's devices compute every operation as they should.
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "infer/jobs.hpp"

namespace infer::cli {
namespace {

struct SelftestArgs {
  LoadOptions load;
  std::string only;
  bool verbose = false;
  bool json = false;
};

void declare_selftest(Options options, SelftestArgs& args) {
  declare_device(options, args.load);
  options.add("--op", "NAME", args.only, "Only this operation, e.g. matmul");
  options.flag("-v,--verbose", args.verbose, "Say on stderr what is unsupported and why");
  options.example("infer selftest --device vulkan", "whether a driver computes right");
  options.flag("--json", args.json, "Print JSON");
}

int run_selftest(SelftestArgs& args) {
  require_device(args.load.device);
  args.load.threads = thread_count(args.load.threads);
  if (args.verbose) set_verbosity(Verbosity::info);
  const SelftestReport report = must(selftest(args.load, args.only));
  if (args.json) {
    print_json({{"device", args.load.device},
                {"passed", report.passed},
                {"failed", report.failed},
                {"unsupported", report.unsupported},
                {"failures", report.failures},
                {"untested", report.untested}});
  } else {
    for (const std::string& failure : report.failures) say("failed: {}", failure);
    for (const std::string& isa : report.untested) {
      say("untested: the kernels for {}, which this machine does not have", isa);
    }
    say("{}: {} passed, {} failed, {} unsupported", args.load.device, report.passed, report.failed,
        report.unsupported);
  }
  return report.failed == 0 ? kExitOk : kExitRuntime;
}

}  // namespace

void add_selftest(Parser& parser) {
  add_command(parser, "selftest", "Check every operation on this machine", declare_selftest,
              run_selftest);
}

}  // namespace infer::cli
