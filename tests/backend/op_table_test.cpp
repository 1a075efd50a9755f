// A back end that has only some operations says so, and what needs the others is placed elsewhere.
#include "engine/backend/op_table.h"

#include <doctest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/cpu/device.h"
#include "engine/jobs/conformance.h"
#include "engine/ops/op.h"
#include "engine/session/opened_model.h"
#include "tests/support.h"

namespace infer {
namespace {

/// The CPU without one operation.
struct CpuWithout {
  explicit CpuWithout(OpId missing) {
    for (const cpu::CpuOp* op : cpu::all_cpu_ops()) {
      if (op->id != missing) rest.push_back(op);
    }
    table = std::make_unique<OpTable<cpu::CpuOp>>(rest);
  }
  std::unique_ptr<Device> open() const {
    DeviceOptions options;
    options.threads = 2;
    return std::make_unique<cpu::CpuDevice>(cpu::all_isas()[0], options, *table);
  }
  std::vector<const cpu::CpuOp*> rest;
  std::unique_ptr<OpTable<cpu::CpuOp>> table;
};

TEST_CASE("every operation has a name of its own") {
  std::set<std::string> names;
  for (const OpDef* op : all_ops()) {
    CHECK(std::string(op_name(op->id)) == op->name);
    names.insert(op->name);
  }
  CHECK(names.size() == kOpCount);
}

TEST_CASE("an operation that is not in the table is unsupported, by its name") {
  const CpuWithout cpu(OpId::Softcap);
  CHECK(cpu.table->find(OpId::Softcap) == nullptr);
  CHECK(cpu.table->find(OpId::Scale)->id == OpId::Scale);
  CHECK(cpu.table->check(OpId::Scale, "cpu").ok());
  const Status status = cpu.table->check(OpId::Softcap, "cpu");
  CHECK(status.code() == StatusCode::unsupported);
  CHECK(status.message() == "the back end 'cpu' has no operation 'softcap'");
}

TEST_CASE("conformance counts what a back end does not have as unsupported") {
  for (const OpDef* op : all_ops()) {
    if (op->id != OpId::Softcap && op->id != OpId::KvStore) continue;
    INFO(op->name);
    const CpuWithout cpu(op->id);
    const std::unique_ptr<Device> device = cpu.open();
    const std::string user = op->id == OpId::KvStore ? "attention" : op->name;
    const SelftestReport report = run_conformance(*device, false, user);
    CHECK(report.passed == 0);
    CHECK(report.failed == 0);
    CHECK(report.unsupported > 0);
    CHECK(run_conformance(*device, false, "scale").passed > 0);
  }
}

TEST_CASE("what a device has no operation for stays on the CPU, with the reason") {
  LoadOptions options;
  options.threads = 2;
  options.context = 128;
  const std::string path = test::data_path("golden/gemma2-f32.gguf");
  OpenedModel opened = OpenedModel::open(path, options).value();
  const CpuWithout cpu(OpId::Softcap);
  opened.devices.push_back(cpu.open());
  const auto plan =
      plan_memory(*opened.model, *opened.weights, opened.device_list(), opened.request);
  REQUIRE_MESSAGE(plan.has_value(), plan.error().message());
  // Of the logits alone: attention caps its scores itself.
  REQUIRE(plan->placement.refused.size() == 1);
  const std::string& refused = plan->placement.refused[0];
  CHECK(refused.starts_with("the output stays on cpu"));
  CHECK(refused.find("has no operation 'softcap'") != std::string::npos);
  CHECK(plan->placement.output == 0);
  CHECK(plan->placement.layers[0] == LayerPlace{1, 1, 1});

  const std::unique_ptr<Device> alone = cpu.open();
  Device* const list[] = {alone.get()};
  const auto refusing = plan_memory(*opened.model, *opened.weights, list, opened.request);
  REQUIRE(!refusing.has_value());
  CHECK(refusing.error().code() == StatusCode::unsupported);
  CHECK(refusing.error().message().find("has no operation 'softcap'") != std::string::npos);
}

}  // namespace
}  // namespace infer
