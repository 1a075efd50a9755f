// infer bundle: this program and a model as one executable file.
#include "bundle/bundle.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "hub/hasher.h"
#include "platform/input_file.h"
#include "platform/interrupt.h"

namespace infer::cli {
namespace {

struct BundleArgs {
  std::string model;
  std::string output;
  bool check = false;
  bool json = false;
  bool quiet = false;
};

void declare_bundle(Options options, BundleArgs& args) {
  options.add("model", "FILE", args.model, "GGUF file, or a bundle whose model is taken")
      .required();
  options.add("output", "FILE", args.output, "Executable file to write");
  options.flag("--check", args.check,
               "Write nothing: compare the model in a bundle with the hash that was kept");
  options.flag("--json", args.json, "Print what was written as a JSON object");
  options.flag("-q,--quiet", args.quiet, "Only errors on stderr");
  options.example("infer bundle model.gguf assistant", "then ./assistant starts a chat");
}

Failure cannot_read(const std::string& path, int code) {
  return {kExitBadFile,
          fmt::format("{}: cannot read: {}", path, std::generic_category().message(code))};
}

/// Bytes of a file.
class Range {
 public:
  /// `size`: -1 for all that follows.
  Range(const std::string& path, int64_t offset, int64_t size)
      : path_(path), file_(path), offset_(offset), size_(size) {
    if (file_.failure() != 0) throw cannot_read(path_, file_.failure());
    if (size_ < 0) size_ = static_cast<int64_t>(file_.size()) - offset;
  }

  int64_t size() const { return size_; }

  /// Hands all bytes to use(part), which returns false to end.
  template <typename Use>
  void each_part(Use use) const {
    std::vector<char> part(size_t{1} << 20);
    for (int64_t done = 0; done < size_;) {
      const auto wanted = std::min(static_cast<size_t>(size_ - done), part.size());
      size_t count = 0;
      const int failed =
          file_.read_at(static_cast<uint64_t>(offset_ + done), {part.data(), wanted}, count);
      if (failed != 0) throw cannot_read(path_, failed);
      if (count == 0) {
        throw Failure(kExitBadFile, fmt::format("{}: was cut short: expected {} bytes, found {}",
                                                path_, offset_ + size_, offset_ + done));
      }
      done += static_cast<int64_t>(count);
      if (!use(std::span<const char>(part.data(), count))) return;
    }
  }

 private:
  std::string path_;
  platform::InputFile file_;
  int64_t offset_;
  int64_t size_;
};

/// Hands all of a range to use(part), which returns false to end; the hash in hexadecimal digits.
template <typename Use>
std::string hash_of(const Range& range, Use use) {
  hub::Hasher hasher(64, range.size());
  range.each_part([&](std::span<const char> part) {
    hasher.add(part);
    return use(part);
  });
  return hasher.finish();
}

/// Throws Failure unless the file is a whole model that this program can run.
void require_whole_model(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw Failure(kExitBadFile, fmt::format("{0}: is a directory; a bundle takes one GGUF file: "
                                            "'infer convert {0} model.gguf' makes it",
                                            path));
  }
  char magic[4] = {};
  const Range file(path, 0, -1);
  file.each_part([&](std::span<const char> part) {
    std::copy_n(part.begin(), std::min(part.size(), sizeof(magic)), magic);
    return false;
  });
  if (std::string_view(magic, sizeof(magic)) != "GGUF") {
    throw Failure(kExitBadFile,
                  fmt::format("{}: expected a GGUF file; 'infer convert' makes one of "
                              "a Hugging Face directory",
                              path));
  }
  const ModelDescription model = must_read(describe_model(path));
  if (!model.unsupported.empty()) throw Failure(kExitBadFile, model.unsupported);
  const auto split =
      std::ranges::find(model.metadata, "split.count", &std::pair<std::string, std::string>::first);
  // Of the first file the description is that of the whole model.
  const bool first = model.weight_bytes > file.size() ||
                     !split_name(std::filesystem::path(path).filename().string()).empty();
  if (first || (split != model.metadata.end() && split->second != "0" && split->second != "1")) {
    throw Failure(kExitBadFile,
                  fmt::format("{0}: is one of several files of a model; a bundle takes one: "
                              "'infer quantize {0} model.gguf COPY' makes it of the first",
                              path));
  }
}

/// Writes, and counts what it has written.
class Writer {
 public:
  Writer(OutputFile& file, int64_t bytes, bool shown)
      : file_(file), bytes_(bytes), bar_("bundling", shown) {}

  /// The hash of what was copied.
  std::string copy(const Range& range) {
    return hash_of(range, [&](std::span<const char> part) {
      if (platform::interrupted()) throw Failure(platform::interrupt_code(), "interrupted");
      write(part);
      return !file_.failed();
    });
  }
  void write(std::span<const char> part) {
    file_.write(part);
    done_ += static_cast<int64_t>(part.size());
    bar_.update(static_cast<double>(done_) / static_cast<double>(bytes_));
  }
  int64_t done() const { return done_; }

 private:
  OutputFile& file_;
  int64_t bytes_;
  int64_t done_ = 0;
  Progress bar_;
};

Json to_json(const bundle::Bundle& made) {
  return {{"bundle", made.file},   {"name", made.name},  {"program_bytes", made.program},
          {"offset", made.offset}, {"bytes", made.size}, {"sha256", made.sha256}};
}

int check_bundle(const BundleArgs& args, const std::optional<bundle::Bundle>& given) {
  if (!args.output.empty()) usage("--check: writes nothing; leave out the output");
  if (!given) throw Failure(kExitBadFile, args.model + ": has no model in it");
  const Range model(given->file, given->offset, given->size);
  const auto on = [](std::span<const char>) { return true; };
  if (hash_of(model, on) != given->sha256) {
    throw Failure(kExitBadFile, fmt::format("{}: the model in it is damaged: its hash is not the "
                                            "one that was kept; copy or make it again",
                                            args.model));
  }
  if (args.json) {
    print_json(to_json(*given));
  } else {
    say("{}: {} in it is whole, {}", args.model, printable(given->name), human_bytes(given->size));
  }
  return kExitOk;
}

int run_bundle(BundleArgs& args) {
  require_readable(args.model);
  const std::optional<bundle::Bundle> given = must(bundle::find(args.model));
  if (args.check) return check_bundle(args, given);
  if (args.output.empty()) usage("expected the name of the file to write");
  const std::string path = given ? args.model : model_path_of(args.model);
  if (!given) require_whole_model(path);
  const std::optional<bundle::Bundle> own = must(bundle::find(platform::kOwnFile));
  require_output("output", args.output, {path, platform::kOwnFile});

  const platform::InterruptScope scope;
  const Range program(platform::kOwnFile, 0, own ? own->program : -1);
  const Range model(path, given ? given->offset : 0, given ? given->size : -1);
  bundle::Bundle made;
  made.file = args.output;
  made.name = given ? given->name : std::filesystem::path(path).filename().string();
  made.program = program.size();
  made.size = model.size();
  OutputFile file(args.output);
  Writer writer(file, program.size() + model.size(), !args.quiet);
  writer.copy(program);
  const int64_t over = made.program % bundle::kAlignment;
  made.offset = made.program + (over == 0 ? 0 : bundle::kAlignment - over);
  writer.write(std::vector<char>(static_cast<size_t>(made.offset - made.program)));
  made.sha256 = writer.copy(model);
  writer.write(bundle::footer_of(made));
  file.make_executable();
  file.commit();
  erase_progress();
  if (args.json) {
    print_json(to_json(made));
  } else if (!args.quiet) {
    note("{}: written, the program with {} in it, {}", args.output, printable(made.name),
         human_bytes(writer.done()));
  }
  return kExitOk;
}

}  // namespace

void add_bundle(Parser& parser) {
  add_command(parser, "bundle", "Write this program and a model as one executable file",
              declare_bundle, run_bundle);
}

}  // namespace infer::cli
