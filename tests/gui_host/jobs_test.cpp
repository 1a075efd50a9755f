// Jobs on models: done with progress, cancelled, one at a time.
#include <doctest.h>

#include <filesystem>

#include "tests/gui_host/pump.h"

using namespace infer;
using namespace infer::gui;
using namespace infer::test;

namespace {

namespace fs = std::filesystem;

JobEnded run(Pump& pump, Job job) {
  const int64_t number = pump.host.start(std::move(job));
  JobEnded ended = pump.wait_for<JobEnded>();
  CHECK(ended.job == number);
  return ended;
}

LoadOptions one_thread() {
  LoadOptions options;
  options.threads = 1;
  return options;
}

BenchJob short_bench() {
  BenchJob job;
  job.models = {kSmall};
  job.options.load = one_thread();
  job.options.prompt_tokens = {8};
  job.options.generate_tokens = {4};
  job.options.repeats = 2;
  return job;
}

/// Starts a job and cancels it at the first word of it.
JobEnded cancelled(Pump& pump, Job job) {
  const int64_t number = pump.host.start(std::move(job));
  pump.wait_for<JobProgress>();
  pump.host.cancel_job();
  JobEnded ended = pump.wait_for<JobEnded>();
  CHECK(ended.job == number);
  return ended;
}

}  // namespace

TEST_CASE("models are quantised and converted, with progress") {
  const TempDir folder;
  Pump pump;
  QuantizeJob quantize;
  quantize.input = data_path("golden/llama-f32.gguf");
  quantize.output = folder.path("small.gguf");
  quantize.options.type = "Q8_0";
  const JobEnded quantised = run(pump, quantize);
  REQUIRE_MESSAGE(quantised.status.ok(), quantised.status.message());
  REQUIRE(std::holds_alternative<QuantizeReport>(quantised.report));
  CHECK(std::get<QuantizeReport>(quantised.report).bytes > 0);
  CHECK(pump.count<JobProgress>() > 0);
  CHECK(describe_model(quantize.output).has_value());
  const JobEnded converted =
      run(pump, ConvertJob{data_path("golden/hf-nf4"), folder.path("converted.gguf"), {}});
  REQUIRE_MESSAGE(converted.status.ok(), converted.status.message());
  CHECK(std::get<ConvertReport>(converted.report).tensors > 0);
  CHECK(describe_model(folder.path("converted.gguf")).has_value());
}

TEST_CASE("importance is measured over a text, whose absence is told") {
  const TempDir folder;
  Pump pump;
  ImportanceJob job;
  job.model = kSmall;
  job.text_file = data_path("demo_heldout.txt");
  job.output = folder.path("importance.gguf");
  job.options.load = one_thread();
  job.options.chunk = 64;
  job.options.chunks = 2;
  const JobEnded measured = run(pump, job);
  REQUIRE_MESSAGE(measured.status.ok(), measured.status.message());
  CHECK(std::get<ImportanceReport>(measured.report).chunks == 2);
  job.text_file = folder.path("absent.txt");
  const JobEnded absent = run(pump, job);
  CHECK(absent.status.code() == StatusCode::not_found);
  CHECK(absent.status.message().find("absent.txt") != std::string::npos);
  CHECK(std::holds_alternative<std::monostate>(absent.report));
  job.text_file = folder.path("");  // a folder
  CHECK(!run(pump, job).status.ok());
}

TEST_CASE("a benchmark has the report of bench(), and tells how far it is") {
  Pump pump;
  const JobEnded measured = run(pump, short_bench());
  REQUIRE_MESSAGE(measured.status.ok(), measured.status.message());
  CHECK(std::get<BenchReport>(measured.report).results.size() == 2);
  double last = 0;
  for (const EngineEvent& event : pump.seen) {
    const auto* const progress = std::get_if<JobProgress>(&event);
    if (progress == nullptr) continue;
    CHECK(progress->done >= last);
    last = progress->done;
  }
  CHECK(last <= 1);
}

TEST_CASE("a device is tested") {
  Pump pump;
  const JobEnded tested = run(pump, SelftestJob{one_thread(), "scale"});
  REQUIRE_MESSAGE(tested.status.ok(), tested.status.message());
  CHECK(std::get<SelftestReport>(tested.report).passed > 0);
  CHECK(std::get<SelftestReport>(tested.report).failed == 0);
  CHECK(pump.count<JobProgress>() > 0);
  CHECK(run(pump, SelftestJob{one_thread(), "no such operation"}).status.code() ==
        StatusCode::invalid_argument);
}

TEST_CASE("every job can be cancelled, and leaves nothing behind") {
  const TempDir folder;
  Pump pump;
  SUBCASE("selftest") {
    CHECK(cancelled(pump, SelftestJob{one_thread(), ""}).status.code() == StatusCode::cancelled);
  }
  SUBCASE("bench") {
    // While it computes a prompt, or generates.
    for (const bool prompt : {true, false}) {
      BenchJob job = short_bench();
      job.options.prompt_tokens = prompt ? std::vector<int32_t>{4096} : std::vector<int32_t>{};
      job.options.generate_tokens = prompt ? std::vector<int32_t>{} : std::vector<int32_t>{4000};
      job.options.repeats = 10'000;
      CHECK(cancelled(pump, job).status.code() == StatusCode::cancelled);
    }
  }
  SUBCASE("imatrix") {
    ImportanceJob job{kSmall, folder.path("long.txt"), folder.path("out.gguf"), {}};
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += "word ";
    write_bytes(job.text_file, bytes_of(text));
    job.options.load = one_thread();
    CHECK(cancelled(pump, job).status.code() == StatusCode::cancelled);
    CHECK(!fs::exists(job.output));
  }
  SUBCASE("quantize and convert") {
    // They may be done before the cancel comes; the file is then whole.
    QuantizeJob quantize{data_path("golden/llama-f32.gguf"), folder.path("out.gguf"), {}};
    quantize.options.type = "Q8_0";
    const JobEnded quantised = cancelled(pump, quantize);
    CHECK((quantised.status.ok() || quantised.status.code() == StatusCode::cancelled));
    CHECK(fs::exists(quantize.output) == quantised.status.ok());
    const ConvertJob convert{data_path("golden/hf-nf4"), folder.path("out2.gguf"), {}};
    const JobEnded converted = cancelled(pump, convert);
    CHECK((converted.status.ok() || converted.status.code() == StatusCode::cancelled));
    CHECK(fs::exists(convert.output) == converted.status.ok());
  }
  // The next one is not cancelled.
  CHECK(run(pump, SelftestJob{one_thread(), "scale"}).status.ok());
}

TEST_CASE("one job runs at a time, beside a model that answers") {
  Pump pump;
  pump.load(demo::model_path());
  pump.host.answer(asked(1, "Hello", endless()));
  const int64_t first = pump.host.start(SelftestJob{one_thread(), ""});
  const int64_t second = pump.host.start(short_bench());
  CHECK(first != second);
  const JobEnded refused = pump.wait_for<JobEnded>();
  CHECK(refused.job == second);
  CHECK(refused.status.code() == StatusCode::busy);
  pump.host.cancel_job();
  CHECK(pump.wait_for<JobEnded>().job == first);
}
