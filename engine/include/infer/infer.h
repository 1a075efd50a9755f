/*
 * infer: the C API. Stable: what stands here keeps its meaning and its binary interface.
 *
 * Conventions.
 *
 * Errors. Functions that can fail return an infer_status, INFER_OK (0) or the kind of failure; no
 * exception ever crosses this interface. infer_last_error() then gives a message for people; it
 * belongs to the calling thread and stays valid until the next call on that thread that fails.
 * Results are written through the last pointers of a call and only on success, unless said
 * otherwise. A null pointer where an object is needed is INFER_INVALID_ARGUMENT, never a crash;
 * functions without a status then return 0, a null pointer or an empty string.
 *
 * Ownership. Handles are opaque. Whatever a function named ..._open, ..._load, ..._create or
 * ..._fork gives is the caller's and is given back with the ..._free function of its type, which
 * takes null. Other pointers that come out belong to the object they were asked of and live as long
 * as it does. The library keeps no pointer that it is given, beyond the call, except for callbacks.
 * An engine may be freed before its sessions: it lives on until the last of them is freed.
 *
 * Threads. An engine and a vocabulary may be used from any thread, several at once. A session has
 * one caller at a time; only infer_session_cancel() may come from any thread or signal handler.
 * Freeing an object while another thread uses it is an error of the caller.
 *
 * Callbacks get the user pointer given with them. Those of a session run on the thread that called
 * it, while the engine's own thread goes on: one that takes long delays its own session alone. They
 * may use the engine and other sessions; of their own session infer_session_cancel() and
 * infer_session_length(). They return nonzero to go on and 0 to end.
 *
 * Text is UTF-8. Text that comes in has a length in bytes and may hold zero bytes; names and paths
 * end with a zero byte. Text that is handed to a token callback consists of whole characters.
 *
 * Units. Sizes are in bytes, times in seconds, lengths of contexts and sequences in tokens. Tokens
 * are ids of the model's vocabulary, from 0.
 *
 * Structures may grow at the end in later versions. Options begin with struct_size, which the init
 * function sets: always call it, with sizeof the structure as you compiled it. An older caller's
 * missing fields have their defaults; a field that an older library does not know must be 0. With
 * structures that the library fills, the size is passed too, and no more than that is written; what
 * an older library does not know becomes 0.
 *
 * Buffers. A function that writes to a caller's buffer of some capacity returns the full count
 * through a pointer and writes at most `capacity` elements. If the count is larger, call again with
 * room for it; a null buffer with capacity 0 asks for the count alone. No zero byte is added.
 */
#ifndef INFER_H
#define INFER_H

#include <stddef.h>
#include <stdint.h>

#include "infer/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * Errors, version, log
 */

/* The values are those of infer::StatusCode. */
typedef int32_t infer_status;
enum {
  INFER_OK = 0,
  INFER_INVALID_ARGUMENT = 1, /* the caller's argument is out of range or makes no sense */
  INFER_NOT_FOUND = 2,        /* a file, device or name does not exist */
  INFER_BAD_FILE = 3,         /* a file was read and is not what it should be */
  INFER_UNSUPPORTED = 4,      /* valid, but this build or device cannot do it */
  INFER_DOES_NOT_FIT = 5,     /* the memory or the context is not there; found before using it */
  INFER_OUT_OF_MEMORY = 6,    /* an allocation failed although it was planned */
  INFER_DEVICE = 7,           /* a device failed or was lost */
  INFER_IO = 8,               /* the system failed to read or write */
  INFER_CANCELLED = 9,        /* the caller cancelled */
  INFER_INTERNAL = 10         /* a defect in the library */
};

/* "bad_file" and so on; "unknown" for another number. A constant. */
INFER_API const char* infer_status_name(infer_status status);
/* The message of the calling thread's latest failure, "" if there was none. */
INFER_API const char* infer_last_error(void);
/* The library's version, "0.1.0". A constant. */
INFER_API const char* infer_version(void);

typedef int32_t infer_log_level;
enum { INFER_LOG_ERROR = 0, INFER_LOG_WARNING = 1, INFER_LOG_INFO = 2, INFER_LOG_DEBUG = 3 };

/* One message without a line end. Comes from any thread, one at a time; must not call this API. */
typedef void (*infer_log_fn)(void* user, infer_log_level level, const char* message);

/* Messages up to this level are reported (default: warnings), on stderr or to the callback. */
INFER_API infer_status infer_set_log_level(infer_log_level level);
/* Null restores stderr. For the whole process. When this returns, the callback that was set before
 * is not running and will not be called again. */
INFER_API infer_status infer_set_log_callback(infer_log_fn log, void* user);

/* ------------------------------------------------------------------------------------------------
 * Devices
 */

typedef struct infer_device_list infer_device_list;

typedef struct infer_device {
  const char* name;        /* as `device` in infer_load_options */
  const char* description; /* the processor's name */
  const char* isa;         /* of a CPU: the instruction set of the kernels chosen */
  int64_t memory_total;
  int64_t memory_free;
  int32_t threads;      /* of a CPU: what the process may use */
  const char* unusable; /* why it cannot be used; empty: it can */
  /* Bytes that an engine uses here; 0 unless the list is infer_engine_device_list_create()'s. */
  int64_t weights;
  int64_t kv;          /* cache */
  int64_t activations; /* intermediate values of a step */
  int64_t scratch;     /* work space of kernels */
  int64_t other;       /* on the CPU: host, process, drafters and grammars of infer_memory */
} infer_device;

/* What this machine has, by the back ends in this build. */
INFER_API infer_status infer_device_list_create(infer_device_list** list);
INFER_API void infer_device_list_free(infer_device_list* list);
INFER_API size_t infer_device_list_size(const infer_device_list* list);
/* Null if there is no such index. */
INFER_API const infer_device* infer_device_list_get(const infer_device_list* list, size_t index);

/* ------------------------------------------------------------------------------------------------
 * Models before they are loaded
 */

/* Told how far loading is, 0 to 1, on the thread that loads. Returns 0 to cancel. */
typedef int (*infer_progress_fn)(void* user, double done);

typedef struct infer_load_options {
  size_t struct_size;
  const char* device;         /* "cpu"; names of the device list, parted by ',' */
  const char* cache_type_k;   /* "f16"; or f32, bf16, q8_0, q4_0, auto */
  const char* cache_type_v;   /* "f16" */
  const char* isa;            /* force a CPU instruction set; null: the best */
  int64_t context;            /* tokens of cache shared by all sessions; 0: chosen to fit */
  int64_t memory_limit;       /* use at most this much; 0: what is free */
  int32_t threads;            /* of the CPU; 0: all that the process may use */
  int32_t batch_rows;         /* most tokens a step computes; 512 */
  int32_t output_rows;        /* most rows a step returns logits for; 16 */
  int32_t exact;              /* nonzero: keep activations in float32 */
  int32_t mmap;               /* nonzero: map the file; it must not shrink meanwhile */
  infer_progress_fn progress; /* may be null */
  void* progress_user;
  int64_t reserve;      /* of what is free leave this much; -1: 5 %, at least 256 MiB */
  int32_t spill;        /* nonzero: map the file, drop a layer's weights once it has used them */
  int32_t fewer_rows;   /* nonzero: fewer than batch_rows where those do not fit; 1 */
  int32_t parallel;     /* sessions that generate at once with sliding windows of their own; 4 */
  int32_t prefix_reuse; /* nonzero: sessions that begin alike share the cache; 1 */
  const char* cache_folder;   /* where cache goes when the memory is needed; null: nowhere */
  int64_t cache_folder_limit; /* bytes of files there; 8 GiB */
  const char* draft_model; /* a small model file that proposes tokens, which the model then checks
                              several at a time; null: none */
  const char* drafters; /* who proposes, names parted by ';': ngram, suffix, model; null: suffix and
                           model with a draft_model, else nobody */
  const char*
      quantize;       /* a type ("nf4", "q8_0", ...) that matrices which are not quantised are made
                         while loading, but for the embedding and the output; null: as stored */
  int32_t gpu_layers; /* with a device other than the CPU: how many layers it computes, the last
                         ones and the output as one more; the CPU the rest; -1: as many as fit */
  const char* fallback; /* "cpu": where another device fails, the CPU goes on alone; null: it is a
                           failure */
  int32_t grammars; /* nonzero: plan the memory of grammars and schemas with the rest; else it is
                       planned for when a session first asks for one */
} infer_load_options;

/* Sets the defaults; struct_size is sizeof(infer_load_options). */
INFER_API void infer_load_options_init(infer_load_options* options, size_t struct_size);

typedef struct infer_memory {
  int64_t weights;
  int64_t kv;          /* cache */
  int64_t activations; /* intermediate values of a step */
  int64_t scratch;     /* work space of kernels */
  int64_t total;
  int64_t available;  /* what the device had, or the limit given */
  int64_t context;    /* tokens */
  int64_t page_bytes; /* of 64 tokens of the cache: a page of each kind of layers together */
  int64_t pages;      /* of the kind that has most; those with a sliding window have fewer */
  int64_t host;       /* inputs of a step, RoPE tables, sampling, tokens */
  int64_t process;    /* code, metadata, vocabulary, graphs, stacks */
  int32_t batch_rows; /* most tokens a step computes */
  int32_t spilled;    /* weights are read from the file layer by layer */
  int64_t draft;      /* all of the model that drafts */
  int64_t gpu_layers; /* layers that are not on the CPU, the output counted as one more */
  int64_t drafters;   /* texts that drafters keep */
  int64_t grammars;   /* grammars and their tables; 0: not planned for yet */
} infer_memory;

/* What loading would use, reads the header alone. Null options: the defaults.
 * INFER_DOES_NOT_FIT: the message says what is too large and what would fit. */
INFER_API infer_status infer_plan(const char* path, const infer_load_options* options,
                                  infer_memory* memory, size_t memory_size);

typedef struct infer_description infer_description;

/* Strings are never null, at worst empty. */
typedef struct infer_model {
  const char* path;
  const char* name;
  const char* architecture;
  const char* file_type;     /* what the file says, "Q4_K - Medium"; else what most weights have */
  const char* tokenizer;     /* kind and pre-tokenizer */
  const char* chat_template; /* Jinja source */
  int64_t parameters;
  int64_t weight_bytes; /* in the file */
  int64_t vocabulary;
  int64_t context; /* tokens it was trained for */
  int64_t embedding;
  int64_t layers;
  size_t metadata_count;
  size_t tensor_count;
  const char* unsupported; /* why this build cannot run it; empty: nothing in the header says so */
} infer_model;

typedef struct infer_tensor {
  const char* name;
  const char* type;
  const int64_t* shape; /* `rank` sizes, the fastest first */
  size_t rank;
  int64_t bytes;
} infer_tensor;

/* What a model file holds; reads its header alone. Works also for a model whose architecture this
 * build does not know; numbers that are not known are 0 then. */
INFER_API infer_status infer_description_create(const char* path, infer_description** description);
INFER_API void infer_description_free(infer_description* description);
INFER_API const infer_model* infer_description_model(const infer_description* description);
/* A key, and its value as text, shortened where it is long. Null if there is no such index. */
INFER_API const char* infer_description_key(const infer_description* description, size_t index);
INFER_API const char* infer_description_value(const infer_description* description, size_t index);
INFER_API const infer_tensor* infer_description_tensor(const infer_description* description,
                                                       size_t index);

/* ------------------------------------------------------------------------------------------------
 * Vocabularies
 */

typedef struct infer_vocabulary infer_vocabulary;

enum {
  INFER_ADD_SPECIAL = 1,  /* begin and end tokens as the model wants them */
  INFER_PARSE_SPECIAL = 2 /* the spelling of special tokens in the text means the token */
};

typedef struct infer_special_tokens {
  int32_t bos; /* begins a text; -1 where there is none, here and below */
  int32_t eos; /* ends a text */
  int32_t eot; /* ends a turn of a conversation */
  int32_t unknown;
  int32_t padding;
  int32_t adds_bos; /* nonzero: INFER_ADD_SPECIAL puts bos before a text */
  int32_t adds_eos; /* nonzero: INFER_ADD_SPECIAL puts eos after a text */
} infer_special_tokens;

/* Reads only the vocabulary of a model file. Free it, unlike that of an engine. */
INFER_API infer_status infer_vocabulary_load(const char* path, infer_vocabulary** vocabulary);
INFER_API void infer_vocabulary_free(infer_vocabulary* vocabulary);
INFER_API int32_t infer_vocabulary_size(const infer_vocabulary* vocabulary);
/* The ids of a text of at most 64 MiB. `flags`: INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL.
 * INFER_UNSUPPORTED if the model has no vocabulary. */
INFER_API infer_status infer_tokenize(const infer_vocabulary* vocabulary, const char* text,
                                      size_t length, uint32_t flags, int32_t* tokens,
                                      size_t capacity, size_t* count);
/* The bytes of the tokens, special ones spelt out; ids that do not exist leave nothing. */
INFER_API infer_status infer_detokenize(const infer_vocabulary* vocabulary, const int32_t* tokens,
                                        size_t token_count, char* text, size_t capacity,
                                        size_t* length);
/* The bytes of one token as they stand inside a text; not always whole characters.
 * INFER_INVALID_ARGUMENT if there is no such id. */
INFER_API infer_status infer_token_piece(const infer_vocabulary* vocabulary, int32_t token,
                                         char* text, size_t capacity, size_t* length);
INFER_API infer_status infer_special(const infer_vocabulary* vocabulary,
                                     infer_special_tokens* tokens, size_t tokens_size);
/* Nonzero if generation ends at this token. */
INFER_API int infer_is_end_of_generation(const infer_vocabulary* vocabulary, int32_t token);

/* ------------------------------------------------------------------------------------------------
 * Chat templates
 */

typedef struct infer_chat_template infer_chat_template;

/* Parses a Jinja template, e.g. chat_template of infer_model. INFER_BAD_FILE: the message says the
 * line and what was expected. It may be used from any thread, several at once. */
INFER_API infer_status infer_chat_template_create(const char* source, size_t length,
                                                  infer_chat_template** chat_template);
INFER_API void infer_chat_template_free(infer_chat_template* chat_template);
/* The text for some variables, a JSON object (messages, tools, bos_token, add_generation_prompt,
 * …). `now`: what strftime_now sees, "2026-01-15T12:00:00"; null: the local time.
 * INFER_INVALID_ARGUMENT if the template raises; the message is its own. */
INFER_API infer_status infer_chat_template_render(const infer_chat_template* chat_template,
                                                  const char* variables_json, size_t json_length,
                                                  const char* now, char* text, size_t capacity,
                                                  size_t* length);

/* ------------------------------------------------------------------------------------------------
 * Engines: loaded models
 */

typedef struct infer_engine infer_engine;

/* Null options: the defaults. INFER_CANCELLED if the progress callback returned 0; all memory is
 * then free again. */
INFER_API infer_status infer_engine_load(const char* path, const infer_load_options* options,
                                         infer_engine** engine);
INFER_API void infer_engine_free(infer_engine* engine);
/* The engine's own: lives as long as the engine's handle, is not to be freed. */
INFER_API const infer_vocabulary* infer_engine_vocabulary(const infer_engine* engine);
/* The number of logits, which may exceed the size of the vocabulary. */
INFER_API int32_t infer_engine_logit_count(const infer_engine* engine);
INFER_API const infer_description* infer_engine_description(const infer_engine* engine);
/* What is allocated, by the device's own accounting. */
INFER_API infer_status infer_engine_memory(const infer_engine* engine, infer_memory* memory,
                                           size_t memory_size);

/* The devices that an engine uses, the CPU first, with the memory that it uses on each. */
INFER_API infer_status infer_engine_device_list_create(const infer_engine* engine,
                                                       infer_device_list** list);

/* What an engine does now, and totals since it was loaded, which never fall. A call is an
 * infer_generate(), infer_session_start() or infer_evaluate() that has not finished computing. */
typedef struct infer_engine_counts {
  double seconds;        /* since the engine was loaded */
  int64_t sessions;      /* open sessions */
  int64_t calls_running; /* calls whose tokens are in the cache */
  int64_t calls_waiting; /* calls that wait for a grammar, for their first step or for pages */
  int64_t calls_refused; /* total */
  int64_t pages_total;   /* of the cache, all kinds of layers together; the sum of the next four */
  int64_t pages_running; /* held by sessions with a running call, perhaps by others too */
  int64_t pages_idle;    /* held only by sessions without a running call */
  int64_t pages_kept;    /* held by no session; kept for sessions that begin with the same tokens */
  int64_t pages_free;
  double prompt_tokens_per_s;    /* mean of the last 5 seconds */
  double generated_tokens_per_s; /* likewise */
  int64_t steps;                 /* total */
  int64_t last_step_rows;        /* rows of the latest step */
  int64_t prompt_tokens;         /* total: given tokens that were computed */
  int64_t recomputed_tokens;     /* total: tokens computed again, their pages had been given up */
  int64_t generated_tokens;      /* total */
  int64_t prefix_tokens;         /* total: tokens that calls looked up in the cache */
  int64_t prefix_tokens_found;   /* total */
  int64_t drafted_tokens;        /* total: proposed by drafters and verified */
  int64_t accepted_tokens;       /* total: proposed tokens that were right */
} infer_engine_counts;

/* Never waits for a step: it may be called often. */
INFER_API infer_status infer_engine_statistics(const infer_engine* engine,
                                               infer_engine_counts* counts, size_t counts_size);

enum {
  INFER_STEP_ROWS = 0,           /* rows of the steps */
  INFER_FIRST_TOKEN_SECONDS = 1, /* from a call to its first token */
  INFER_NEXT_TOKEN_SECONDS = 2   /* from one token of a call to the next */
};

/* The distribution of some values since the engine was loaded. Writes upper bounds, ascending, and
 * for each the number of values up to it; the last bound is infinity. The bounds never change.
 * `count`: the number of bounds; `sum`: the sum of all values. Both buffers hold `capacity`
 * elements. */
INFER_API infer_status infer_engine_histogram(const infer_engine* engine, int32_t which,
                                              double* bounds, int64_t* counts, size_t capacity,
                                              size_t* count, double* sum);

/* Makes the cache as large as whole pages of at most so many bytes are; it does not grow beyond
 * that by itself. Sessions go on, and generate the same. INFER_DOES_NOT_FIT if that is more than
 * loading had left for it or than is free, or if the oldest running session needs more. */
INFER_API infer_status infer_engine_resize_cache(infer_engine* engine, int64_t bytes);

/* ------------------------------------------------------------------------------------------------
 * Sessions: sequences of tokens
 */

typedef struct infer_session infer_session;

typedef struct infer_logit_bias {
  int32_t token;
  float bias; /* added to the token's logit, -1e30 to 1e30; -infinity forbids it; +infinity forbids
                 all tokens without it, as long as a grammar allows one that has it */
} infer_logit_bias;

typedef struct infer_logprob {
  int32_t token;
  float logprob; /* natural logarithm of the probability that the model gives the token */
} infer_logprob;

/* A generated token first, then the most likely ones; return 0 to end. */
typedef int (*infer_logprobs_fn)(void* user, const infer_logprob* logprobs, size_t count);

typedef struct infer_generate_options {
  size_t struct_size;
  int32_t max_tokens; /* -1: until the end of the text or of the context; 0: compute the prompt */
  int32_t ignore_end; /* nonzero: go on past end-of-text tokens */
  /* Sampling; negative: what the model suggests, else the value noted. */
  float temperature;    /* 0.8; 0: the most likely token */
  float top_p;          /* 0.95; 1: off */
  float min_p;          /* 0.05; 0: off */
  int32_t top_k;        /* 0: off */
  int32_t has_seed;     /* 0: a fresh seed each time */
  uint64_t seed;        /* equal seeds give equal text, whatever the threads and other sessions */
  float typical_p;      /* negative: 1, off */
  float repeat_penalty; /* negative: what the model suggests, else 1, off */
  float frequency_penalty; /* 0: off; subtracted for every recent occurrence of a token */
  float presence_penalty;  /* 0: off; subtracted once for a recent token */
  int32_t penalty_last;    /* tokens that count as recent; -1: all, -2: the model's or 64 */
  size_t logit_bias_count;
  const infer_logit_bias* logit_bias; /* read during the call alone */
  int32_t shift_context; /* nonzero: when the context is full, the first `keep` tokens and the later
                            half of the others stay, and generation goes on as from that text */
  int32_t keep;
  size_t stop_count;
  const char* const* stop; /* strings: the text ends before the first of them; read during the call
                              alone. The session keeps the tokens that spell it. */
  int32_t logprobs;        /* how many of the most likely tokens on_logprobs is told; -1: none */
  infer_logprobs_fn on_logprobs;
  void* logprobs_user;
  /* More of sampling; negative: what the model suggests, else the value noted. */
  float xtc_probability;  /* 0: off; how often top choices are excluded */
  float xtc_threshold;    /* 0.1; what makes a top choice */
  int32_t mirostat;       /* 0: off; version 1 or 2 */
  float mirostat_target;  /* 5; surprise to hold, in bits */
  float mirostat_rate;    /* 0.1; of learning */
  float top_n_sigma;      /* 0: off; standard deviations from the largest logit */
  float dynamic_range;    /* 0: off; temperature plus and minus this, by the entropy */
  float dynamic_exponent; /* 1 */
  float dry_multiplier;   /* 0: off; what would repeat n tokens loses multiplier*base^(n-allowed) */
  float dry_base;         /* 1.75 */
  int32_t dry_allowed_length; /* 2 */
  int32_t dry_penalty_last;   /* tokens looked back on; -1: all */
  const char* samplers;       /* null: the usual order; else names parted by ';': penalties, dry,
                                 top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature */
  /* What the text may be, one of the two at most; null: anything. The text then ends when it is
   * complete. INFER_INVALID_ARGUMENT or INFER_UNSUPPORTED where it cannot be held to that. */
  const char* grammar;     /* in GBNF, from its rule "root" */
  const char* json_schema; /* of draft 2020-12 */
  int32_t special_text;    /* nonzero: the text has special tokens spelt out */
  int32_t draft_tokens; /* proposed at a time where the engine has drafters: -1: as many as make it
                           fastest; 0: none; else that many. They change no token. */
} infer_generate_options;

/* Sets the defaults; struct_size is sizeof(infer_generate_options). */
INFER_API void infer_generate_options_init(infer_generate_options* options, size_t struct_size);

enum {
  INFER_FINISH_STOP = 0,     /* the model ended the text */
  INFER_FINISH_LENGTH = 1,   /* max_tokens */
  INFER_FINISH_CONTEXT = 2,  /* the context is full */
  INFER_FINISH_CANCELLED = 3 /* by the callback or infer_session_cancel() */
};

typedef struct infer_statistics {
  int64_t prompt_tokens;
  int64_t generated_tokens;
  double prompt_seconds;
  double generate_seconds;
  double first_token_seconds; /* from the call to the first token */
  uint64_t seed;              /* the one used */
  int32_t finish_reason;
  int64_t reused_tokens;   /* found in the cache instead of computed */
  int64_t shifted_tokens;  /* dropped by shift_context */
  int64_t drafted_tokens;  /* proposed and checked */
  int64_t accepted_tokens; /* of them */
  double draft_seconds;    /* spent on proposing */
} infer_statistics;

/* A generated token and the text that it completed, which may be empty. If text is left over at the
 * end, a last call has token -1 and its result does not matter. */
typedef int (*infer_token_fn)(void* user, int32_t token, const char* text, size_t length);
/* The logits after the token at `position` of the session; valid during the call. */
typedef int (*infer_logits_fn)(void* user, int64_t position, const float* logits, size_t count);

INFER_API infer_status infer_session_open(infer_engine* engine, infer_session** session);
INFER_API void infer_session_free(infer_session* session);

/* Appends the prompt's tokens, which may be none in a session that holds some, and generates from
 * there; blocks until done. The session then holds the generated tokens as well, without the end
 * token that stopped it. Null options: the defaults; null callback: none. Cancelling is no failure
 * here: the statistics say it. After a failure the session holds what it held before. */
INFER_API infer_status infer_generate(infer_session* session, const int32_t* prompt,
                                      size_t prompt_count, const infer_generate_options* options,
                                      infer_token_fn on_token, void* user);
/* Called when an event waits after none did, on one of the engine's threads: it returns at once and
 * does not use the session. It may wake an event loop. */
typedef void (*infer_event_fn)(void* user);
/* What a generation that was started has to tell. Pointers are valid until the session is asked for
 * the next event. */
typedef struct infer_event {
  int32_t finished; /* nonzero: the last event, with `status`; else a token */
  int32_t token;    /* -1: text alone, which was held back until the end */
  const char* text; /* that the token completed, whole UTF-8 characters */
  size_t text_length;
  const infer_logprob* logprobs; /* with infer_generate_options::logprobs */
  size_t logprob_count;
  infer_status status; /* what infer_generate() would have returned */
  const char* message; /* of that failure; "" if there is none */
} infer_event;
/* Begins what infer_generate() does and returns at once. The callback may be null; on_logprobs is
 * not called. Until the last event has been taken, calls that use the session otherwise fail with
 * INFER_INVALID_ARGUMENT. 32 tokens wait at most: then the generation waits for the next call
 * and others go on. */
INFER_API infer_status infer_session_start(infer_session* session, const int32_t* prompt,
                                           size_t prompt_count,
                                           const infer_generate_options* options,
                                           infer_event_fn on_event, void* user);
/* Takes the next event, or waits for it that long (0: not at all; infinity: as long as it takes).
 * `taken` becomes 1, or 0 if none came. INFER_INVALID_ARGUMENT if nothing was started or the last
 * event has been taken. `event_size` is sizeof(infer_event). */
INFER_API infer_status infer_session_next(infer_session* session, double timeout_seconds,
                                          infer_event* event, size_t event_size, int32_t* taken);
/* Of the last infer_generate(), also if that failed; zeros before. */
INFER_API infer_status infer_session_statistics(const infer_session* session,
                                                infer_statistics* statistics,
                                                size_t statistics_size);
/* Appends tokens and gives the logits after each of them, in order. A callback that returns 0 ends
 * it with INFER_OK; infer_session_cancel() with INFER_CANCELLED. The session then holds at least
 * the tokens whose logits were given; see infer_session_length(). */
INFER_API infer_status infer_evaluate(infer_session* session, const int32_t* tokens, size_t count,
                                      infer_logits_fn on_logits, void* user);
/* Writes the session to a file: the old file or the new one is there whenever the process ends. */
INFER_API infer_status infer_session_save(infer_session* session, const char* path);
/* Becomes the session that was saved. INFER_BAD_FILE if the file is damaged, INFER_INVALID_ARGUMENT
 * if it belongs to another model or type of cache, INFER_DOES_NOT_FIT if it has more tokens than
 * the context. After a failure the session is as it was. */
INFER_API infer_status infer_session_restore(infer_session* session, const char* path);
/* A new session that holds the same tokens. Both share the cache until one of them writes to it,
 * and go on independently. INFER_INVALID_ARGUMENT while a generation that was started has not
 * ended. Free it as one that was opened. */
INFER_API infer_status infer_session_fork(infer_session* session, infer_session** fork);
/* Forgets tokens from the end, down to `length`. */
INFER_API infer_status infer_session_truncate(infer_session* session, int64_t length);
/* Tokens held. */
INFER_API int64_t infer_session_length(const infer_session* session);
/* Tokens until the context is full. */
INFER_API int64_t infer_session_room(const infer_session* session);
/* Ends the infer_generate() or infer_evaluate() that is running, soon. A call is running from the
 * moment it is entered: a cancel also counts while its grammar is compiled, while it waits for its
 * turn and while its prompt is computed. No effect if none is running. Any thread;
 * async-signal-safe. */
INFER_API void infer_session_cancel(infer_session* session);

#ifdef __cplusplus
}
#endif

#endif
