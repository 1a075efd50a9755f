// infer: jobs on models, which the program's commands run: benchmarks, perplexity, tests of
// devices, random models, quantisation, conversion. The conventions are those of infer/infer.hpp.
// Every job blocks until it is done.
#pragma once

#include "infer/infer.hpp"

namespace infer {

// ---------------------------------------------------------------------------------------------
// Forecasts: the plan of a model and its expected speed, also on devices that are not present

/// A device by its maker's public specification.
struct DeviceSpecification {
  std::string name;
  int64_t memory = 0;              ///< bytes
  double read_bandwidth_gb_s = 0;  ///< 10⁹ bytes a second
  double float16_tflops = 0;       ///< of matrix units with float32 sums; 0: it has none
  double int8_tops = 0;            ///< 0: not known
  std::string maker;               ///< "NVIDIA"; empty: not known
};

/// The devices that ForecastOptions::on knows by name.
INFER_API std::vector<DeviceSpecification> device_specifications();

/// Tokens per second that a measurement is expected between. 0 and 0: not known.
struct SpeedRange {
  double low = 0;
  double high = 0;
};

/// The limits of a device that computes a part of the model, as BenchReport has them.
struct DeviceSpeed {
  enum class Source { unknown, measured, specification };
  std::string device;
  Source source = Source::unknown;
  double read_bandwidth_gb_s = 0;
  double int8_mac_g_s = 0;
  double prompt_mac_g_s = 0;  ///< of float16 matrices; 0 if prompts do not use them
};

/// What a model's speed should be, from its devices' limits and the fractions of them that
/// measurements have reached (tools/bench/RESULTS.md). Without drafters, one sequence.
struct SpeedEstimate {
  SpeedRange generation;       ///< with an empty context
  SpeedRange generation_full;  ///< at the end of a full context
  SpeedRange prompt;           ///< of prompt_tokens tokens
  int64_t prompt_tokens = 0;
  std::string unknown;               ///< why there is no estimate; empty: there is one
  std::string note;                  ///< what it assumes beyond what was measured; empty: nothing
  std::vector<DeviceSpeed> devices;  ///< those that compute something
};

struct ForecastOptions {
  /// Measure the limits of devices that are not known yet. That takes about half a second a device;
  /// the result is kept in the user's cache folder.
  bool measure = true;
  /// A device that is not present: a name of device_specifications(), without regard to case,
  /// blanks and the maker's words; or "24G,1008GB/s,330TFLOPS" (memory, read bandwidth, and, if
  /// known, float16 products). It takes the place of LoadOptions::device. Empty: the devices of
  /// LoadOptions.
  std::string on;
};

struct Forecast {
  MemoryReport memory;  ///< as plan_model()
  SpeedEstimate speed;
  std::optional<DeviceSpecification> absent;  ///< the device of ForecastOptions::on
  std::string absent_backend;  ///< whose use of its memory was planned: "cuda", "vulkan"
};

/// plan_model() with the expected speed. Errors: those of plan_model(). For ForecastOptions::on
/// also device if the name is not known (the message has the nearest ones), invalid_argument, and
/// unsupported if this build has no back end for GPUs.
INFER_API Result<Forecast> forecast(const std::string& path, const LoadOptions& options,
                                    const ForecastOptions& what = {});

// ---------------------------------------------------------------------------------------------
// Benchmarks

struct BenchOptions {
  LoadOptions load;                          ///< context 0: what the measurements need
  std::vector<int32_t> prompt_tokens{256};   ///< lengths of the prompts to measure
  std::vector<int32_t> generate_tokens{32};  ///< lengths of the generations to measure
  std::vector<int32_t> depths{0};            ///< tokens in the context before the measurement
  std::vector<int32_t> batches{1};           ///< sequences that generate together
  int32_t repeats = 3;
  bool profile = false;  ///< fill BenchResult::profile, from one more repetition
  bool trace = false;    ///< fill BenchReport::trace, from the same repetition
  /// Gets the progress of measuring, 0 to 1, a few times a second on another thread. Return false
  /// to cancel: bench() then soon fails with StatusCode::cancelled.
  ProgressFn progress;
};

enum class BenchBound { none, bandwidth, arithmetic };

/// Time of one kind of operation. Operations that are computed as one have one name.
struct BenchOperation {
  /// "matmul(attn_q,attn_k,attn_v)"; "host: sample" for work that is not an operation.
  std::string name;
  int64_t calls = 0;
  double seconds = 0;
  double share = 0;        ///< of the time of all steps
  double bytes = 0;        ///< read and written
  double macs = 0;         ///< multiply-accumulates
  int64_t dispatches = 0;  ///< of shaders, on a GPU
  int64_t barriers = 0;    ///< at which a GPU waits
  double fraction = 0;     ///< of the ceiling that binds: weights and cache read, or macs
  BenchBound bound = BenchBound::none;
};

/// One measurement. `fraction` compares it with a ceiling of BenchReport. For a prompt it is the
/// rate of multiply-accumulates with weights over int8_mac_g_s (over prompt_mac_g_s, if there is
/// one). For a generation it is the rate of weight and cache bytes over read_bandwidth_gb_s, or the
/// rate of multiply-accumulates if several sequences need more of that ceiling.
struct BenchResult {
  std::string model;
  bool prefill =
      false;           ///< true: a prompt; false: a generation, which has at least one token before
  int64_t tokens = 0;  ///< of each sequence
  int64_t depth = 0;   ///< tokens in the context before
  int32_t batch = 1;   ///< sequences
  double tokens_per_s = 0;  ///< of all sequences, mean
  double spread = 0;        ///< relative standard deviation
  double fraction = 0;
  BenchBound bound = BenchBound::none;
  /// Mean power during the repetitions, from BenchReport::energy_sources; 0: not told.
  double watts = 0;
  double joules_per_token = 0;  ///< watts / tokens_per_s
  std::vector<BenchOperation> profile;
  int64_t profiled_steps = 0;  ///< steps in the profile
};

struct BenchModel {
  std::string path;
  int64_t weights_bytes = 0;  ///< read for one token
};

struct BenchReport {
  std::string device;
  int32_t threads = 0;
  double read_bandwidth_gb_s = 0;  ///< plain reads of all threads; the best before and after
  double int8_mac_g_s = 0;         ///< 32 × the rate of the 8-bit product instruction, likewise
  double prompt_mac_g_s = 0;       ///< of float16 matrices; 0 if prompts do not use them
  int32_t streams = 0;             ///< places of a matrix that a thread reads at once; 0: not a CPU
  int64_t large_page_bytes = 0;    ///< of host memory in large pages; 0: none, or not told
  /// What tells the power: "package-0" (RAPL, a processor), and, if a GPU computes, "amdgpu
  /// hwmon3", "nvidia 0". Other programs' use counts too.
  std::vector<std::string> energy_sources;
  std::string energy_unknown;  ///< why a source that is there does not tell; empty: none is refused
  std::vector<BenchModel> models;
  std::vector<BenchResult> results;  ///< measurement by measurement, each for all models
  std::string trace;                 ///< JSON in Chrome's trace event format, for Perfetto
};

/// Measures models. All are loaded at once and take turns in each measurement, so that a
/// disturbance of the machine affects all of them alike.
INFER_API Result<BenchReport> bench(const std::vector<std::string>& paths,
                                    const BenchOptions& options);

struct SpeculationBenchOptions {
  LoadOptions load;  ///< with drafters
  /// Texts to continue. They must be real texts: drafters cannot predict random ones.
  std::vector<std::string> prompts;
  int32_t tokens = 256;  ///< to generate after each prompt
  int32_t repeats = 3;
  GenerateOptions generate;  ///< draft_tokens, sampling
};

/// One prompt, generated with drafters and without them in turns. Only decoding is timed.
struct SpeculationBenchResult {
  double plain_tokens_per_s = 0;
  double tokens_per_s = 0;
  double speedup = 0;  ///< mean of the pairs' ratios
  double spread = 0;   ///< their relative standard deviation
  /// The speedup that theory predicts: (1 − α^(γ+1)) / (1 − α) / (1 + γ·(c + v)) (Leviathan et al.
  /// 2023). α: share of accepted tokens. γ: tokens a proposal. c, v: measured costs of proposing
  /// and verifying one token, relative to a plain step.
  double expected = 0;
  SpeculationStatistics statistics;  ///< of all repetitions
};

/// One result for each prompt. internal if a text differs from the one without drafters.
INFER_API Result<std::vector<SpeculationBenchResult>> bench_speculation(
    const std::string& path, const SpeculationBenchOptions& options);

// ---------------------------------------------------------------------------------------------
// Quality

struct PerplexityOptions {
  int32_t chunk = 512;  ///< tokens that are evaluated together; only the second half of them counts
  int32_t chunks = 0;   ///< at most so many; 0: all that the text fills
  std::string save;     ///< file for the distributions; a later run's `base` reads it
  std::string base;     ///< file of a saved run of the same text and vocabulary, to compare with
  bool parse_special = false;  ///< the spelling of a special token in the text means that token
  /// Gets the chunks done, the chunks in all and the perplexity so far. Return false to cancel.
  std::function<bool(int64_t, int64_t, double)> on_chunk;
};

struct PerplexityReport {
  int64_t tokens = 0;           ///< tokens that counted
  double perplexity = 0;        ///< e to the mean of −log p(token)
  double perplexity_error = 0;  ///< standard error
  /// Σ p_base·(log p_base − log p) at each token (Kullback & Leibler 1951).
  struct Divergence {
    double base_perplexity = 0;
    /// False for a file of an older version, which holds log-probabilities rounded to 16 bits:
    /// base_perplexity is then about that of the base's own run.
    bool base_exact = true;
    double mean = 0, mean_error = 0, median = 0, percentile_99 = 0, largest = 0;
    double same_top = 0;  ///< share of tokens at which both runs have the same most likely token
  };
  std::optional<Divergence> divergence;
};

/// How well the model predicts a text. If the model wants a token that begins a text, that token
/// replaces the first token of each chunk. The engine computes as it was loaded; its cache must be
/// f32 or f16. The job is fast if the engine's output_rows are at least `chunk`. invalid_argument
/// if the text is too short.
INFER_API Result<PerplexityReport> perplexity(Engine& engine, std::string_view text,
                                              const PerplexityOptions& options);

struct SelftestReport {
  int32_t passed = 0;
  int32_t failed = 0;
  int32_t unsupported = 0;
  std::vector<std::string> failures;  ///< "kernels: op case: what differs"
  std::vector<std::string> untested;  ///< kernels of instruction sets that this machine lacks
};

/// Compares a device with the scalar references in every operation's conformance cases. The kernels
/// of every instruction set that runs here are tested, unless options.isa names one. `only`: an
/// operation's name; empty: all operations. options.progress gets the share of the cases that are
/// done and may cancel.
INFER_API Result<SelftestReport> selftest(const LoadOptions& options, const std::string& only);

// ---------------------------------------------------------------------------------------------
// Making model files

struct SynthOptions {
  std::string shape;          ///< a name of synth_shapes(), or "custom"
  std::string type = "q4_0";  ///< one of synth_types()
  std::string vocabulary;     ///< GGUF file to take the vocabulary from; empty: an invented one
  uint64_t seed = 1;
  // For "custom". In other shapes a value that is not 0 replaces the shape's own.
  int64_t layers = 0, embedding = 0, feed_forward = 0, heads = 0, kv_heads = 0, tokens = 0;
  int64_t experts = 0, experts_used = 0, context = 0;
  int64_t head_dim = 0, expert_feed_forward = 0;
  ProgressFn progress;
};

/// Names of the shapes that synth() knows.
INFER_API std::vector<std::string> synth_shapes();
/// Types, and mixes of types, that synth() can make weights of.
INFER_API std::vector<std::string> synth_types();
/// Writes a GGUF model of random weights in a named shape, for benchmarks and tests.
INFER_API Status synth(const std::string& path, const SynthOptions& options);

struct QuantizeOptions {
  std::string type;               ///< one of quantize_types(), in upper or lower case
  bool pure = false;              ///< all matrices get the mix's base type
  bool allow_requantize = false;  ///< quantise weights that are quantised already; adds errors
  std::string output_type;        ///< type of "output.weight"; empty: as the mix says
  std::string embedding_type;     ///< type of "token_embd.weight"; empty: as the mix says
  /// Pairs of a pattern and a type for the weights whose names contain the pattern. In a pattern
  /// '*' stands for any text and '?' for one character. The first pattern that matches decides; it
  /// overrides all other options.
  std::vector<std::pair<std::string, std::string>> tensor_types;
  std::string importance;  ///< file of an importance matrix; empty: none
  int32_t threads = 0;     ///< 0: all that the process may use
  ProgressFn progress;
};

struct QuantizeReport {
  struct Tensor {
    std::string name;
    std::string from, to;     ///< types
    std::string wanted;       ///< the chosen type if its blocks do not divide the rows; else empty
    bool importance = false;  ///< the importance matrix weighted the errors
  };
  std::vector<Tensor> tensors;
  int64_t source_bytes = 0, bytes = 0;  ///< of all weights
  int64_t parameters = 0;
  double bits_per_weight = 0;
};

/// Types, and mixes of types, that quantize() knows, and "COPY".
INFER_API std::vector<std::string> quantize_types();
/// Writes a model as GGUF with weights of other types. Vectors, norms and routers keep theirs. The
/// result does not depend on the number of threads. Memory: a few MiB, and some rows of a weight
/// for each thread. invalid_argument: an unknown type, or an output that would replace the input.
/// unsupported: a type that cannot be written, or another quantised type for quantised weights
/// without allow_requantize. bad_file: also an importance matrix of another model, and a weight
/// that is not a finite number or that the new type cannot hold; the message says where it is.
/// not_found, io, cancelled. The output is complete or not there at all.
INFER_API Result<QuantizeReport> quantize(const std::string& input, const std::string& output,
                                          const QuantizeOptions& options);

struct ImportanceOptions {
  LoadOptions load;            ///< `chunk` sets the context and the rows of a step
  int32_t chunk = 512;         ///< tokens that are evaluated together
  int32_t chunks = 0;          ///< at most so many; 0: all that the text fills
  std::string dataset;         ///< name of the text, for the file
  bool parse_special = false;  ///< the spelling of a special token in the text means that token
  /// Gets the chunks done and the chunks in all. Return false to cancel.
  std::function<bool(int64_t, int64_t)> on_chunk;
};

struct ImportanceReport {
  int64_t tokens = 0;
  int64_t chunks = 0;
  int64_t weights = 0;         ///< weights that have an importance now
  int64_t experts_unused = 0;  ///< experts, in all layers' matrices, that no token used
};

/// Measures how much each column of the weights matters for a text: the mean of its squared
/// activations. Writes the result for quantize(), in the GGUF form of llama.cpp's importance
/// matrices. invalid_argument if the text is too short; other errors as Engine::load() and the
/// file.
INFER_API Result<ImportanceReport> measure_importance(const std::string& model,
                                                      std::string_view text,
                                                      const std::string& output,
                                                      const ImportanceOptions& options);

struct ConvertOptions {
  std::string type = "auto";  ///< of the matrices: f32, f16, bf16; auto: as they are stored
  ProgressFn progress;
};

struct ConvertReport {
  std::string architecture;
  int64_t tensors = 0;
  int64_t bytes = 0;                                   ///< of the weights as written
  std::vector<std::pair<std::string, int64_t>> types;  ///< number of tensors of each type
};

/// Writes a Hugging Face directory as a GGUF file. With type "auto" the file computes the same, bit
/// for bit. bad_file or unsupported: the message names what is missing or unknown; nothing has been
/// written. invalid_argument if `output` is one of the model's own files.
INFER_API Result<ConvertReport> convert(const std::string& model, const std::string& output,
                                        const ConvertOptions& options);

}  // namespace infer
