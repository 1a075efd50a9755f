// infer: the C++ API. It has everything that an application needs to run models; infer/jobs.hpp
// adds jobs on models (benchmarks, quantisation, conversion, …). Sources that use these two keep
// compiling. The binary interface may change: infer.h has one that stays.
//
// Errors. Functions that can fail return Status or Result<T> and never throw: std::bad_alloc
// becomes StatusCode::out_of_memory. Other functions that return a string or a vector may throw
// std::bad_alloc, and nothing else.
//
// Units. Tokens are int32_t ids of the model's vocabulary. Sizes are in bytes, times in seconds.
// Text is UTF-8.
//
// Ownership. An object belongs to the unique_ptr that a function returns. References and views into
// an object are valid as long as that object lives. An Engine must outlive its sessions.
//
// Threads. Any thread may use an Engine or a Vocabulary, several at once. A Session has one caller
// at a time; only cancel() may come from any thread or from a signal handler.
//
// Callbacks. A session's callbacks run on the thread that called the session, while the engine's
// own thread goes on. A slow callback therefore delays its own session and no other. A callback may
// use the engine and other sessions; of its own session it may call length(), statistics() and
// cancel(). A callback that throws ends its call with StatusCode::invalid_argument and the
// exception's message; std::bad_alloc ends it with out_of_memory. Every callback may be empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/embedding.hpp"
#include "infer/export.h"
#include "infer/grammar_start.hpp"
#include "infer/statistics.hpp"
#include "infer/status.hpp"
#include "infer/telemetry.hpp"

namespace infer {

/// The library's version, "0.1.0".
INFER_API const char* version();

/// Each level includes those before it; `quiet` reports errors only.
enum class Verbosity { quiet, warnings, info, debug };
/// Sets what the library reports (default: warnings), on stderr or to the callback below. Applies
/// to the whole process. Any thread.
INFER_API void set_verbosity(Verbosity verbosity);
/// Sends messages to `sink` instead of stderr; an empty sink restores stderr. The sink gets one
/// message at a time, without a line end, and the lowest verbosity that shows it. It may be called
/// on any thread. It must not call the library; what it throws is dropped. When this function
/// returns, the previous sink is no longer running.
INFER_API void set_log_callback(std::function<void(Verbosity, std::string_view)> sink);

// ---------------------------------------------------------------------------------------------
// Devices

struct DeviceDescription {
  std::string name;         ///< as in LoadOptions::device: "cpu"
  std::string description;  ///< name of the processor
  int64_t memory_total = 0;
  int64_t memory_free = 0;
  int32_t threads = 0;      ///< CPU only: threads that the process may use
  std::string isa;          ///< CPU only: instruction set of the chosen kernels
  std::string unusable;     ///< why the device cannot be used; empty: it can
  bool own_memory = false;  ///< apart from the host's: a graphics card
  /// Limits of the device by name ("subgroup"). Names that end in "_bytes" are in bytes.
  std::vector<std::pair<std::string, int64_t>> limits;
  std::vector<std::string> features;  ///< optional abilities that the device has
  std::string pci;                    ///< GPU: where it is, "0000:01:00.0"; empty: not known
  /// GPU: what it does now, at most a second old. Not set: nothing tells.
  std::optional<GpuTelemetry> telemetry;
};

/// The devices of this machine that this build has a back end for. `kind` ("cpu", "vulkan")
/// restricts the list to one kind; drivers of the other kinds, which take memory, are then not
/// loaded.
INFER_API std::vector<DeviceDescription> devices(const std::string& kind = {});

// ---------------------------------------------------------------------------------------------
// Loading

/// Gets the progress, 0 to 1, on the thread that loads. Return false to cancel: the call then fails
/// with StatusCode::cancelled and has freed all memory that it took.
using ProgressFn = std::function<bool(double)>;

/// Where tensors go whose names contain a regular expression (PCRE2).
struct TensorPlacement {
  std::string pattern;  ///< "ffn_.*_exps"
  std::string device;   ///< one of LoadOptions::device, or "cpu"
};

/// How a model is loaded. load_options.def beside this header lists the options: `device`,
/// `context`, `gpu_layers` and so on, with what each does, its default and its range.
struct LoadOptions {
#define INFER_LOAD_TEXT(name, preset, ...) std::string name = preset;
#define INFER_LOAD_LIST(name, ...) std::vector<std::string> name;
#define INFER_LOAD_NUMBER(type, name, preset, ...) type name = preset;
#define INFER_LOAD_FLAG(name, preset, ...) bool name = preset;
#include "infer/load_options.def"
  /// Devices for parts of layers, whatever `gpu_layers` and `cpu_experts` say. A part is a layer's
  /// attention, its feed-forward or its experts, or the embedding, or the output; it is placed as a
  /// whole. Each tensor has the device of the first entry that matches its name. invalid_argument
  /// if two tensors of a part have different devices, or if an entry matches no tensor.
  std::vector<TensorPlacement> placements;
  ProgressFn progress;
};

/// Memory on one device.
struct DeviceMemoryReport {
  std::string device;
  int64_t weights = 0;
  int64_t kv = 0;
  int64_t activations = 0;
  int64_t scratch = 0;
  int64_t other = 0;      ///< process; on the CPU also host, drafters and grammars
  int64_t draft = 0;      ///< everything that the draft model needs here
  int64_t available = 0;  ///< in the device's memory; a device without its own shares the CPU's
  std::string computes;   ///< "layers 12 to 23, output"; empty: nothing
  /// "layers 0 to 11": what it computes besides in prompts of MemoryReport::streamed_from tokens or
  /// more, with weights that it gets from the host's memory for each step (stream_weights)
  std::string streams;
};

/// Memory that a model will use (plan_model) or uses (Engine::memory). The planned sizes are the
/// allocated sizes, except `host`, `process`, `drafters` and `grammars`: these are upper estimates
/// of what the library and its process need besides.
struct MemoryReport {
  std::string device;       ///< names of the devices that compute something
  int64_t weights = 0;      ///< if `spilled`: only the layers in memory at one time
  int64_t kv = 0;           ///< cache of keys and values, with recurrent states
  int64_t states = 0;       ///< of `kv`: recurrent states and their checkpoints
  int64_t activations = 0;  ///< intermediate values of a step
  int64_t scratch = 0;      ///< work space of kernels
  int64_t host = 0;         ///< inputs of a step, RoPE tables, sampling, tokens
  /// Code, metadata, vocabulary, graphs, stacks; on GPUs what programs take and what the driver
  /// rounds buffers up to.
  int64_t process = 0;
  int64_t draft = 0;     ///< everything that the draft model needs
  int64_t drafters = 0;  ///< texts that drafters keep; 0 without drafters
  int64_t grammars = 0;  ///< grammars and their tables, all sessions; 0: not planned yet
  int64_t total = 0;
  int64_t available = 0;  ///< free memory of the devices less the reserve, or the limit of each
  int64_t context = 0;    ///< tokens that the cache has room for
  int64_t longest = 0;    ///< tokens that one session may have; above `context`, the cache grows
  /// 64 tokens of the cache: one page of every kind of layers together, recurrent ones left out.
  int64_t page_bytes = 0;
  /// Pages of the kind of layers that has most. Layers with a sliding window have fewer.
  int64_t pages = 0;
  int32_t batch_rows = 0;  ///< most tokens that one step computes
  std::string cache_type_k, cache_type_v;
  bool spilled = false;  ///< weights are read from the file layer by layer in every step
  std::vector<DeviceMemoryReport> devices;  ///< the CPU first
  int64_t layers = 0;                       ///< layers of the model
  int64_t gpu_layers = 0;     ///< layers that are not on the CPU; the output counts as one more
  int64_t cpu_experts = 0;    ///< of these layers, those whose experts are on the CPU
  int64_t streamed_from = 0;  ///< see DeviceMemoryReport::streams; 0: no prompt
  /// Layers that another device cannot compute, with the reason. The CPU computes them.
  std::vector<std::string> refused;
};

struct TensorDescription {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;  ///< fastest dimension first
  int64_t bytes = 0;
};

struct ModelDescription {
  std::string path;
  std::string name;  ///< general.name; may be empty
  std::string architecture;
  std::string file_type;  ///< as the file says, "Q4_K - Medium"; otherwise the most frequent type
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  ///< in the file
  int64_t vocabulary = 0;
  int64_t context = 0;  ///< tokens that the model was trained for
  int64_t embedding = 0;
  int64_t layers = 0;
  std::string tokenizer;      ///< kind and pre-tokenizer, "gpt2 (llama-bpe)"
  std::string chat_template;  ///< Jinja source; may be empty
  std::vector<std::pair<std::string, std::string>> metadata;  ///< keys and shortened values
  std::vector<TensorDescription> tensors;
  /// Why this build cannot run the model; empty: nothing in the header prevents it.
  std::string unsupported;
  /// Further layers that predict the token after the next one: the drafter "mtp" uses them.
  int64_t next_token_layers = 0;
  /// Jinja source of the template "tool_use", which is for conversations with tools; or empty.
  std::string tool_template;
};

/// Describes a model file. Reads only its header. Also describes a model of an architecture that
/// this build does not have: `unsupported` then says so, and unknown fields are 0 or empty.
INFER_API Result<ModelDescription> describe_model(const std::string& path);

/// What may read images for a model, for LoadOptions::vision: a Hugging Face directory itself, if
/// it says how images are scaled; beside a GGUF file the one file whose name begins with "mmproj"
/// and ends with ".gguf". Empty: there is none, or there are several. Opens neither.
INFER_API std::string find_vision(const std::string& path);

/// The memory that Engine::load() would use. Reads only the file's header. does_not_fit: the
/// message says whether the weights or the context are too large; alternatives() says what would
/// fit.
INFER_API Result<MemoryReport> plan_model(const std::string& path, const LoadOptions& options);

/// Gives a GGUF file in memory a path, "memory:" and the name, that all functions here take for a
/// model. `bytes` must stay as they are until the process ends; weights are read from there, and
/// with LoadOptions::mmap used in place. The same name again means the new bytes. Any thread.
INFER_API std::string memory_model(const std::string& name, std::span<const std::byte> bytes);

/// One change of the options with which a model fits.
struct Alternative {
  enum class Kind {
    cache_type,  ///< keys and values as q8_0
    context,     ///< a shorter context
    gpu_layers,  ///< as many layers on other devices than the CPU as fit
    spill,       ///< the weights stay in the file, which is slow
    memory,      ///< so much memory, and as much free
  };
  Kind kind = Kind::memory;
  LoadOptions options;  ///< with the change
  MemoryReport plan;    ///< what loading with them would use
};

/// What would fit in place of options that do not: each change by itself, the least first. Empty if
/// the options fit or if nothing helps. Reads the header alone.
INFER_API Result<std::vector<Alternative>> alternatives(const std::string& path,
                                                        const LoadOptions& options);

// ---------------------------------------------------------------------------------------------
// Text

struct TokenizeOptions {
  bool add_special = true;    ///< add begin and end tokens as the model wants them
  bool parse_special = true;  ///< the spelling of a special token in the text means that token
};

/// What stands around a text, most often code, that a model is to fill in.
struct InfillText {
  struct File {
    std::string name;
    std::string text;
  };
  std::string before, after;
  std::vector<File> files;  ///< others of the same project, the least important first
};

/// Tokens with a role; −1: the vocabulary has no such token.
struct SpecialTokenIds {
  int32_t bos = -1;  ///< begins a text
  int32_t eos = -1;  ///< ends a text
  int32_t eot = -1;  ///< ends a turn of a conversation
  int32_t unknown = -1;
  int32_t padding = -1;
  bool adds_bos = false;  ///< TokenizeOptions::add_special puts `bos` before a text
  bool adds_eos = false;  ///< TokenizeOptions::add_special puts `eos` after a text
};

/// The vocabulary of a model. It belongs to an Engine, or is loaded without the weights from a
/// model file or from a directory with a tokenizer.json, of any architecture. Immutable.
class INFER_API Vocabulary {
 public:
  static Result<std::unique_ptr<Vocabulary>> load(const std::string& path);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// The ids of a text of at most 64 MiB. unsupported if the model has no vocabulary.
  Result<std::vector<int32_t>> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const;
  /// At most `most` tokens that ask for the text between two others, in the form that the
  /// vocabulary's tokens for it are meant for. What does not fit is left out: first files, from the
  /// first one on, then what is far from the place. The spelling of a special token is text here.
  /// unsupported: the vocabulary has no such tokens. does_not_fit: `most` is less than they are.
  Result<std::vector<int32_t>> infill(const InfillText& text, int64_t most) const;
  /// The bytes of the tokens; special tokens are spelt out. Ids that do not exist are skipped.
  std::string detokenize(std::span<const int32_t> tokens) const;
  /// The bytes of one token inside a text; a special token is spelt out. They are not always whole
  /// UTF-8 characters. Empty if there is no such id.
  std::string_view piece(int32_t token) const;
  SpecialTokenIds special() const;
  /// Whether generation ends at this token.
  bool is_end_of_generation(int32_t token) const;
  int32_t size() const;

 private:
  friend class Engine;
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A chat template (ModelDescription::chat_template). It turns a conversation into the text that
/// the model continues: the same bytes as Hugging Face's transformers with the same Jinja source.
/// Immutable. Any template ends within about one second.
class INFER_API ChatTemplate {
 public:
  /// bad_file: the message names the line and what was expected. unsupported: the template needs
  /// other files.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// `variables_json`: one JSON object with the template's variables (messages, tools, bos_token,
  /// add_generation_prompt, …). `now`: the time that strftime_now uses, "2026-01-15T12:00:00";
  /// empty: the local time. invalid_argument: the template raises an error (the message is the
  /// template's own), the variables do not fit the template, or the template exceeds a limit.
  Result<std::string> render(std::string_view variables_json, std::string_view now) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A call of a tool that a model asks for.
struct ToolCall {
  std::string id;         ///< as the model wrote it; often empty
  std::string name;       ///< of the function
  std::string arguments;  ///< JSON, most often an object
};

/// A part of generated text, by its meaning.
struct OutputEvent {
  enum class Kind { reasoning, content, tool_call };
  Kind kind = Kind::content;
  std::string text;  ///< reasoning or content that follows the text of earlier events
  ToolCall call;     ///< a complete call
};

struct GenerateOptions;

/// What is known of a text before it is generated.
struct OutputOptions {
  /// It is held to a grammar or a schema (GenerateOptions): apart from reasoning that the prompt
  /// began, all of it is content.
  bool constrained = false;
  /// The prompt ends within an answer, which the text goes on with.
  bool continues = false;
  /// Tools were offered: an answer that is nothing but a call is one, also without marks.
  bool tools = true;
  /// These tools: a JSON array, as the template's variable "tools" has them. The values of
  /// arguments get the types that the functions' JSON schemas say, in forms that have no types of
  /// their own. A call without marks is one of these. Empty: not known.
  std::string declared_tools;
  /// False: no call is taken out of the text, which is content as it stands.
  bool calls = true;
  /// Beside `constrained`: the text may be calls instead (OutputParser::hold_calls()).
  bool or_calls = false;
};

/// Splits generated text into reasoning, the answer and tool calls while the text arrives. Special
/// tokens must be spelt out in the text (GenerateOptions::special_text); pieces may break anywhere.
/// Marks of reasoning count at the beginning of an answer alone. A tool call that is not well
/// formed is returned as content. One thread at a time.
class INFER_API OutputParser {
 public:
  /// Detects the format from the template's source. `prompt` is the text that the template
  /// rendered; it says whether the generated text begins inside reasoning.
  static Result<std::unique_ptr<OutputParser>> create(std::string_view template_source,
                                                      std::string_view prompt,
                                                      const OutputOptions& options = {});
  /// Whether an answer is OutputOptions::constrained: by a schema, or by a grammar that does not
  /// have the template's own marks of reasoning.
  static bool is_constrained(std::string_view template_source, const GenerateOptions& options);
  /// The prompt, led to where the answer itself begins: reasoning that it began is closed, and what
  /// the format puts before an answer is there. For a text that is held to a grammar or a schema
  /// from its first token on.
  static Result<std::string> lead_to_answer(std::string_view template_source,
                                            std::string_view prompt);
  /// Holds the calls that an answer may have to OutputOptions::declared_tools: to their names, and
  /// to arguments that are an object, of tools with "strict": true one that satisfies the tool's
  /// schema. `prompt`: before lead_to_answer(). With `options.json_schema` an answer is calls or a
  /// text of that schema. Sets `options.grammar` and `options.grammar_start` in place of the
  /// schema, and may set `output.constrained`. False: nothing is changed, since the format has no
  /// such grammar.
  static Result<bool> hold_calls(std::string_view template_source, std::string_view prompt,
                                 OutputOptions& output, GenerateOptions& options);
  ~OutputParser();
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  /// Takes more text and returns the events that are now certain. Text that may begin a mark is
  /// held back.
  Result<std::vector<OutputEvent>> push(std::string_view text);
  /// Ends the text and returns the remaining events. The parser must not be used afterwards.
  Result<std::vector<OutputEvent>> finish();
  /// Name of the format: "hermes", "harmony", …, "plain". A constant.
  std::string_view format() const;

 private:
  struct Impl;
  explicit OutputParser(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---------------------------------------------------------------------------------------------
// Generation

/// How a token is chosen. samplers.def beside this header lists the numbers: `temperature`,
/// `top_k`, `top_p` and so on, with what each does, its range and the value that holds if it is
/// unset. The model's own value (general.sampling.*) replaces an unset one before.
struct SamplingOptions {
#define INFER_SAMPLING(type, name, ...) std::optional<type> name;
#include "infer/samplers.def"
  /// A repeated sequence (dry_multiplier) ends at a token that contains one of these texts.
  /// Default: newline, colon, quotation mark, asterisk.
  std::optional<std::vector<std::string>> dry_breakers;
  /// Values added to the logits of tokens: −1e30 to 1e30. −infinity forbids a token. +infinity
  /// forbids all tokens without it, as long as a grammar allows a token that has it; the logits
  /// decide among the tokens that have it.
  std::vector<std::pair<int32_t, float>> logit_bias;
  /// The order of the samplers; those not named are off. Empty: all of samplers.def, in its order.
  std::vector<std::string> samplers;
  std::optional<uint64_t> seed;  ///< equal seeds give equal text; unset: a new seed for every call
};

/// Gets the generated token first, then the most likely tokens, each with the natural logarithm of
/// the probability that the model gives it before any sampler. The span is valid during the call.
/// Return false to end the generation.
using LogprobsFn = std::function<bool(std::span<const std::pair<int32_t, float>>)>;

/// What happens when the context is full.
enum class ContextOverflow {
  stop,  ///< generation ends with FinishReason::context
  /// The first `keep` tokens and the later half of the other tokens stay; the tokens between them
  /// are dropped. Those that stay are computed again at their new positions, and generation
  /// continues exactly as it would from that shorter text.
  shift,
};

struct ImageRows;
/// An image that a model has read (Engine::read_image()). Copies share what was computed.
struct ModelImage {
  /// What stands for it in a prompt, one after the other. What the model sees of it is below 0;
  /// between tiles of it there may be tokens of the vocabulary. Equal images have equal tokens.
  std::vector<int32_t> tokens;
  std::shared_ptr<const ImageRows> rows;  ///< not part of the API
};

struct GenerateOptions {
  int32_t max_tokens = -1;  ///< −1: until the end of the text or the context; 0: only the prompt
  bool ignore_end = false;  ///< continue after end-of-text tokens
  /// Before so many no token is chosen that ends the text, and stop strings are not looked for.
  int32_t min_tokens = 0;
  std::vector<int32_t> stop_tokens;  ///< these end the text, even with ignore_end
  ContextOverflow overflow = ContextOverflow::stop;
  int32_t keep = 0;  ///< leading tokens that stay with ContextOverflow::shift
  /// The text ends before the first of these strings, with FinishReason::stop. Text that may begin
  /// one of them is delivered later. The session keeps the tokens that spell the string.
  std::vector<std::string> stop;
  /// What the text must match; at most one of `grammar` and `json_schema`. The text ends when it is
  /// complete and nothing more may follow; end-of-text tokens then end it even with ignore_end. A
  /// text cut short by max_tokens or a stop string is the beginning of a match.
  std::string grammar;      ///< in GBNF; the start rule is "root"
  std::string json_schema;  ///< draft 2020-12; "{}": any JSON value
  GrammarStart grammar_start;
  bool special_text = false;  ///< spell out special tokens in the text, as OutputParser needs it
  int32_t logprobs = -1;      ///< number of most likely tokens for on_logprobs; −1: not called
  LogprobsFn on_logprobs;     ///< called before the callback that gets the token
  /// Number of most likely tokens for on_prompt_logprobs; −1: not called. From 0 on, no token of
  /// the prompt is taken from the cache of other sessions, a step computes at most
  /// LoadOptions::output_rows tokens of the prompt, and the tokens held and those of the prompt
  /// must fit the context, also with ContextOverflow::shift.
  int32_t prompt_logprobs = -1;
  /// Called for each token of the prompt in order, before the first generated one. The first token
  /// of an empty session is left out: nothing precedes it that could predict it. If it returns
  /// false, the session holds the prompt up to that token.
  LogprobsFn on_prompt_logprobs;
  /// Tokens that drafters propose at a time, if the engine has drafters (LoadOptions::drafters).
  /// −1: the number that is fastest by measurement, which may be 0. 0: none. Above 0: that many, at
  /// most 32, if the drafter has so many.
  int32_t draft_tokens = -1;
  /// Calls of higher priority get the rows of a step and the pages of the cache first; among equal
  /// ones the earlier call does. A call of lower priority waits if they need everything, and then
  /// continues. The priority changes no token. evaluate() has priority 0.
  int32_t priority = 0;
  SamplingOptions sampling;
  /// The images whose tokens are in the prompt, in their order.
  std::vector<ModelImage> images;
};

enum class FinishReason {
  stop,       ///< the model ended the text, or a stop string was found
  length,     ///< max_tokens were generated
  context,    ///< the context is full
  cancelled,  ///< a callback returned false, or cancel() was called
};

/// What speculation did in steps that computed no prompts. If several sessions share a step, each
/// counts its share of the time.
struct SpeculationStatistics {
  int64_t drafted = 0;       ///< tokens proposed and verified
  int64_t accepted = 0;      ///< proposed tokens that were right
  int64_t tokens = 0;        ///< tokens generated in these steps
  double seconds = 0;        ///< time of these steps, including proposing
  double draft_seconds = 0;  ///< time spent on proposing
  double plain_seconds = 0;  ///< time without proposals, one token a step, by measurement
  /// By position in the proposal: how often all earlier tokens were right, and how often this token
  /// was right as well.
  struct Place {
    int64_t reached = 0;
    int64_t accepted = 0;
  };
  std::vector<Place> places;
  /// By length of the proposal, from 0.
  struct Length {
    int64_t steps = 0;     ///< steps with a proposal of this length
    int64_t accepted = 0;  ///< right tokens in all these steps
    int64_t refused = 0;   ///< steps in which a token was wrong
  };
  std::vector<Length> lengths;
};

struct GenerateResult {
  FinishReason reason = FinishReason::stop;
  std::string stop_string;    ///< the one of GenerateOptions::stop that ended the text; empty: none
  int64_t prompt_tokens = 0;  ///< tokens given
  int64_t reused_tokens = 0;  ///< tokens found in the cache instead of computed
  int64_t generated_tokens = 0;
  double prompt_seconds = 0;
  double generate_seconds = 0;
  double first_token_seconds = 0;  ///< from the call to the first token
  double queue_seconds = 0;        ///< from the call to the first step that computes it
  uint64_t seed = 0;               ///< the seed that was used
  int64_t shifted_tokens = 0;      ///< tokens dropped by ContextOverflow::shift
  SpeculationStatistics speculation;
};

/// Gets a generated token and the text that it completed: whole UTF-8 characters, perhaps none.
/// Return false to end the generation. A last call with token −1 delivers text that was held back:
/// an unfinished character (as U+FFFD) or a possible beginning of a stop string. The result of that
/// call is ignored.
using TokenFn = std::function<bool(int32_t token, std::string_view text)>;

/// An event of a generation that Session::start() began.
struct GenerateEvent {
  bool finished = false;  ///< true: the last event, with `status` and `result`; false: a token
  /// True: a token of the prompt, without text. Such events come first, with
  /// GenerateOptions::prompt_logprobs.
  bool of_prompt = false;
  int32_t token = -1;  ///< −1: only text, which was held back until the end
  std::string text;    ///< completed by the token: whole UTF-8 characters, perhaps none
  /// With GenerateOptions::logprobs: what on_logprobs would get. Of the prompt: what
  /// on_prompt_logprobs would get.
  std::vector<std::pair<int32_t, float>> log_probabilities;
  Status status;  ///< the error that generate() would have returned
  GenerateResult result;
};

/// Gets the logits [vocabulary] after the token at `position` of the session. They are valid during
/// the call. Return false to end the evaluation.
using LogitsFn = std::function<bool(int64_t position, std::span<const float> logits)>;

struct SessionOptions {
  /// Tokens that the session may have at most; 0: as many as the engine's context. The session
  /// behaves as if the engine's context were no larger. One more may be generated after them, which
  /// nothing follows.
  int64_t context = 0;
  /// By adapter (Engine::adapters()): its factor in this session; 0: it is off. Empty: as loaded.
  std::vector<float> adapters;
};

/// A sequence of tokens and its part of the cache. It must not outlive its Engine. After a failed
/// call it holds the tokens that it held before, unless noted otherwise.
class INFER_API Session {
 public:
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Appends the tokens of `prompt` and generates from there; an empty prompt continues the tokens
  /// held. Blocks until done. Afterwards the session also holds the generated tokens, without the
  /// end token that stopped it: the next call continues the text. With ContextOverflow::shift the
  /// session may hold fewer tokens than before, even if the call fails later. cancel() is not a
  /// failure here. invalid_argument: ids outside the vocabulary or options out of range.
  /// unsupported: a grammar or schema that cannot be enforced. does_not_fit: no room for the
  /// prompt, or the plan leaves none for grammars. busy: too many calls (LoadOptions::max_waiting),
  /// or the grammars of running calls leave no room for this one.
  Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                  const TokenFn& on_token);
  /// Begins what generate() does and returns at once; next() delivers the tokens. Wrong arguments
  /// fail here as in generate(); later failures are the status of the last event. The callbacks in
  /// the options are not called. `on_event` may be empty. It is called when an event becomes ready
  /// and none was ready before, on one of the engine's threads: it must return at once and must not
  /// use the session; it may wake an event loop. Until the last event has been taken, other calls
  /// that use the session fail with invalid_argument. At most 32 tokens queue up; the generation
  /// then pauses until next() takes some, while other sessions go on.
  Status start(std::span<const int32_t> prompt, const GenerateOptions& options,
               std::function<void()> on_event = {});
  /// Takes the next event of start(). Waits for it up to the given time (0: does not wait;
  /// infinity: no limit) and returns nothing if none came. invalid_argument if nothing was started
  /// or the last event has been taken.
  Result<std::optional<GenerateEvent>> next(double timeout_seconds);
  /// Appends the tokens and delivers the logits after each of them, in order. Blocks until done. A
  /// callback that returns false ends the call with success; cancel() ends it with
  /// StatusCode::cancelled. The session then holds at least the tokens whose logits were delivered;
  /// length() says how many. busy: as in generate(). `images`: as GenerateOptions::images; of
  /// an image only the logits after its last token are delivered.
  Status evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits,
                  std::span<const ModelImage> images = {});
  /// Writes the tokens, their part of the cache and the seed of the last generate() to a file. At
  /// any moment the file is either the old one or the complete new one. Other sessions go on
  /// meanwhile. io if the file cannot be written.
  Status save(const std::string& path);
  /// Replaces this session by the saved one: it generates what that session would have generated.
  /// Tokens that the cache has no room for are computed again in the next call;
  /// statistics().reused_tokens says how many tokens came with their part of the cache. bad_file:
  /// the file is damaged. invalid_argument: it belongs to another model, another cache type or
  /// another way to compute. does_not_fit: it has more tokens than the context. io: it cannot be
  /// read. After a failure the session is as it was.
  Status restore(const std::string& path);
  /// A new session that holds the same tokens and has the same SessionOptions. Both share the pages
  /// of the cache; a page that is not full is copied only when one of them writes to it. They then
  /// go on independently, and each generates what it would generate without the other. The new
  /// session's statistics() hold only the seed. invalid_argument while a generation that start()
  /// began has not ended; out_of_memory.
  Result<std::unique_ptr<Session>> fork();
  /// Drops tokens from the end until `length` tokens are left. invalid_argument if the session
  /// holds fewer.
  Status truncate(int64_t length);
  /// Tokens held.
  int64_t length() const;
  /// Tells it from the engine's other sessions, also from those that are gone. Any thread.
  int64_t number() const;
  /// Tokens until the context is full. Sessions share the cache: if it does not hold all of them,
  /// running calls of lower priority and younger ones wait, and unused sessions are computed again
  /// when they continue.
  int64_t room() const;
  /// Statistics of the last generate(), also if it failed; zeros before the first.
  const GenerateResult& statistics() const;
  /// Soon ends the generate() or evaluate() that is running, with FinishReason::cancelled or
  /// StatusCode::cancelled. A call runs from the moment it is entered: cancel() also works while a
  /// grammar is compiled, while the call waits for its turn and while the prompt is computed.
  /// Without a running call it has no effect. Any thread; async-signal-safe.
  void cancel();

 private:
  friend class Engine;
  friend struct SessionAccess;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A LoRA adapter that was loaded with the model.
struct AdapterDescription {
  std::string path;
  std::string task;  ///< what it is for, as its file says; may be empty
  float scale = 1;   ///< LoadOptions::adapters
};

/// A loaded model.
class INFER_API Engine {
 public:
  /// Plans and allocates the memory and reads the weights. Blocks until done. not_found, bad_file
  /// or unsupported: the file. does_not_fit: found before anything is allocated. cancelled: by the
  /// progress callback.
  static Result<std::unique_ptr<Engine>> load(const std::string& path, const LoadOptions& options);
  /// All sessions must be gone.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelDescription& model() const;
  /// The devices in use, the CPU first, or alone after a fallback. memory_free is of now.
  std::vector<DeviceDescription> devices() const;
  /// What the engine does and has done. Never waits for a step and costs the steps nothing: it may
  /// be called often. If GPUs are used, a call may take some milliseconds once a second. memory()
  /// says what the memory is used for.
  EngineStatistics statistics() const;
  /// Sets the size of the cache to the whole pages that `bytes` hold; the cache no longer grows by
  /// itself beyond that. Growing moves nothing. Shrinking first drops pages that no session holds,
  /// then those of sessions that are not in use, then those of the youngest running sessions. All
  /// sessions go on and generate the same tokens. Sessions keep their context: one that finds no
  /// room later ends as if its context were full. does_not_fit: `bytes` is more than loading left
  /// for the cache, more than is free less the reserve, or less than the oldest running session
  /// needs; in the last case the cache is as small as it could be made.
  Status resize_cache(int64_t bytes);
  /// Sets what the cache may grow to by itself. It keeps the size that it has. Never waits.
  void limit_cache(int64_t bytes);
  /// Memory that is allocated, as the devices count it.
  MemoryReport memory() const;
  const Vocabulary& vocabulary() const;
  /// As Vocabulary::tokenize() and Vocabulary::detokenize().
  Result<std::vector<int32_t>> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const;
  std::string detokenize(std::span<const int32_t> tokens) const;
  /// The number of logits. It may exceed the size of the vocabulary.
  int32_t vocabulary_size() const;
  /// The adapters of LoadOptions::adapters, in their order.
  std::vector<AdapterDescription> adapters() const;
  /// An empty session. It takes cache only when it gets tokens.
  /// invalid_argument: options out of range. unsupported: the engine makes vectors of texts
  /// (makes_embeddings()) and generates nothing.
  Result<std::unique_ptr<Session>> open_session(const SessionOptions& options = {});
  /// True if the model is made for vectors of texts or was loaded with LoadOptions::embeddings:
  /// then embed() or rerank() works, and open_session() does not.
  bool makes_embeddings() const;
  /// Elements of a vector that embed() makes, without EmbedOptions::dimensions.
  int64_t vector_length() const;
  /// The most tokens of a text that embed() takes, or of a query and a text that rerank() takes.
  int64_t longest_text() const;
  /// Vectors of texts. Blocks until done. The vector of a text does not depend on the others, their
  /// order or the number of threads. Any thread; several calls share the device step by step.
  /// invalid_argument: options out of range, or a text without tokens. does_not_fit: a text has
  /// more tokens than longest_text(); the message says which, from 0. unsupported: the model
  /// generates and was not loaded with LoadOptions::embeddings, or its vectors are scores
  /// (rerank()). busy: as in Session::generate(). cancelled: by EmbedOptions::progress.
  Result<Embeddings> embed(std::span<const std::string> texts, const EmbedOptions& options = {});
  /// Scores how well each text fits the query. As embed() apart from: unsupported unless the model
  /// scores (pooling "rank").
  Result<Ranking> rerank(const std::string& query, std::span<const std::string> texts,
                         const RerankOptions& options = {});

  /// True if the engine was loaded with a file that reads images (LoadOptions::vision).
  bool reads_images() const;
  /// Reads a PNG, JPEG or WebP file of so many bytes. `name` begins messages. Blocks until
  /// computed, between steps of the sessions. Any thread. unsupported: the engine reads no images.
  /// bad_file: it is no such file, or damaged. invalid_argument: the image's form is beyond what
  /// the model takes.
  Result<ModelImage> read_image(std::span<const std::byte> file, std::string_view name);
  /// What stands in a text for an image: a place for it.
  const std::string& image_text() const;
  /// How many places for images are in a text.
  int64_t image_places(std::string_view text) const;
  /// The tokens of a text with those of the images in its places, in their order. invalid_argument:
  /// it has more places than images, or fewer.
  Result<std::vector<int32_t>> tokenize(std::string_view text, const TokenizeOptions& options,
                                        std::span<const ModelImage> images) const;
  /// The same of a prompt that is tokens already.
  Result<std::vector<int32_t>> place_images(std::span<const int32_t> prompt,
                                            std::span<const ModelImage> images) const;

  struct Impl;  ///< not part of the API

 private:
  friend struct EngineAccess;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace infer
