// infer embed, rerank: vectors of texts, and texts in the order in which they fit a query.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/failure.h"
#include "cli/output.h"
#include "cli/output_file.h"

namespace infer::cli {
namespace {

/// The texts of both commands.
struct TextsArgs {
  ModelArgs model;
  std::string file;
  bool jsonl = false;
  bool truncate = false;
  bool json = false;
};

struct EmbedArgs {
  TextsArgs texts;
  std::string output;
  std::optional<int32_t> dimensions;
  bool raw = false;
};

struct RerankArgs {
  TextsArgs texts;
  std::string query;
  std::optional<int32_t> top;
};

void declare_texts(Options options, TextsArgs& args, const char* quiet_names) {
  declare_model(options, args.model);
  declare_running(options, args.model, nullptr, quiet_names);
  options.add("-f,--file", "FILE", args.file,
              "File with a text in each line; '-': stdin, which is also read without this flag if "
              "it is a pipe or a file");
  options.flag("--jsonl", args.jsonl, "Each line is a text as a JSON string");
  options.flag("--truncate", args.truncate,
               "Cut texts that are too long for the model, in place of an error");
}

void declare_embed(Options options, EmbedArgs& args) {
  declare_texts(options, args.texts, "-q,--quiet");
  options
      .add("--pooling", "NAME", args.texts.model.load.pooling,
           "How tokens become the vector of a text; none: a vector for each token; default: as the "
           "model says, else mean, or last for models that generate")
      .one_of({"none", "mean", "cls", "last"});
  options
      .add("--dimensions", "N", args.dimensions,
           "Only the first N numbers of each vector, for models that are made for that")
      .range(1, 1 << 20);
  options.flag("--no-normalise,--no-normalize", args.raw, "Do not divide vectors by their length");
  const Options output = options.group(kOutputGroup);
  output.add("-o,--output", "FILE", args.output,
             "Write an array of float32 for NumPy, NAME.npy, in place of text");
  output.flag("--json", args.texts.json, "Print a JSON object");
  options.example("infer embed -m model.gguf -f texts.txt -o vectors.npy",
                  "a vector for each line of a file");
}

void declare_rerank(Options options, RerankArgs& args) {
  declare_texts(options, args.texts, "--quiet");  // -q is the query
  options.add("-q,--query", "TEXT", args.query, "What the texts are to fit").required();
  options.add("--top", "N", args.top, "Print only the best N").range(1, INT32_MAX);
  options.group(kOutputGroup).flag("--json", args.texts.json, "Print a JSON object");
  options.example("infer rerank -m model.gguf -q \"How tall is it?\" -f texts.txt",
                  "the lines of a file, the best first");
}

/// The lines of the input, or the texts that they are the JSON of.
std::vector<std::string> read_texts(const TextsArgs& args) {
  const std::string input =
      read_input_or_pipe(args.file, "file of texts", "use -f FILE or a pipe", kMostTextsBytes);
  const std::string name = args.file.empty() || args.file == "-" ? "stdin" : args.file;
  if (input.empty()) throw Failure(kExitBadFile, name + ": is empty");
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < input.size();) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    std::string line = input.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    begin = end + 1;
    if (args.jsonl) {
      const auto value = parse_json(line);
      if (!value || !value->is_string()) {
        throw Failure(kExitBadFile, fmt::format("{}: line {}: expected a JSON string, found {}",
                                                name, texts.size() + 1,
                                                line.empty() ? "nothing" : printable(line, 60)));
      }
      line = value->get<std::string>();
    }
    texts.push_back(std::move(line));
  }
  return texts;
}

/// Says which line of the input a text is, and which flag helps.
[[noreturn]] void fail_texts(const TextsArgs& args, const Status& status) {
  std::string message = status.message();
  size_t index = 0;
  constexpr std::string_view kText = "text ";
  if (!message.starts_with(kText)) throw Failure(exit_code(status.code()), message);
  const char* const end = message.data() + message.size();
  const auto number = std::from_chars(message.data() + kText.size(), end, index);
  if (number.ec != std::errc()) throw Failure(exit_code(status.code()), message);
  const std::string name = args.file.empty() || args.file == "-" ? "stdin" : args.file;
  const std::string_view rest(number.ptr, end);
  const bool may_be_cut = rest.ends_with("have it truncated");
  const int code = exit_code(status.code());
  throw Failure(code == kExitUsage ? kExitBadFile : code,
                fmt::format("{}: line {}: the text{}{}", name, index + 1, rest,
                            may_be_cut ? " (--truncate)" : ""));
}

template <typename T>
T must_take(const TextsArgs& args, Result<T> made) {
  if (!made) fail_texts(args, made.error());
  return *std::move(made);
}

/// "[0.25,-1]" or "0.25 -1": numbers as short as they can be read back.
void append_numbers(fmt::memory_buffer& to, std::span<const float> numbers, char separator) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) to.push_back(separator);
    fmt::format_to(std::back_inserter(to), "{}", numbers[i]);
  }
}

std::span<const float> vector_of(const Embeddings& made, int64_t number) {
  const auto width = static_cast<size_t>(made.dimensions);
  return std::span(made.values).subspan(static_cast<size_t>(number) * width, width);
}

/// NumPy's format, version 1.0 (numpy.lib.format): a header of a multiple of 64 bytes, then the
/// array in C's order.
void write_npy(const std::string& path, const Embeddings& made) {
  static_assert(std::endian::native == std::endian::little);
  std::string head = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                 made.begins.back(), made.dimensions);
  constexpr size_t kBefore = 10;  // magic, version, length of the header
  head.append(63 - (kBefore + head.size()) % 64, ' ');
  head += '\n';
  std::string start("\x93NUMPY\x01\0", 8);
  start += static_cast<char>(head.size() & 0xff);
  start += static_cast<char>(head.size() >> 8);
  OutputFile file(path);
  file.write(start + head);
  file.write(
      {reinterpret_cast<const char*>(made.values.data()), made.values.size() * sizeof(float)});
  file.commit();
}

void print_embeddings(const Embeddings& made, bool json, bool each_token) {
  fmt::memory_buffer text;
  const auto append = [&](std::string_view part) {
    text.append(part.data(), part.data() + part.size());
  };
  if (json) append("{\"embeddings\":[");
  for (size_t i = 0; i + 1 < made.begins.size(); ++i) {
    if (json && i > 0) text.push_back(',');
    if (json && each_token) text.push_back('[');
    for (int64_t v = made.begins[i]; v < made.begins[i + 1]; ++v) {
      if (json) append(v > made.begins[i] ? ",[" : "[");
      append_numbers(text, vector_of(made, v), json ? ',' : ' ');
      text.push_back(json ? ']' : '\n');
    }
    if (json && each_token) text.push_back(']');
    if (!json && each_token) text.push_back('\n');
  }
  if (json) append(fmt::format("],\"tokens\":{}}}\n", made.tokens));
  write_out({text.data(), text.size()});
  check_out();
}

int run_embed(EmbedArgs& args) {
  TextsArgs& texts = args.texts;
  require_model(texts.model);
  const std::vector<std::string> lines = read_texts(texts);
  if (!args.output.empty()) {
    if (!args.output.ends_with(".npy") && args.output != "-") {
      usage(fmt::format("-o {}: expected a name that ends in .npy", args.output));
    }
    require_output("-o", args.output, inputs_of(texts.model, {texts.file}));
  }
  texts.model.load.embeddings = true;
  const std::unique_ptr<Engine> engine = load_engine(texts.model);
  const EmbedOptions options{args.dimensions.value_or(0), !args.raw, texts.truncate};
  const Embeddings made = must_take(texts, engine->embed(lines, options));
  if (!args.output.empty()) {
    write_npy(args.output, made);
    if (texts.json) {
      print_json({{"output", args.output},
                  {"vectors", made.begins.back()},
                  {"dimensions", made.dimensions},
                  {"tokens", made.tokens}});
    }
    return kExitOk;
  }
  // The model's file may ask for a vector for each token, too.
  const bool of_tokens = texts.model.load.pooling == "none" ||
                         made.begins.back() != static_cast<int64_t>(made.begins.size()) - 1;
  print_embeddings(made, texts.json, of_tokens);
  return kExitOk;
}

int run_rerank(RerankArgs& args) {
  TextsArgs& texts = args.texts;
  require_model(texts.model);
  const std::vector<std::string> lines = read_texts(texts);
  texts.model.load.embeddings = true;
  texts.model.load.pooling = "rank";
  const std::unique_ptr<Engine> engine = load_engine(texts.model);
  Ranking ranking = must_take(texts, engine->rerank(args.query, lines, {texts.truncate}));
  if (args.top) {
    ranking.texts.resize(std::min(ranking.texts.size(), static_cast<size_t>(*args.top)));
  }
  Json results = Json::array();
  for (const RankedText& text : ranking.texts) {
    const std::string& line = lines[static_cast<size_t>(text.index)];
    if (texts.json) {
      results.push_back({{"index", text.index}, {"score", text.score}, {"text", line}});
    } else {
      say("{:.6f}\t{}\t{}", text.score, text.index, printable(line));
    }
  }
  if (texts.json) print_json({{"results", results}, {"tokens", ranking.tokens}});
  return kExitOk;
}

}  // namespace

void add_embed(Parser& parser) {
  add_command(parser, "embed", "Make vectors of texts", declare_embed, run_embed);
  add_command(parser, "rerank", "Sort texts by how well they fit a query", declare_rerank,
              run_rerank);
}

}  // namespace infer::cli
