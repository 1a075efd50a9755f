#include "cli/hub_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/failure.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "platform/interrupt.h"

namespace infer::cli {
namespace {

/// "  1.20 GiB of 4.12 GiB, 12.30 MiB/s, 4:05 left".
class Rate {
 public:
  std::string detail(int64_t done, int64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (first_ < 0) {
      first_ = done;
      start_ = now;
    }
    std::string text = fmt::format("  {} of {}", human_bytes(done), human_bytes(bytes));
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const auto come = static_cast<double>(done - first_);
    if (seconds < 1 || come <= 0) return text;
    const double rate = come / seconds;
    const auto left =
        static_cast<int64_t>(std::min(static_cast<double>(bytes - done) / rate, 359999.0));
    return text + fmt::format(", {}/s, {}:{:02}:{:02} left",
                              human_bytes(static_cast<int64_t>(rate)), left / 3600, left / 60 % 60,
                              left % 60);
  }

 private:
  int64_t first_ = -1;  // bytes that were there before
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

void declare_hub_access(Options options, HubArgs& args) {
  options = options.group(kModelGroup);
  options.add("-hff,--hf-file", "PATH", args.file, "A file of that repository, by its path there");
  options.add("-hft,--hf-token", "TOKEN", args.token,
              "Token for the hub; without it HF_TOKEN, or the one that hf has stored");
}

Option declare_hub(Options options, HubArgs& args) {
  const Option name =
      options.group(kModelGroup)
          .add("-hf,-hfr,--hf-repo", "USER/REPO[:QUANT]", args.model,
               "Model of the Hugging Face hub, downloaded if it is not yet on this machine; QUANT: "
               "Q8_0, …; without it Q4_K_M, else Q8_0, else the first file");
  declare_hub_access(options, args);
  options.group(kModelGroup).flag("--offline", args.offline, "Download nothing");
  return name;
}

hub::ModelName wanted_of(const HubArgs& args) {
  Result<hub::ModelName> wanted = hub::parse_model_name(args.model);
  if (!wanted) usage(wanted.error().message());
  if (!args.file.empty()) {
    if (!wanted->quant.empty()) usage("-hff: names the file; leave out the quantisation");
    if (!hub::is_safe_path(args.file)) {
      usage(fmt::format("-hff: expected the path of a file in the repository, found '{}'",
                        args.file));
    }
    wanted->file = args.file;
  }
  return *std::move(wanted);
}

std::string path_of_hub(const HubArgs& args, bool quiet) {
  if (args.model.empty()) {
    if (!args.file.empty()) usage("-hff: needs -hf USER/REPO");
    return {};
  }
  const hub::ModelName wanted = wanted_of(args);
  if (std::optional<std::string> path = hub::find_in_cache(wanted)) return *std::move(path);
  if (args.offline) {
    throw Failure(kExitBadFile,
                  fmt::format("{}: has not been downloaded, and --offline forbids it", args.model));
  }
  return pull_model(wanted, args.token, quiet).path;
}

hub::Pulled pull_model(const hub::ModelName& wanted, const std::string& token, bool quiet) {
  const platform::InterruptScope scope;
  Result<hub::Connection> connected = hub::connect(token);
  if (!connected && connected.error().code() == StatusCode::not_found) {
    throw Failure(kExitBadFile, wanted.repository + ": " + connected.error().message());
  }
  hub::Connection connection = must(std::move(connected));
  connection.stop = [] { return platform::interrupted(); };
  if (!quiet) connection.note = [](const std::string& line) { note("{}", line); };
  Progress bar("downloading", !quiet);
  Rate rate;
  bool begun = false;
  hub::PullWatch watch;
  watch.begin = [&](int64_t missing, int64_t bytes) {
    begun = missing > 0;
    if (quiet || !begun) return;
    note("{}: downloading {}{}", wanted.repository, human_bytes(missing),
         missing < bytes ? fmt::format(" of {}", human_bytes(bytes)) : "");
  };
  watch.progress = [&](int64_t done, int64_t bytes) {
    if (bytes <= 0) return;
    bar.update(static_cast<double>(done) / static_cast<double>(bytes), rate.detail(done, bytes));
  };
  Result<hub::Pulled> pulled = hub::pull(connection, wanted, watch);
  erase_progress();
  if (!pulled && pulled.error().code() == StatusCode::cancelled && begun && !quiet) {
    note("{}: interrupted; the downloaded part is kept, and the same command continues from there",
         wanted.repository);
  }
  hub::Pulled done = must(std::move(pulled));
  if (!quiet && begun) note("{}: downloaded", wanted.repository);
  return done;
}

}  // namespace infer::cli
