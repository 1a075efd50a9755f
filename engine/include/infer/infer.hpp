// infer: the C++ API. Everything an application needs; nothing else is stable.
//
// Conventions. Functions that can fail return Status or Result<T> and never throw (std::bad_alloc
// becomes StatusCode::out_of_memory); what else returns a string or a vector may throw
// std::bad_alloc and nothing else. Tokens are int32_t ids of the model's vocabulary. Sizes are in
// bytes, times in seconds, text in UTF-8.
//
// Ownership. Objects belong to the unique_ptr they come in; references and views that come out of
// an object live as long as it does. An Engine outlives its sessions.
//
// Threads. An Engine and a Vocabulary may be used from any thread; a Session has one caller at a
// time, only cancel() may come from any thread or a signal handler. Callbacks of a session run on
// the thread that called it, while the engine's own thread goes on: one that takes long delays its
// own session alone. It may use the engine and other sessions; of its own session length(),
// statistics() and cancel(). A callback that throws ends its call with
// StatusCode::invalid_argument and the exception's message (std::bad_alloc: out_of_memory). Every
// callback may be empty.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/export.h"
#include "infer/status.hpp"

namespace infer {

/// The library's version, "0.1.0".
INFER_API const char* version();

/// quiet: errors alone; each of the others adds to those before it.
enum class Verbosity { quiet, warnings, info, debug };
/// What the library reports on stderr (default: warnings), or to `sink` where one is given. For the
/// whole process, from any thread.
INFER_API void set_verbosity(Verbosity verbosity);
/// The sink gets one message at a time, without a line end, from any thread, with the lowest
/// verbosity that shows it; it must not call the library, and what it throws is dropped. When this
/// returns, the sink before is no longer running. Empty: stderr again.
INFER_API void set_log_callback(std::function<void(Verbosity, std::string_view)> sink);

// ---------------------------------------------------------------------------------------------
// Devices

struct DeviceDescription {
  std::string name;         ///< as `device` in LoadOptions: "cpu"
  std::string description;  ///< the processor's name
  int64_t memory_total = 0;
  int64_t memory_free = 0;
  int32_t threads = 0;   ///< of a CPU: what the process may use
  std::string isa;       ///< of a CPU: instruction set of the kernels chosen
  std::string unusable;  ///< why it cannot be used; empty: it can
  /// What it does not go beyond, by name ("subgroup"); those that end in "_bytes" are bytes.
  std::vector<std::pair<std::string, int64_t>> limits;
  std::vector<std::string> features;  ///< what makes it faster or known better, where it has that
};

/// What this machine has, by the back ends in this build; of one kind ("cpu", "vulkan") alone if it
/// is given, so that drivers of the others, which take memory, are not loaded.
INFER_API std::vector<DeviceDescription> devices(const std::string& kind = {});

// ---------------------------------------------------------------------------------------------
// Loading

/// Told how far loading is, 0 to 1; returns false to cancel: the call then fails as
/// StatusCode::cancelled and has freed all that it had taken. Called on the loading thread.
using ProgressFn = std::function<bool(double)>;

/// Where tensors go whose names contain a regular expression (PCRE2).
struct TensorPlacement {
  std::string pattern;  ///< "ffn_.*_exps"
  std::string device;   ///< one of LoadOptions::device, or "cpu"
};

struct LoadOptions {
  std::string device = "cpu";  ///< or others of devices(), parted by commas; "vulkan": the best
  /// With a device other than the CPU: how many layers it computes, the output counted as one more;
  /// the last ones, and with all of them the embedding too. The CPU computes the rest, and each
  /// layer's cache is where the layer is. Several devices share them by the memory they have free.
  /// −1: as many as fit.
  int32_t gpu_layers = -1;
  /// In the first so many layers of the model the experts stay on the CPU, while the rest of a
  /// layer is where gpu_layers says. −1: with gpu_layers −1 as few as let all layers fit, else
  /// none.
  int32_t cpu_experts = -1;
  /// Devices for single parts, before all else. The first entry that matches one of a part's
  /// tensors decides for the whole part: a layer's attention, its feed-forward, its experts, the
  /// embedding or the output. invalid_argument if two tensors of a part are for different devices.
  std::vector<TensorPlacement> placements;
  /// "cpu": where another device fails, while loading or later, the CPU goes on alone: the model is
  /// loaded there, and what sessions hold is computed again. A warning says so. Nothing drafts from
  /// then on. If the CPU has no room for the model, all running calls and all later ones fail at
  /// once with StatusCode::device and a message that says why. Empty: it is a failure, and later
  /// every session's next call fails too.
  std::string fallback;
  int32_t threads = 0;  ///< of the CPU; 0: all that the process may use
  int64_t context = 0;  ///< tokens that a session may have, and of the cache that all share; 0:
                        ///< chosen to fit, and the cache grows beyond it while memory is free
  int32_t batch_rows = 512;          ///< most tokens a step computes
  int32_t output_rows = 16;          ///< most rows a step returns logits for
  int32_t parallel = 4;              ///< sessions that generate at once, as far as layers with a
                                     ///< sliding window need cache for each; more take turns
  bool fewer_rows = true;            ///< fewer than batch_rows where those do not fit
  std::string cache_type_k = "f16";  ///< f32, f16, q8_0, q4_0; auto: f16, q8_0 if only that fits
  std::string cache_type_v = "f16";
  bool exact = false;    ///< keep activations in float32
  std::string quantize;  ///< matrices that are not quantised are made this type while loading, but
                         ///< for the embedding and the output: nf4, q8_0, …; empty: as stored
  bool mmap = false;     ///< use weights as they lie in the mapped file, without laying them out
                         ///< anew; the file must not shrink meanwhile
  bool spill = false;  ///< the same, and weights leave memory when a layer has used them; mmap does
                       ///< so by itself where they do not fit
  std::string isa;     ///< force a CPU instruction set; empty: the best
  int64_t memory_limit = 0;  ///< use at most this much of each memory; 0: what is free.
                             ///< plan_model() believes a limit above what is free
  int64_t reserve = -1;      ///< of what is free leave this much; −1: 5 %, at least 256 MiB
  bool prefix_reuse = true;  ///< keep what is in the cache for sessions that begin alike
  std::string cache_folder;  ///< where that goes when the memory is needed; empty: nowhere, it is
                             ///< computed again
  int64_t cache_folder_limit = int64_t{8} << 30;  ///< bytes of files there, gone with the process
  /// Who proposes tokens that the model then checks several at a time: "ngram" (what followed the
  /// last few tokens before), "suffix" (what followed the longest end of the text that occurred
  /// before, in this session or in what others generated), "model" (draft_model). They change no
  /// token, only the speed. Empty: suffix and model with a draft_model, else none.
  std::vector<std::string> drafters;
  /// A small model file; with another vocabulary its text is tokenised anew, which takes longer and
  /// is accepted less. Empty: none.
  std::string draft_model;
  /// Plan the memory of grammars and JSON schemas with the rest (MemoryReport::grammars). Else it
  /// is planned for when a session first asks for one, and that call fails with does_not_fit if
  /// there is no room by then.
  bool grammars = false;
  ProgressFn progress;
};

/// What of it is on one device.
struct DeviceMemoryReport {
  std::string device;
  int64_t weights = 0;
  int64_t kv = 0;
  int64_t activations = 0;
  int64_t scratch = 0;
  int64_t other = 0;      ///< host, process, drafters and grammars, of the CPU
  int64_t available = 0;  ///< of the device's memory; devices without their own share the CPU's
  std::string computes;   ///< "layers 12 to 23, output"; empty: nothing
};

/// Memory that a model will use, or uses. What is planned is what is allocated; `host`, `process`,
/// `drafters` and `grammars`, what the library and its process hold besides, are estimated from
/// above.
struct MemoryReport {
  std::string device;  ///< names of those that compute something
  int64_t weights = 0;
  int64_t kv = 0;           ///< cache
  int64_t activations = 0;  ///< intermediate values of a step
  int64_t scratch = 0;      ///< work space of kernels
  int64_t host = 0;         ///< inputs of a step, RoPE tables, sampling, tokens
  int64_t process = 0;      ///< code, metadata, vocabulary, graphs, stacks
  int64_t draft = 0;        ///< all of the model that drafts
  int64_t drafters = 0;     ///< texts that drafters keep; 0 without drafters
  int64_t grammars = 0;     ///< grammars and their tables, of all sessions; 0: not planned for yet
  int64_t total = 0;
  int64_t available = 0;   ///< what the devices had less the reserve, or the limit given for each
  int64_t context = 0;     ///< tokens
  int64_t page_bytes = 0;  ///< of 64 tokens of the cache: a page of each kind of layers together
  int64_t pages = 0;       ///< of the kind that has most; those with a sliding window have fewer
  int32_t batch_rows = 0;  ///< most tokens a step computes
  std::string cache_type_k, cache_type_v;
  bool spilled = false;  ///< weights are read from the file layer by layer; `weights` is what of
                         ///< them is in memory at a time
  std::vector<DeviceMemoryReport> devices;  ///< the CPU first
  int64_t layers = 0;                       ///< of the model
  int64_t gpu_layers = 0;            ///< of them not on the CPU, the output counted as one more
  int64_t cpu_experts = 0;           ///< of these layers those whose experts are on the CPU
  std::vector<std::string> refused;  ///< what another device was to compute and cannot, with the
                                     ///< reason: the CPU does
};

struct TensorDescription {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;  ///< fastest first
  int64_t bytes = 0;
};

struct ModelDescription {
  std::string path;
  std::string name;  ///< general.name, may be empty
  std::string architecture;
  std::string file_type;  ///< what the file says, "Q4_K - Medium"; else what most weights have
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  ///< in the file
  int64_t vocabulary = 0;
  int64_t context = 0;  ///< tokens it was trained for
  int64_t embedding = 0;
  int64_t layers = 0;
  std::string tokenizer;      ///< kind and pre-tokenizer, e.g. "gpt2 (llama-bpe)"
  std::string chat_template;  ///< Jinja source, may be empty
  std::vector<std::pair<std::string, std::string>> metadata;  ///< keys and shortened values
  std::vector<TensorDescription> tensors;
  std::string unsupported;  ///< why this build cannot run it; empty: nothing in the header says so
};

/// What a model file holds; reads its header alone. Also describes a model whose architecture this
/// build does not know: `unsupported` says so, and what is not known is 0 or empty.
INFER_API Result<ModelDescription> describe_model(const std::string& path);

/// What loading would use; reads the header alone. does_not_fit: the message says whether the
/// weights or the context are too large.
INFER_API Result<MemoryReport> plan_model(const std::string& path, const LoadOptions& options);

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
// Text and generation

struct TokenizeOptions {
  bool add_special = true;    ///< begin and end tokens as the model wants them
  bool parse_special = true;  ///< the spelling of special tokens in the text means the token
};

/// Tokens with a role; −1 where the vocabulary has none.
struct SpecialTokenIds {
  int32_t bos = -1;  ///< begins a text
  int32_t eos = -1;  ///< ends a text
  int32_t eot = -1;  ///< ends a turn of a conversation
  int32_t unknown = -1;
  int32_t padding = -1;
  bool adds_bos = false;  ///< TokenizeOptions::add_special puts `bos` before a text
  bool adds_eos = false;  ///< and `eos` after it
};

/// The vocabulary of a model: that of an Engine, or loaded alone from a model file or a directory
/// with a tokenizer.json, of whatever architecture. Immutable.
class INFER_API Vocabulary {
 public:
  static Result<std::unique_ptr<Vocabulary>> load(const std::string& path);
  ~Vocabulary();
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// The ids of a text of at most 64 MiB. unsupported if the model has no vocabulary.
  Result<std::vector<int32_t>> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const;
  /// The bytes of the tokens, special ones spelt out. Ids that do not exist leave nothing.
  std::string detokenize(std::span<const int32_t> tokens) const;
  /// The bytes of one token as they stand inside a text, special ones spelt out; not always whole
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

/// A model's chat template (ModelDescription::chat_template), Jinja as Hugging Face's transformers
/// runs it: from a conversation to the text that the model continues, to the byte. Immutable. Any
/// template ends within about a second, whatever it does.
class INFER_API ChatTemplate {
 public:
  /// bad_file: the message says the line and what was expected; unsupported: what needs other
  /// files.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  /// `variables_json`: one object, the template's variables (messages, tools, bos_token,
  /// add_generation_prompt, …). `now`: the time that strftime_now sees, "2026-01-15T12:00:00";
  /// empty: the local time. invalid_argument: the template raises (with its message), the variables
  /// do not fit it, or it exceeds a limit.
  Result<std::string> render(std::string_view variables_json, std::string_view now) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A call of a tool that a model asks for.
struct ToolCall {
  std::string id;         ///< as the model gave it; often empty
  std::string name;       ///< of the function
  std::string arguments;  ///< JSON, most often an object
};

/// What a piece of generated text turned out to be.
struct OutputEvent {
  enum class Kind { reasoning, content, tool_call };
  Kind kind = Kind::content;
  std::string text;  ///< more reasoning or content
  ToolCall call;     ///< a whole call
};

/// Takes generated text apart while it comes: reasoning, the answer, calls of tools. Special tokens
/// have to be spelt out in it; they may be divided anywhere. What is no well-formed call is given
/// back as content. One thread.
class INFER_API OutputParser {
 public:
  /// The format is found in the template's source; `prompt`, the text that it rendered, says
  /// whether it ends within reasoning.
  static Result<std::unique_ptr<OutputParser>> create(std::string_view template_source,
                                                      std::string_view prompt);
  ~OutputParser();
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  /// What is certain with this piece. Text that may begin a mark is held back.
  Result<std::vector<OutputEvent>> push(std::string_view text);
  /// The rest, at the end of the text; the parser is not used afterwards.
  Result<std::vector<OutputEvent>> finish();
  /// The format's name, "hermes", "harmony", …, "plain". A constant.
  std::string_view format() const;

 private:
  struct Impl;
  explicit OutputParser(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// How a token is chosen. Unset fields come from the model (general.sampling.*), else as noted.
struct SamplingOptions {
  std::optional<float> temperature;        ///< 0.8; 0: the most likely token
  std::optional<int32_t> top_k;            ///< 0: off
  std::optional<float> top_p;              ///< 0.95; 1: off
  std::optional<float> min_p;              ///< 0.05; 0: off
  std::optional<float> typical_p;          ///< 1: off
  std::optional<float> top_n_sigma;        ///< 0: off; standard deviations from the largest logit
  std::optional<float> dynamic_range;      ///< 0: off; temperature ± this, by the entropy
  std::optional<float> dynamic_exponent;   ///< 1; of the entropy's share of its largest
  std::optional<float> xtc_probability;    ///< 0: off; how often top choices are excluded
  std::optional<float> xtc_threshold;      ///< 0.1; what makes a top choice; above 0.5: off
  std::optional<int32_t> mirostat;         ///< 0: off; version 1 or 2, in place of what truncates
  std::optional<float> mirostat_target;    ///< 5; surprise to hold, in bits
  std::optional<float> mirostat_rate;      ///< 0.1; of learning
  std::optional<float> repeat_penalty;     ///< 1: off; above 1 makes recent tokens less likely
  std::optional<float> frequency_penalty;  ///< 0; subtracted for every recent occurrence
  std::optional<float> presence_penalty;   ///< 0; subtracted once for a recent token
  std::optional<int32_t> penalty_last;     ///< 64; tokens that count as recent, −1: all
  std::optional<float> dry_multiplier;     ///< 0: off; a token that would repeat a sequence of n
                                           ///< tokens loses multiplier·base^(n − allowed)
  std::optional<float> dry_base;           ///< 1.75
  std::optional<int32_t> dry_allowed_length;  ///< 2
  std::optional<int32_t> dry_penalty_last;    ///< −1: all; tokens looked back on
  /// Sequences end at tokens that hold one of these: newline, colon, quotation mark, asterisk.
  std::optional<std::vector<std::string>> dry_breakers;
  /// Added to the logits of tokens: −1e30 to 1e30; −infinity forbids a token; +infinity forbids all
  /// tokens without it (as long as a grammar allows one that has it), and among those that have it
  /// the logits decide.
  std::vector<std::pair<int32_t, float>> logit_bias;
  /// The order of the samplers; those not named are off. Empty: penalties, dry, top_n_sigma, top_k,
  /// typical_p, top_p, min_p, xtc, temperature.
  std::vector<std::string> samplers;
  std::optional<uint64_t> seed;  ///< a fresh one each time; equal seeds give equal text
};

/// A generated token first, then the most likely ones: each with the natural logarithm of its
/// probability as the model gives it, before any sampler. Valid during the call; return false to
/// end.
using LogprobsFn = std::function<bool(std::span<const std::pair<int32_t, float>>)>;

/// What happens when the context is full.
enum class ContextOverflow {
  stop,  ///< generation ends, FinishReason::context
  /// The first `keep` tokens and the later half of the others stay, are computed anew at their new
  /// positions, and generation goes on: exactly as from that shorter text.
  shift,
};

struct GenerateOptions {
  int32_t max_tokens = -1;  ///< −1: until the end of text or of the context; 0: the prompt alone
  bool ignore_end = false;  ///< go on past end-of-text tokens
  ContextOverflow overflow = ContextOverflow::stop;
  int32_t keep = 0;  ///< with ContextOverflow::shift: the first tokens, which stay
  /// The text ends before the first of these, FinishReason::stop. Text that may be the beginning of
  /// one comes later. The session keeps the tokens that spell it.
  std::vector<std::string> stop;
  /// What the text may be; one of the two at most. It then ends when it is complete and nothing may
  /// follow, and end-of-text tokens count even with ignore_end. A text cut short by max_tokens or a
  /// stop string is the beginning of one.
  std::string grammar;        ///< in GBNF, from its rule "root"
  std::string json_schema;    ///< of draft 2020-12; "{}": any JSON value
  bool special_text = false;  ///< the text has special tokens spelt out, as OutputParser wants it
  int32_t logprobs = -1;      ///< most likely tokens that on_logprobs is told of; −1: not called
  LogprobsFn on_logprobs;     ///< called before the callback that is told the token
  /// Tokens that drafters propose at a time, if the engine has any (LoadOptions::drafters): −1: as
  /// many as make it fastest by what is measured, perhaps none; 0: none; above: that many, at most
  /// 32, where a drafter has so many.
  int32_t draft_tokens = -1;
  SamplingOptions sampling;
};

enum class FinishReason {
  stop,       ///< the model ended the text, or a stop string
  length,     ///< max_tokens were generated
  context,    ///< the cache is full
  cancelled,  ///< the callback returned false, or cancel()
};

/// What speculation did. Of steps that computed no prompts; where several sessions share a step
/// each has its share of the time.
struct SpeculationStatistics {
  int64_t drafted = 0;       ///< tokens proposed and verified
  int64_t accepted = 0;      ///< of them
  int64_t tokens = 0;        ///< generated in these steps
  double seconds = 0;        ///< of these steps, proposing included
  double draft_seconds = 0;  ///< of them, proposing
  double plain_seconds = 0;  ///< what they would have taken one token at a time, by measurement
  /// By place in the proposal: how often all before it were right, and it as well.
  struct Place {
    int64_t reached = 0;
    int64_t accepted = 0;
  };
  std::vector<Place> places;
  /// By length of the proposal, from 0: how many steps had one so long, how many of its tokens were
  /// right in all of them, and how many of them had a wrong one.
  struct Length {
    int64_t steps = 0;
    int64_t accepted = 0;
    int64_t refused = 0;
  };
  std::vector<Length> lengths;
};

struct GenerateResult {
  FinishReason reason = FinishReason::stop;
  int64_t prompt_tokens = 0;  ///< given
  int64_t reused_tokens = 0;  ///< found in the cache instead of computed
  int64_t generated_tokens = 0;
  double prompt_seconds = 0;
  double generate_seconds = 0;
  double first_token_seconds = 0;  ///< from the call to the first token
  uint64_t seed = 0;               ///< the one used
  int64_t shifted_tokens = 0;      ///< dropped by ContextOverflow::shift
  SpeculationStatistics speculation;
};

/// A generated token and the text that it completed (whole UTF-8 characters; may be empty). Return
/// false to end. If the text ends within a character (which becomes U+FFFD) or with what might have
/// been the beginning of a stop string, a last call with token −1 brings that; what it returns does
/// not matter.
using TokenFn = std::function<bool(int32_t token, std::string_view text)>;

/// What a generation that was started has to tell.
struct GenerateEvent {
  bool finished = false;  ///< the last event: `status` and `result`; else a token
  int32_t token = -1;     ///< −1: text alone, which was held back until the end
  std::string text;       ///< that the token completed; whole UTF-8 characters, may be empty
  /// With GenerateOptions::logprobs, as on_logprobs is told them.
  std::vector<std::pair<int32_t, float>> log_probabilities;
  Status status;  ///< what generate() would have failed with
  GenerateResult result;
};

/// Told the logits [vocabulary] after the token at `position` of the session, valid during the
/// call. Return false to end.
using LogitsFn = std::function<bool(int64_t position, std::span<const float> logits)>;

/// One sequence: its tokens and its share of the cache. Outlives no Engine. Calls that fail leave
/// it with the tokens that it held before.
class INFER_API Session {
 public:
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Appends the tokens (none: goes on from those held) and generates from there. Blocks until
  /// done. Afterwards the session holds the generated tokens too, without the end token that
  /// stopped it: the next call continues the text. With ContextOverflow::shift it may then hold
  /// fewer tokens than before, also where the call fails later. cancel() is no failure here. Fails
  /// with invalid_argument for ids outside the vocabulary or options out of range, unsupported for
  /// a grammar or schema that the text cannot be held to, does_not_fit if the cache has no room for
  /// the prompt.
  Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                  const TokenFn& on_token);
  /// Begins what generate() does and returns at once; next() gives the tokens. Fails as generate()
  /// does for arguments; what comes later is the last event's status. The options' callbacks are
  /// not called. `on_event`, if any, is called when an event waits after none did: on one of the
  /// engine's threads, so it returns at once and does not use the session (it may wake an event
  /// loop). Until the last event has been taken other calls that use the session fail with
  /// invalid_argument. 32 tokens wait at most: then the generation waits for next(), and others go
  /// on.
  Status start(std::span<const int32_t> prompt, const GenerateOptions& options,
               std::function<void()> on_event = {});
  /// The next event of what was started, or nothing if none comes within the time (0: what waits
  /// already; infinity: as long as it takes). invalid_argument if nothing was started or the last
  /// event has been taken.
  Result<std::optional<GenerateEvent>> next(double timeout_seconds);
  /// Appends the tokens and gives the logits after each of them, in order. Blocks until done. A
  /// callback that returns false ends it with success, cancel() with StatusCode::cancelled;
  /// length() then says how far it came, at least past the tokens whose logits were given.
  Status evaluate(std::span<const int32_t> tokens, const LogitsFn& on_logits);
  /// Writes the tokens, what the cache holds for them and the seed of the last generate() to a
  /// file: the old file or the new one is there whenever the process ends. Other sessions go on
  /// meanwhile. Fails with io.
  Status save(const std::string& path);
  /// Becomes the session that was saved: what it generates is what that would have generated.
  /// Tokens for which the cache has no room are computed again when it goes on:
  /// statistics().reused_tokens says how many came with what the file holds for them. bad_file if
  /// the file is damaged; invalid_argument if it belongs to another model, another type of cache or
  /// another way to compute; does_not_fit if it has more tokens than the context; io. A failure
  /// leaves the session as it was.
  Status restore(const std::string& path);
  /// Forgets tokens from the end, down to `length`; invalid_argument if it holds fewer.
  Status truncate(int64_t length);
  /// Tokens held.
  int64_t length() const;
  /// Tokens until the context is full. Sessions share the cache: where it does not hold all of them
  /// at once, the youngest wait, and those not in use are computed again when they go on.
  int64_t room() const;
  /// Of the last generate(), also of one that failed; zeros before.
  const GenerateResult& statistics() const;
  /// Ends the generate() or evaluate() that is running, soon, with FinishReason::cancelled or
  /// StatusCode::cancelled. A call is running from the moment it is entered: a cancel also counts
  /// while a grammar is compiled, while the call waits for its turn and while the prompt is
  /// computed. Where no call is running it has no effect. From any thread; async-signal-safe.
  void cancel();

 private:
  friend class Engine;
  friend struct SessionAccess;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A loaded model.
class INFER_API Engine {
 public:
  /// Plans, allocates, reads the weights; blocks until done. Fails with not_found, bad_file or
  /// unsupported for the file, does_not_fit before anything is allocated, cancelled.
  static Result<std::unique_ptr<Engine>> load(const std::string& path, const LoadOptions& options);
  /// The sessions are gone by then.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelDescription& model() const;
  /// The device in use; memory_free is that of now.
  DeviceDescription device() const;
  /// Makes the cache as large as whole pages of at most so many bytes in all are; it does not grow
  /// beyond that by itself. Growing moves nothing; shrinking gives up what no session holds, then
  /// what sessions not in use hold, then what the youngest running ones do: all go on, and nothing
  /// that they generate changes. Sessions keep their context: one that no longer finds room ends as
  /// if it were full. does_not_fit if that is more than loading had left for it or than is free,
  /// less the reserve; or less than what the oldest running session needs: then the cache is as
  /// small as it could be made.
  Status resize_cache(int64_t bytes);
  /// What is allocated, by the devices' own accounting.
  MemoryReport memory() const;
  const Vocabulary& vocabulary() const;
  /// As those of vocabulary().
  Result<std::vector<int32_t>> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const;
  std::string detokenize(std::span<const int32_t> tokens) const;
  /// The number of logits; may exceed the size of the vocabulary.
  int32_t vocabulary_size() const;
  /// An empty sequence. Takes cache only as tokens come.
  Result<std::unique_ptr<Session>> open_session();

  struct Impl;  ///< for the library itself
  Impl& impl() { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// ---------------------------------------------------------------------------------------------
// Jobs

struct BenchOptions {
  LoadOptions load;                          ///< context 0: what the measurements need
  std::vector<int32_t> prompt_tokens{256};   ///< prompts to measure, tokens of each
  std::vector<int32_t> generate_tokens{32};  ///< generations to measure, tokens of each
  std::vector<int32_t> depths{0};            ///< tokens in the context before either
  std::vector<int32_t> batches{1};           ///< sequences that generate together
  int32_t repeats = 3;
  bool profile = false;  ///< BenchResult::profile, from one repetition more
  bool trace = false;    ///< BenchReport::trace, from the same
};

enum class BenchBound { none, bandwidth, arithmetic };

/// What a kind of operation took; several that run as one have one name.
struct BenchOperation {
  std::string name;  ///< "matmul(attn_q,attn_k,attn_v)", or "host: sample" for what is no operation
  int64_t calls = 0;
  double seconds = 0;
  double share = 0;        ///< of the time of all steps
  double bytes = 0;        ///< read and written
  double macs = 0;         ///< multiply-accumulates
  int64_t dispatches = 0;  ///< of shaders, on a GPU
  int64_t barriers = 0;    ///< that a GPU waits at
  double fraction = 0;     ///< of the ceiling that binds: weights and cache read, or macs
  BenchBound bound = BenchBound::none;
};

/// One measurement. A prefill's fraction is that of multiply-accumulates with weights over
/// int8_mac_g_s (or prompt_mac_g_s, where there is one); a decode's of weight and cache bytes over
/// read_bandwidth_gb_s or, where sequences together need more of it, of multiply-accumulates.
struct BenchResult {
  std::string model;
  bool prefill = false;  ///< a prompt; otherwise a generation, from at least one token of context
  int64_t tokens = 0;    ///< of each sequence
  int64_t depth = 0;     ///< tokens in the context before
  int32_t batch = 1;     ///< sequences
  double tokens_per_s = 0;  ///< of all sequences, mean
  double spread = 0;        ///< relative standard deviation
  double fraction = 0;
  BenchBound bound = BenchBound::none;
  std::vector<BenchOperation> profile;
  int64_t profiled_steps = 0;  ///< that the profile is of
};

struct BenchModel {
  std::string path;
  int64_t weights_bytes = 0;  ///< read for one token
};

struct BenchReport {
  std::string device;
  int32_t threads = 0;
  double read_bandwidth_gb_s = 0;  ///< plain reads of all threads, the best before and after
  double int8_mac_g_s = 0;         ///< 32 × the rate of the 8-bit product instruction, likewise
  double prompt_mac_g_s = 0;       ///< of float16 matrices, where prompts go through them
  std::vector<BenchModel> models;
  std::vector<BenchResult> results;  ///< measurement by measurement, each of all models
  std::string trace;                 ///< JSON in Chrome's trace event format, for Perfetto
};

/// Measures models: each measurement of all of them in turns, so that what disturbs the machine
/// disturbs all alike. All are loaded at once.
INFER_API Result<BenchReport> bench(const std::vector<std::string>& paths,
                                    const BenchOptions& options);

struct SpeculationBenchOptions {
  LoadOptions load;  ///< with drafters
  /// Texts that are continued; random ones would be of no use, since nobody can guess what follows.
  std::vector<std::string> prompts;
  int32_t tokens = 256;  ///< to generate after each
  int32_t repeats = 3;
  GenerateOptions generate;  ///< draft_tokens, sampling
};

/// Generations of one prompt with drafters and without, in turns. Decoding alone is timed.
struct SpeculationBenchResult {
  double plain_tokens_per_s = 0;
  double tokens_per_s = 0;
  double speedup = 0;  ///< mean of the pairs' ratios
  double spread = 0;   ///< their relative standard deviation
  /// What the drafts should give by (1 − α^(γ+1)) / (1 − α) / (1 + γ·(c + v)) (Leviathan et al.
  /// 2023), with the acceptance α, tokens a proposal γ, and costs c of proposing and v of verifying
  /// one token as they were measured.
  double expected = 0;
  SpeculationStatistics statistics;  ///< of all repetitions
};

/// A result for each prompt. Fails with internal if a text differs from the one without drafters.
INFER_API Result<std::vector<SpeculationBenchResult>> bench_speculation(
    const std::string& path, const SpeculationBenchOptions& options);

struct PerplexityOptions {
  int32_t chunk = 512;  ///< tokens that are evaluated together; the second half of them counts
  int32_t chunks = 0;   ///< at most; 0: all that the text fills
  std::string save;     ///< where to write the distributions, for a later run's `base`
  std::string base;     ///< a saved run of the same text and vocabulary to compare with
  bool parse_special = false;  ///< the spelling of special tokens in the text means the token
  /// Told the chunks done, of how many, and the perplexity so far; false cancels.
  std::function<bool(int64_t, int64_t, double)> on_chunk;
};

struct PerplexityReport {
  int64_t tokens = 0;           ///< that counted
  double perplexity = 0;        ///< e to the mean of −log p(token)
  double perplexity_error = 0;  ///< standard error
  /// Σ p_base·(log p_base − log p) at each token (Kullback & Leibler 1951).
  struct Divergence {
    double base_perplexity = 0;
    double mean = 0, mean_error = 0, median = 0, percentile_99 = 0, largest = 0;
    double same_top = 0;  ///< share of tokens with the same most likely successor
  };
  std::optional<Divergence> divergence;
};

/// How well the model foresees a text. Each chunk begins with the token that begins a text, if the
/// model wants one, in place of its first. The engine's cache of type f32 or f16 and its steps are
/// as it was loaded; output_rows of a chunk or more make it fast. invalid_argument for a text that
/// is too short.
INFER_API Result<PerplexityReport> perplexity(Engine& engine, std::string_view text,
                                              const PerplexityOptions& options);

struct SelftestReport {
  int32_t passed = 0;
  int32_t failed = 0;
  int32_t unsupported = 0;
  std::vector<std::string> failures;  ///< "kernels: op case: what differs"
  std::vector<std::string> untested;  ///< kernels built in for instruction sets that are not here
};

/// Runs every operation's conformance cases on a device against the scalar references, with the
/// kernels of every instruction set that runs here unless options.isa names one.
/// `only`: an operation's name, or empty for all.
INFER_API Result<SelftestReport> selftest(const LoadOptions& options, const std::string& only);

struct SynthOptions {
  std::string shape;          ///< a name of synth_shapes(), or "custom"
  std::string type = "q4_0";  ///< one of synth_types()
  std::string vocabulary;     ///< a GGUF file to take the vocabulary from; empty: one made up
  uint64_t seed = 1;
  // Of "custom" (and, where not 0, instead of the shape's own):
  int64_t layers = 0, embedding = 0, feed_forward = 0, heads = 0, kv_heads = 0, tokens = 0;
  int64_t experts = 0, experts_used = 0, context = 0;
  int64_t head_dim = 0, expert_feed_forward = 0;
  ProgressFn progress;
};

/// Names of the shapes that can be synthesised.
INFER_API std::vector<std::string> synth_shapes();
/// Element types and mixes that weights can be made of.
INFER_API std::vector<std::string> synth_types();
/// Writes a GGUF model of random weights in a named shape, for benchmarks and tests.
INFER_API Status synth(const std::string& path, const SynthOptions& options);

struct QuantizeOptions {
  std::string type;               ///< of quantize_types(), in either case
  bool pure = false;              ///< all matrices get the mix's base type
  bool allow_requantize = false;  ///< quantised weights may be quantised again, which adds errors
  std::string output_type;        ///< of "output.weight"; empty: by the mix
  std::string embedding_type;     ///< of "token_embd.weight"; empty: by the mix
  /// Types of the weights whose names contain a pattern, in which '*' stands for any text and '?'
  /// for one character. The first that matches decides, before all else.
  std::vector<std::pair<std::string, std::string>> tensor_types;
  std::string importance;  ///< file of an importance matrix; empty: none
  int32_t threads = 0;     ///< 0: all that the process may use
  ProgressFn progress;
};

struct QuantizeReport {
  struct Tensor {
    std::string name;
    std::string from, to;     ///< types
    std::string wanted;       ///< the type whose blocks do not divide the rows; empty: `to` is it
    bool importance = false;  ///< its errors were weighted by the matrix
  };
  std::vector<Tensor> tensors;
  int64_t source_bytes = 0, bytes = 0;  ///< of all weights
  int64_t parameters = 0;
  double bits_per_weight = 0;
};

/// Types and mixes of types that weights can be quantised to, and "COPY".
INFER_API std::vector<std::string> quantize_types();
/// Writes a model as GGUF with weights of other types. Vectors, norms and routers keep theirs. The
/// result does not depend on the number of threads. Memory: a few MiB and rows of a weight for each
/// thread. Fails with invalid_argument for an unknown type, an output that would replace the input,
/// or an importance matrix of another model; unsupported for a type that cannot be written or for
/// quantised weights without allow_requantize; not_found, bad_file (a weight that is not a finite
/// number: where it is), io, cancelled. The file is there in full or not at all.
INFER_API Result<QuantizeReport> quantize(const std::string& input, const std::string& output,
                                          const QuantizeOptions& options);

struct ImportanceOptions {
  LoadOptions load;            ///< context and rows of a step are chosen by `chunk`
  int32_t chunk = 512;         ///< tokens that are evaluated together
  int32_t chunks = 0;          ///< at most; 0: all that the text fills
  std::string dataset;         ///< what the file says the text is
  bool parse_special = false;  ///< the spelling of special tokens in the text means the token
  /// Told the chunks done and of how many; false cancels.
  std::function<bool(int64_t, int64_t)> on_chunk;
};

struct ImportanceReport {
  int64_t tokens = 0;
  int64_t chunks = 0;
  int64_t weights = 0;         ///< that have an importance now
  int64_t experts_unused = 0;  ///< experts of all layers' matrices that no token met
};

/// Measures how much the columns of each weight matter for a text, the mean of their squared
/// activations, and writes it for quantize(): the GGUF form of llama.cpp's importance matrices.
/// invalid_argument for a text that is too short; else what Engine::load and the file give.
INFER_API Result<ImportanceReport> measure_importance(const std::string& model,
                                                      std::string_view text,
                                                      const std::string& output,
                                                      const ImportanceOptions& options);

struct ConvertOptions {
  std::string type = "auto";  ///< of the matrices: f32, f16, bf16, or auto: as they are stored
  ProgressFn progress;
};

struct ConvertReport {
  std::string architecture;
  int64_t tensors = 0;
  int64_t bytes = 0;                                   ///< of the weights as written
  std::vector<std::pair<std::string, int64_t>> types;  ///< tensors of each
};

/// Writes a Hugging Face directory as a GGUF file that computes the same, bit for bit with type
/// "auto". bad_file or unsupported, naming what is missing or not known, before anything is
/// written; invalid_argument if `output` is one of the model's own files.
INFER_API Result<ConvertReport> convert(const std::string& model, const std::string& output,
                                        const ConvertOptions& options);

}  // namespace infer
