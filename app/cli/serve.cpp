// infer serve: a model for other programs, over HTTP.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "cli/arguments.h"
#include "cli/chat_templates.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/hub_options.h"
#include "cli/output.h"
#include "hub/local_models.h"
#include "platform/folders.h"
#include "platform/interrupt.h"
#include "platform/service_manager.h"
#include "platform/streams.h"
#include "server/server.h"

namespace infer::cli {
namespace {

struct ServeArgs {
  ModelArgs model;
  std::vector<std::string> paths;  ///< of models
  std::string folder;
  int32_t keep = 300;
  int32_t wait = 60;
  std::string host = "127.0.0.1";
  int32_t port = 8080;
  std::string name;
  std::string key_file;
  bool no_key = false;
  std::string certificate;
  std::string tls_key;
  std::vector<std::string> hosts;
  std::vector<std::string> origins;
  TemplateArgs chat_template;
  int32_t parallel = 0;
  int32_t queue = -1;
  int32_t drain = 30;
  float ping = 10;
  bool log = false;
  std::string collector;
};

/// As declare_model(), but several.
void declare_models(Options options, ServeArgs& args) {
  const Option model = options.group(kModelGroup)
                           .add("model,-m,--model", "FILE", args.paths,
                                "Model file or directory, or part of a name that 'infer list' "
                                "lists; several: each is loaded when a request names it")
                           .replaced_by(model_path_of);
  declare_hub(options, args.model.hub).in_place_of(model);
  options.group(kModelGroup)
      .add("--models", "FOLDER", args.folder,
           "Serve all models below a folder, each loaded when a request names it");
  options.before_running([&args] {
    if (std::string path = path_of_hub(args.model.hub, args.model.quiet); !path.empty()) {
      args.paths.push_back(std::move(path));
    }
    if (args.paths.empty() && args.folder.empty()) {
      if (std::string path = bundled_model(); !path.empty()) args.paths.push_back(std::move(path));
    }
    if (!args.paths.empty()) args.model.path = args.paths.front();
  });
}

void declare_serve(Options options, ServeArgs& args) {
  declare_models(options, args);
  declare_running(options, args.model);
  Options server = options.group(kServerGroup);
  server.add("--host", "ADDRESS", args.host, "Address to listen on").show_default();
  server.add("--port", "N", args.port, "Port to listen on; 0: any free one")
      .range(0, 65535)
      .show_default();
  server.add("-a,--alias", "NAME", args.name,
             "Name of the model in the API; default: that of its file");
  server
      .add("--keep", "SECONDS", args.keep,
           "With several models: how many seconds an unused one stays loaded; -1: always")
      .range(-1, INT32_MAX)
      .show_default();
  server
      .add("--wait", "SECONDS", args.wait,
           "With several models: how long a request waits for its model; then it gets 503")
      .range(1, 86'400)
      .show_default();
  server
      .add("-np,--parallel", "N", args.parallel,
           "Answers computed together; default: as many as an engine takes by itself")
      .range(1, 4096);
  server
      .add("--queue", "N", args.queue,
           "Requests that may wait; more are answered with 429. -1: as many as come")
      .range(-1, 1'000'000)
      .show_default();
  server
      .add("--drain", "SECONDS", args.drain,
           "After SIGTERM or Ctrl-C, how long running answers may take to end")
      .range(0, 3600)
      .show_default();
  server
      .add("--sse-ping-interval", "SECONDS", args.ping,
           "A stream that has nothing to send for so long sends a comment, lest proxies give up; "
           "-1: never")
      .real_range(-1, 3600)
      .show_default();
  server.flag("--access-log", args.log,
              "Write a line of JSON for each request to stdout, without its content");
  server.add("--otlp-endpoint", "URL", args.collector,
             "Collector of OpenTelemetry that gets the traces of requests, such as "
             "http://localhost:4318; also from the environment: OTEL_EXPORTER_OTLP_ENDPOINT");
  server.flag("--embeddings", args.model.load.embeddings,
              "Make vectors of texts with a model that is made to generate");
  server
      .add("--pooling", "NAME", args.model.load.pooling,
           "How tokens become the vector of a text; default: as the model says, else mean, or last "
           "for models that generate")
      .one_of({"mean", "cls", "last"});
  Options access = options.group(kAccessGroup);
  access.add("--api-key-file", "FILE", args.key_file,
             "Keys that may use the server, one a line; lines that begin with # are comments. Also "
             "from the environment: INFER_API_KEY");
  access.add("--tls-cert", "FILE", args.certificate, "Serve by TLS: the certificate chain in PEM");
  access.add("--tls-key", "FILE", args.tls_key, "The private key of --tls-cert, in PEM");
  access.flag("--no-api-key", args.no_key, "Let every machine use the server without a key");
  access
      .add("--allow-host", "NAME", args.hosts,
           "Further names in the header Host that mean this server; *: all")
      .separated_by_commas();
  access
      .add("--allow-origin", "ORIGIN", args.origins,
           "Pages that may use the server from a browser, such as https://example.org; *: all")
      .separated_by_commas();
  declare_template(options, args.chat_template);
  options.example("infer serve model.gguf", "serve a model on this machine, at port 8080");
  options.example("infer serve --models ~/models", "all models of a folder, loaded when wanted");
  options.example("infer serve model.gguf --host 0.0.0.0 --api-key-file keys.txt",
                  "for other machines too");
}

/// Without the white space around it.
std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

std::vector<std::string> api_keys(const ServeArgs& args) {
  std::vector<std::string> keys;
  if (const std::string given = platform::variable("INFER_API_KEY"); !given.empty()) {
    keys.push_back(trimmed(given));
    if (keys.back().empty() || keys.back().find('\n') != std::string::npos) {
      throw Failure(kExitUsage,
                    "INFER_API_KEY: expected a key on one line; --api-key-file reads several");
    }
  }
  if (args.key_file.empty()) return keys;
  const size_t before = keys.size();
  std::string text = read_filled_input(args.key_file);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // the mark of UTF-8 of some editors
  for (const std::string& line : parts_of(text, '\n')) {
    std::string key = trimmed(line);
    if (!key.empty() && key.front() != '#') keys.push_back(std::move(key));
  }
  if (keys.size() == before) {
    throw Failure(kExitBadFile, args.key_file + ": expected a key a line, found none");
  }
  return keys;
}

/// "model" of "/folder/model.gguf".
std::string name_of(const std::string& path) {
  std::error_code absent;
  // Of a model in memory the name stands behind a colon.
  const bool file = std::filesystem::exists(path, absent);
  return hub::model_name(file ? path : path.substr(path.find_last_of(':') + 1));
}

/// A model named "NAME-draft" drafts for the model NAME and is not offered itself.
void find_drafts(std::vector<server::ModelSource>& sources) {
  constexpr std::string_view kDraft = "-draft";
  std::map<std::string, std::string> drafts;  // paths by the name of the model
  for (const server::ModelSource& source : sources) {
    if (!source.name.ends_with(kDraft)) continue;
    drafts[source.name.substr(0, source.name.size() - kDraft.size())] = source.path;
  }
  std::set<std::string> used;
  for (server::ModelSource& source : sources) {
    const auto draft = drafts.find(source.name);
    if (draft == drafts.end()) continue;
    source.draft = draft->second;
    used.insert(draft->second);
  }
  std::erase_if(sources, [&](const auto& source) { return used.contains(source.path); });
}

/// What -m and --models name. Throws Failure.
std::vector<server::ModelSource> sources_of(const ServeArgs& args) {
  std::vector<server::ModelSource> sources;
  for (const std::string& path : args.paths) {
    require_readable(path);
    std::error_code unknown;
    const auto bytes = std::filesystem::file_size(path, unknown);
    sources.push_back({name_of(path), path, "", unknown ? 0 : static_cast<int64_t>(bytes)});
  }
  if (!args.folder.empty()) {
    const hub::LocalScan scan = hub::scan_folder(args.folder);
    for (const hub::SkippedPath& skipped : scan.skipped) {
      print_log(Verbosity::warnings, fmt::format("{}: {}", skipped.path, skipped.reason));
    }
    for (const hub::LocalModel& model : scan.models) {
      sources.push_back({model.name, model.path, "", model.bytes});
    }
  }
  find_drafts(sources);
  std::set<std::string> names;
  for (const server::ModelSource& source : sources) {
    if (!names.insert(source.name).second) {
      throw Failure(kExitUsage, fmt::format("two models are named '{}'", source.name));
    }
  }
  if (sources.empty()) {
    throw Failure(kExitBadFile, args.folder + ": expected models below this folder, found none");
  }
  return sources;
}

/// The keys and models as they are now. Nothing if they cannot be read: the server goes on with
/// what it has.
std::optional<server::Reloaded> read_again(const ServeArgs& args, bool several) {
  try {
    server::Reloaded changed;
    changed.keys = api_keys(args);
    if (several) changed.models = sources_of(args);
    note("SIGHUP: keys and models were read again");
    return changed;
  } catch (const Failure& failure) {
    print_log(Verbosity::warnings, fmt::format("SIGHUP: all stays as it was: {}", failure.what()));
    return std::nullopt;
  }
}

/// The one model, loaded, or several that are loaded when they are wanted.
std::unique_ptr<server::ModelPool> make_pool(ServeArgs& args, std::string& shown) {
  const std::string source = template_source(args.chat_template);
  if (args.parallel > 0) args.model.load.parallel = args.parallel;
  if (args.folder.empty() && args.paths.size() < 2) {
    choose_model(args.model);
    std::unique_ptr<Engine> engine = load_engine(args.model);
    shown = args.name.empty() ? name_of(args.model.path) : args.name;
    auto model = must(server::ServedModel::create(std::move(engine), shown, source,
                                                  args.model.load.parallel, args.queue));
    shown = printable(shown) + " is";
    return std::make_unique<server::ModelPool>(std::move(model));
  }
  if (!args.name.empty()) usage("--alias: names one model; there are several");
  std::vector<server::ModelSource> sources = sources_of(args);
  args.model.path = sources.front().path;
  shown = fmt::format("{} models are", sources.size());
  server::PoolOptions options;
  options.load = load_options(args.model);
  options.template_source = source;
  options.most_waiting = args.queue;
  options.keep_seconds = args.keep;
  options.wait_seconds = args.wait;
  if (!args.model.quiet) {
    options.tell = [](const std::string& text) { note("{}", printable(text)); };
  }
  return std::make_unique<server::ModelPool>(std::move(sources), std::move(options));
}

/// The origins of pages as browsers send them. Throws Failure for one that no browser sends.
std::vector<std::string> origins_of(const ServeArgs& args) {
  std::vector<std::string> origins;
  for (const std::string& given : args.origins) {
    const size_t scheme = given.find("://");
    const std::string_view host =
        scheme == std::string::npos ? "" : std::string_view(given).substr(scheme + 3);
    const bool is_origin =
        scheme != 0 && !host.empty() && host.find_first_of("/?#@ ") == std::string_view::npos;
    if (!is_origin && given != "*" && given != "null") {
      usage(
          fmt::format("--allow-origin: expected * or an origin such as https://example.org:8080, "
                      "without a path, found '{}'",
                      given));
    }
    // Browsers leave out the port that goes without saying.
    std::string origin = server::lower_case(given);
    if (origin.starts_with("https://") && origin.ends_with(":443"))
      origin.resize(origin.size() - 4);
    if (origin.starts_with("http://") && origin.ends_with(":80")) origin.resize(origin.size() - 3);
    origins.push_back(std::move(origin));
  }
  return origins;
}

int run_serve(ServeArgs& args) {
  server::ServerOptions options;
  options.host = args.host;
  options.port = static_cast<uint16_t>(args.port);
  options.keys = api_keys(args);
  options.open = args.no_key;
  options.allowed_hosts = args.hosts;
  options.origins = origins_of(args);
  options.drain_seconds = args.drain;
  options.limits.quiet_seconds = args.ping;
  if (args.certificate.empty() != args.tls_key.empty()) {
    usage("--tls-cert and --tls-key: give both or neither");
  }
  options.tls = {args.certificate, args.tls_key};
  options.socket = platform::inherited_socket();
  options.traces = must(server::trace_options(
      args.collector, [](const char* name) { return platform::variable(name); }));
  options.on_drain = [] { platform::notify_service_manager("STOPPING=1"); };
  options.warn = [](const std::string& text) { print_log(Verbosity::warnings, text); };
  std::string shown;
  const std::unique_ptr<server::ModelPool> pool = make_pool(args, shown);
  options.on_ready = [&](uint16_t port) {
    platform::notify_service_manager("READY=1");
    const bool wide = args.host.find(':') != std::string::npos;
    if (!args.model.quiet) {
      note("{} served at {}://{}{}{}:{}", shown, args.certificate.empty() ? "http" : "https",
           wide ? "[" : "", args.host, wide ? "]" : "", port);
    }
  };
  if (args.log) {
    options.log = [](const std::string& line) { write_out(line + "\n"); };
  }
  options.stop = [] { return platform::interrupted(); };
  options.reload = [&]() -> std::optional<server::Reloaded> {
    if (!platform::hung_up()) return std::nullopt;
    return read_again(args, !pool->single());
  };
  // A server that somebody started in a terminal ends with it.
  if (!platform::stdin_is_terminal()) platform::keep_running_after_hangup();
  const platform::InterruptScope scope;
  must(server::serve(*pool, options));
  return kExitOk;
}

}  // namespace

void add_serve(Parser& parser) {
  add_command(parser, "serve", "Serve a model over HTTP, with OpenAI's API", declare_serve,
              run_serve);
}

}  // namespace infer::cli
