/*
 * infer: the C API. Stable: everything here keeps its meaning and its binary interface.
 *
 * Conventions.
 *
 * Errors. A function that can fail returns an infer_status: INFER_OK (0) or the kind of failure. No
 * exception crosses this interface. infer_last_error() gives a message for people; it belongs to
 * the calling thread and is valid until the next call on that thread that fails. Results are
 * written through the last pointers of a call, and only on success unless noted otherwise. A null
 * pointer where an object is needed gives INFER_INVALID_ARGUMENT, never a crash; a function without
 * a status then returns 0, a null pointer or an empty string.
 *
 * Ownership. Handles are opaque. A handle that a function named ..._open, ..._open_with, ..._load,
 * ..._create or ..._fork returns belongs to the caller, who frees it with the ..._free function of
 * its type. These functions accept null. All other pointers that a function returns belong to the
 * object that it was called with and are valid as long as that object. The library keeps no pointer
 * of the caller after a call, except callbacks and their user pointers. An engine may be freed
 * before its sessions: it is kept until the last of them is freed.
 *
 * Threads. Any thread may use an engine, a vocabulary or a chat template, several at once. A
 * session and an output parser have one caller at a time; only infer_session_cancel() may come from
 * any thread or from a signal handler. The caller must not free an object while another thread uses
 * it.
 *
 * Callbacks get the user pointer that was given with them. A session's callbacks run on the thread
 * that called the session, while the engine's own thread goes on. A slow callback therefore delays
 * its own session and no other. A callback may use the engine and other sessions; of its own
 * session it may call infer_session_cancel() and infer_session_length(). It returns nonzero to go
 * on and 0 to end the call.
 *
 * Text is UTF-8. Text that comes in has a length in bytes and may contain zero bytes; names and
 * paths end with a zero byte. A token callback gets whole characters.
 *
 * Units. Sizes are in bytes, times in seconds, lengths of contexts and sequences in tokens. Tokens
 * are ids of the model's vocabulary, from 0.
 *
 * Structures may grow at the end in later versions. Options begin with struct_size. Always call the
 * init function, with sizeof the structure as you compiled it: it sets struct_size and the
 * defaults. Fields that an older caller does not have get their defaults; a field that an older
 * library does not know must be 0. For structures that the library fills, the caller passes the
 * size, and the library writes no more than that; fields that an older library does not know become
 * 0.
 *
 * Buffers. A function that fills a buffer gives the full count through a pointer and writes at most
 * `capacity` elements. If the count is larger, call again with a larger buffer. A null buffer with
 * capacity 0 asks only for the count. No zero byte is added.
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
  INFER_INVALID_ARGUMENT = 1, /* an argument of the caller is out of range or makes no sense */
  INFER_NOT_FOUND = 2,        /* a file, device or name does not exist */
  INFER_BAD_FILE = 3,         /* the contents of a file are not what they should be */
  INFER_UNSUPPORTED = 4,      /* valid, but this build or device cannot do it */
  INFER_DOES_NOT_FIT = 5,     /* too little memory or context; found before using it */
  INFER_OUT_OF_MEMORY = 6,    /* an allocation failed although it was planned */
  INFER_DEVICE = 7,           /* a device failed or was lost */
  INFER_IO = 8,               /* the system failed to read or write */
  INFER_CANCELLED = 9,        /* the caller cancelled */
  INFER_INTERNAL = 10,        /* a defect in the library */
  INFER_BUSY = 11             /* more calls than the engine takes; try again later */
};

/* "bad_file" and so on; "unknown" for any other number. A constant. */
INFER_API const char* infer_status_name(infer_status status);
/* The message of the calling thread's latest failure; "" if there was none. */
INFER_API const char* infer_last_error(void);
/* The library's version, "0.1.0". A constant. */
INFER_API const char* infer_version(void);

typedef int32_t infer_log_level;
enum { INFER_LOG_ERROR = 0, INFER_LOG_WARNING = 1, INFER_LOG_INFO = 2, INFER_LOG_DEBUG = 3 };

/* Gets one message at a time, without a line end, on any thread. It must not call this API. */
typedef void (*infer_log_fn)(void* user, infer_log_level level, const char* message);

/* Sets the highest level that is reported (default: warnings), on stderr or to the callback. */
INFER_API infer_status infer_set_log_level(infer_log_level level);
/* Null restores stderr. Applies to the whole process. When this function returns, the previous
 * callback is not running and will not be called again. */
INFER_API infer_status infer_set_log_callback(infer_log_fn log, void* user);

/* ------------------------------------------------------------------------------------------------
 * Devices
 */

typedef struct infer_device_list infer_device_list;

/* What a GPU does now, at most a second old; all programs count. -1: not told. */
typedef struct infer_gpu {
  const char* pci;       /* where it is: "0000:01:00.0" */
  const char* throttled; /* why it runs slower than it could; empty: it does not; null: not told */
  double busy;           /* share of the time, 0 to 1 */
  double memory_busy;    /* share of the time in which memory is read or written */
  int64_t memory_used;
  int64_t memory_total;
  double celsius;
  double watts;
  double watts_limit;
  double core_mhz;
  double memory_mhz;
} infer_gpu;

typedef struct infer_device {
  const char* name;        /* as `device` in infer_load_options */
  const char* description; /* name of the processor */
  const char* isa;         /* CPU only: instruction set of the chosen kernels */
  int64_t memory_total;
  int64_t memory_free;
  int32_t threads;      /* CPU only: threads that the process may use */
  const char* unusable; /* why the device cannot be used; empty: it can */
  /* Bytes that an engine uses on the device; 0 except in a list of
   * infer_engine_device_list_create(). */
  int64_t weights;
  int64_t kv;           /* cache */
  int64_t activations;  /* intermediate values of a step */
  int64_t scratch;      /* work space of kernels */
  int64_t other;        /* process of infer_memory; on the CPU also host, drafters and grammars */
  const infer_gpu* gpu; /* null: not a GPU, or nothing tells */
} infer_device;

/* The devices of this machine that this build has a back end for. */
INFER_API infer_status infer_device_list_create(infer_device_list** list);
INFER_API void infer_device_list_free(infer_device_list* list);
INFER_API size_t infer_device_list_size(const infer_device_list* list);
/* Null if there is no such index. */
INFER_API const infer_device* infer_device_list_get(const infer_device_list* list, size_t index);

/* ------------------------------------------------------------------------------------------------
 * Models before they are loaded
 */

/* Gets the progress, 0 to 1, on the thread that loads. Returns 0 to cancel. */
typedef int (*infer_progress_fn)(void* user, double done);

/* Where tensors go whose names contain a regular expression (PCRE2). */
typedef struct infer_tensor_placement {
  const char* pattern; /* "ffn_.*_exps" */
  const char* device;  /* a name of the device list */
} infer_tensor_placement;

typedef struct infer_load_options {
  size_t struct_size;
  infer_progress_fn progress; /* may be null */
  void* progress_user;
  size_t placement_count;
  /* Devices for parts of layers, whatever gpu_layers and cpu_experts say; read only during the
   * call. Each tensor has the device of the first entry that matches its name. */
  const infer_tensor_placement* placements;
  /* load_options.def beside this header lists the options: device, context, gpu_layers and so on,
   * with what each does, its default and its range. A text may be null, which means the default. A
   * list is one text with ';' between. A flag is on if it is not 0. */
#define INFER_LOAD_TEXT(name, preset, choices, group, flags, value, help) const char* name;
#define INFER_LOAD_LIST(name, choices, group, flags, value, help) const char* name;
#define INFER_LOAD_NUMBER(type, name, preset, low, high, group, flags, value, help) type name;
#define INFER_LOAD_FLAG(name, preset, group, flags, help) int32_t name;
#include "infer/load_options.def"
} infer_load_options;

/* Sets the defaults; struct_size is sizeof(infer_load_options). */
INFER_API void infer_load_options_init(infer_load_options* options, size_t struct_size);

typedef struct infer_memory {
  int64_t weights;
  int64_t kv;          /* cache */
  int64_t activations; /* intermediate values of a step */
  int64_t scratch;     /* work space of kernels */
  int64_t total;
  int64_t available;  /* free memory of the devices less the reserve, or the limit */
  int64_t context;    /* tokens that the cache has room for */
  int64_t page_bytes; /* 64 tokens of the cache: one page of every kind of layers together */
  int64_t pages;      /* of the kind of layers that has most; sliding windows have fewer */
  int64_t host;       /* inputs of a step, RoPE tables, sampling, tokens */
  int64_t process;    /* code, metadata, vocabulary, graphs, stacks */
  int32_t batch_rows; /* most tokens that one step computes */
  int32_t spilled;    /* nonzero: weights are read from the file layer by layer in every step */
  int64_t draft;      /* everything that the draft model needs */
  int64_t gpu_layers; /* layers that are not on the CPU; the output counts as one more */
  int64_t drafters;   /* texts that drafters keep */
  int64_t grammars;   /* grammars and their tables; 0: not planned yet */
  int64_t longest;    /* tokens that one session may have; above `context`, the cache grows */
} infer_memory;

/* The memory that loading would use. Reads only the file's header. Null options: the defaults.
 * INFER_DOES_NOT_FIT: the message says what is too large and what would fit. */
INFER_API infer_status infer_plan(const char* path, const infer_load_options* options,
                                  infer_memory* memory, size_t memory_size);

enum {
  INFER_FITS_CACHE_TYPE = 0, /* keys and values as q8_0 */
  INFER_FITS_CONTEXT = 1,    /* a shorter context */
  INFER_FITS_GPU_LAYERS = 2, /* as many layers on other devices than the CPU as fit */
  INFER_FITS_SPILL = 3,      /* the weights stay in the file, which is slow */
  INFER_FITS_MEMORY = 4      /* so much memory, and as much free */
};

/* One change of the options with which a model fits. */
typedef struct infer_alternative {
  int32_t kind;                      /* INFER_FITS_... */
  const infer_load_options* options; /* with the change; `progress`, its user pointer and
                                        `placements` are those that were given */
  const infer_memory* memory;        /* what loading with them would use */
} infer_alternative;

typedef struct infer_alternative_list infer_alternative_list;

/* What would fit in place of options that do not: each change by itself, the least first. Empty if
 * the options fit or if nothing helps. Reads only the file's header. Null options: the defaults. */
INFER_API infer_status infer_alternative_list_create(const char* path,
                                                     const infer_load_options* options,
                                                     infer_alternative_list** list);
INFER_API void infer_alternative_list_free(infer_alternative_list* list);
INFER_API size_t infer_alternative_list_size(const infer_alternative_list* list);
/* Null if there is no such index. */
INFER_API const infer_alternative* infer_alternative_list_get(const infer_alternative_list* list,
                                                              size_t index);

typedef struct infer_description infer_description;

/* Strings may be empty but are never null. */
typedef struct infer_model {
  const char* path;
  const char* name;
  const char* architecture;
  const char* file_type; /* as the file says, "Q4_K - Medium"; otherwise the most frequent type */
  const char* tokenizer; /* kind and pre-tokenizer */
  const char* chat_template; /* Jinja source */
  int64_t parameters;
  int64_t weight_bytes; /* in the file */
  int64_t vocabulary;
  int64_t context; /* tokens that the model was trained for */
  int64_t embedding;
  int64_t layers;
  size_t metadata_count;
  size_t tensor_count;
  const char* unsupported; /* why this build cannot run the model; empty: the header does not say */
} infer_model;

typedef struct infer_tensor {
  const char* name;
  const char* type;
  const int64_t* shape; /* `rank` sizes, the fastest dimension first */
  size_t rank;
  int64_t bytes;
} infer_tensor;

/* Describes a model file. Reads only its header. Also describes a model of an architecture that
 * this build does not have; unknown numbers are then 0. */
INFER_API infer_status infer_description_create(const char* path, infer_description** description);
INFER_API void infer_description_free(infer_description* description);
INFER_API const infer_model* infer_description_model(const infer_description* description);
/* A key of the metadata, and its value as text; long values are shortened. Null if there is no such
 * index. */
INFER_API const char* infer_description_key(const infer_description* description, size_t index);
INFER_API const char* infer_description_value(const infer_description* description, size_t index);
INFER_API const infer_tensor* infer_description_tensor(const infer_description* description,
                                                       size_t index);

/* ------------------------------------------------------------------------------------------------
 * Vocabularies
 */

typedef struct infer_vocabulary infer_vocabulary;

enum {
  INFER_ADD_SPECIAL = 1,  /* add begin and end tokens as the model wants them */
  INFER_PARSE_SPECIAL = 2 /* the spelling of a special token in the text means that token */
};

typedef struct infer_special_tokens {
  int32_t bos; /* begins a text; -1 if there is no such token, here and below */
  int32_t eos; /* ends a text */
  int32_t eot; /* ends a turn of a conversation */
  int32_t unknown;
  int32_t padding;
  int32_t adds_bos; /* nonzero: INFER_ADD_SPECIAL puts bos before a text */
  int32_t adds_eos; /* nonzero: INFER_ADD_SPECIAL puts eos after a text */
} infer_special_tokens;

/* Reads only the vocabulary of a model file. The caller frees it, unlike an engine's vocabulary. */
INFER_API infer_status infer_vocabulary_load(const char* path, infer_vocabulary** vocabulary);
INFER_API void infer_vocabulary_free(infer_vocabulary* vocabulary);
INFER_API int32_t infer_vocabulary_size(const infer_vocabulary* vocabulary);
/* The ids of a text of at most 64 MiB. `flags`: INFER_ADD_SPECIAL | INFER_PARSE_SPECIAL.
 * INFER_UNSUPPORTED if the model has no vocabulary. */
INFER_API infer_status infer_tokenize(const infer_vocabulary* vocabulary, const char* text,
                                      size_t length, uint32_t flags, int32_t* tokens,
                                      size_t capacity, size_t* count);
/* The bytes of the tokens; special tokens are spelt out. Ids that do not exist are skipped. */
INFER_API infer_status infer_detokenize(const infer_vocabulary* vocabulary, const int32_t* tokens,
                                        size_t token_count, char* text, size_t capacity,
                                        size_t* length);
/* The bytes of one token inside a text; they are not always whole characters.
 * INFER_INVALID_ARGUMENT if there is no such id. */
INFER_API infer_status infer_token_piece(const infer_vocabulary* vocabulary, int32_t token,
                                         char* text, size_t capacity, size_t* length);
INFER_API infer_status infer_special(const infer_vocabulary* vocabulary,
                                     infer_special_tokens* tokens, size_t tokens_size);
/* Nonzero if generation ends at this token. */
INFER_API int infer_is_end_of_generation(const infer_vocabulary* vocabulary, int32_t token);

/* ------------------------------------------------------------------------------------------------
 * Chat templates, and what models answer
 */

typedef struct infer_chat_template infer_chat_template;

/* Parses a Jinja template, such as chat_template of infer_model. INFER_BAD_FILE: the message names
 * the line and what was expected. */
INFER_API infer_status infer_chat_template_create(const char* source, size_t length,
                                                  infer_chat_template** chat_template);
INFER_API void infer_chat_template_free(infer_chat_template* chat_template);
/* The text for the variables, a JSON object (messages, tools, bos_token, add_generation_prompt, …).
 * `now`: the time that strftime_now uses, "2026-01-15T12:00:00"; null: the local time.
 * INFER_INVALID_ARGUMENT if the template raises an error; the message is the template's own. */
INFER_API infer_status infer_chat_template_render(const infer_chat_template* chat_template,
                                                  const char* variables_json, size_t json_length,
                                                  const char* now, char* text, size_t capacity,
                                                  size_t* length);

/* Splits generated text into reasoning, the answer and tool calls while the text arrives. Special
 * tokens must be spelt out in the text (special_text of infer_generate_options); pieces may break
 * anywhere. A tool call that is not well formed is returned as content. */
typedef struct infer_output_parser infer_output_parser;

enum {
  INFER_OUTPUT_REASONING = 0,
  INFER_OUTPUT_CONTENT = 1,
  INFER_OUTPUT_TOOL_CALL = 2 /* a complete call of a tool */
};

/* Strings are never null and end with a zero byte. `text` may contain others. */
typedef struct infer_output_event {
  int32_t kind;     /* INFER_OUTPUT_... */
  const char* text; /* reasoning or content that follows the text of earlier events */
  size_t text_length;
  const char* call_id; /* as the model wrote it; often empty */
  const char* call_name;
  const char* call_arguments; /* JSON, most often an object */
} infer_output_event;

/* Detects the format from the source of the chat template. `prompt` is the text that the template
 * rendered; it says whether the generated text begins inside reasoning. */
INFER_API infer_status infer_output_parser_create(const char* template_source,
                                                  size_t template_length, const char* prompt,
                                                  size_t prompt_length,
                                                  infer_output_parser** parser);
/* The same with the tools that were offered: a JSON array, as the template's variable "tools" has
 * them. The values of arguments get the types that the functions' JSON schemas say, in forms that
 * have no types of their own. */
INFER_API infer_status infer_output_parser_create_with_tools(
    const char* template_source, size_t template_length, const char* prompt, size_t prompt_length,
    const char* tools_json, size_t tools_length, infer_output_parser** parser);
INFER_API void infer_output_parser_free(infer_output_parser* parser);
/* Name of the format: "hermes", "harmony", ..., "plain". */
INFER_API const char* infer_output_parser_format(const infer_output_parser* parser);
/* Takes more text. Its events replace those of the previous call; `count` is their number. Text
 * that may begin a mark is held back. */
INFER_API infer_status infer_output_parser_push(infer_output_parser* parser, const char* text,
                                                size_t length, size_t* count);
/* Ends the text. The remaining events replace those of the previous call. After that the parser
 * only gives these events. */
INFER_API infer_status infer_output_parser_finish(infer_output_parser* parser, size_t* count);
/* An event of the latest call. It is valid until the next call. Null if there is no such index. */
INFER_API const infer_output_event* infer_output_parser_event(const infer_output_parser* parser,
                                                              size_t index);

/* ------------------------------------------------------------------------------------------------
 * Engines: loaded models
 */

typedef struct infer_engine infer_engine;

/* Null options: the defaults. INFER_CANCELLED if the progress callback returned 0; all memory is
 * then free again. */
INFER_API infer_status infer_engine_load(const char* path, const infer_load_options* options,
                                         infer_engine** engine);
INFER_API void infer_engine_free(infer_engine* engine);
/* The engine's vocabulary. It lives as long as the engine's handle; do not free it. */
INFER_API const infer_vocabulary* infer_engine_vocabulary(const infer_engine* engine);
/* The number of logits. It may exceed the size of the vocabulary. */
INFER_API int32_t infer_engine_logit_count(const infer_engine* engine);
INFER_API const infer_description* infer_engine_description(const infer_engine* engine);
/* Memory that is allocated, as the devices count it. */
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
  int64_t calls_refused; /* total; with INFER_BUSY */
  int64_t pages_total;   /* of the cache, all kinds of layers; the sum of the next four */
  int64_t pages_running; /* held by sessions with a running call, perhaps by others too */
  int64_t pages_idle;    /* held only by sessions without a running call */
  int64_t pages_kept;    /* held by no session; kept for sessions that begin with the same tokens */
  int64_t pages_free;
  double prompt_tokens_per_s;    /* mean of the last 5 seconds */
  double generated_tokens_per_s; /* likewise */
  int64_t steps;                 /* total */
  int64_t last_step_rows;        /* rows of the latest step */
  int64_t prompt_tokens;         /* total; given tokens that were computed */
  int64_t recomputed_tokens;     /* total; computed again because their pages had been given up */
  int64_t generated_tokens;      /* total */
  int64_t prefix_tokens;         /* total; tokens that calls looked up in the cache */
  int64_t prefix_tokens_found;   /* total */
  int64_t drafted_tokens;        /* total; proposed by drafters and verified */
  int64_t accepted_tokens;       /* total; proposed tokens that were right */
} infer_engine_counts;

/* Never waits for a step: it may be called often. */
INFER_API infer_status infer_engine_statistics(const infer_engine* engine,
                                               infer_engine_counts* counts, size_t counts_size);

enum {
  INFER_STEP_ROWS = 0,           /* rows of the steps */
  INFER_FIRST_TOKEN_SECONDS = 1, /* from a call to its first token */
  INFER_NEXT_TOKEN_SECONDS = 2   /* from one token of a call to the next */
};

/* The distribution of some values since the engine was loaded. `bounds` gets upper bounds in
 * ascending order, the last one infinity; they never change. `counts` gets for each bound the
 * number of values up to it. `count`: the number of bounds. `sum`: the sum of all values. Both
 * buffers hold `capacity` elements. */
INFER_API infer_status infer_engine_histogram(const infer_engine* engine, int32_t which,
                                              double* bounds, int64_t* counts, size_t capacity,
                                              size_t* count, double* sum);

/* Sets the size of the cache to the whole pages that `bytes` hold; the cache no longer grows by
 * itself beyond that. Sessions go on and generate the same tokens. INFER_DOES_NOT_FIT: `bytes` is
 * more than loading left for the cache, more than is free, or less than the oldest running session
 * needs. */
INFER_API infer_status infer_engine_resize_cache(infer_engine* engine, int64_t bytes);
/* Sets what the cache may grow to by itself. It keeps the size that it has. Never waits. */
INFER_API void infer_engine_limit_cache(infer_engine* engine, int64_t bytes);

/* ------------------------------------------------------------------------------------------------
 * Vectors of texts, and scores of texts for a query. Models that are made for that are loaded for
 * it in any case, others with infer_load_options.embeddings; such an engine opens no sessions. */

/* Whether infer_embed() or infer_rerank() works. */
INFER_API int infer_engine_makes_embeddings(const infer_engine* engine);
/* The most tokens of a text, or of a query and a text together. */
INFER_API int64_t infer_engine_longest_text(const infer_engine* engine);

typedef struct infer_embed_options {
  size_t struct_size;
  int32_t dimensions; /* only the first so many elements of each vector; 0: all */
  int32_t normalise;  /* nonzero (the default): each vector is divided by its length */
  int32_t truncate;   /* nonzero: texts that are too long are cut, in place of an error */
} infer_embed_options;

/* Sets the defaults; struct_size is sizeof(infer_embed_options). */
INFER_API void infer_embed_options_init(infer_embed_options* options, size_t struct_size);

typedef struct infer_embeddings infer_embeddings;

/* The vectors of `count` texts. `lengths`: bytes of each; null: the texts end with a zero byte. The
 * vector of a text does not depend on the others. INFER_DOES_NOT_FIT: a text is too long; the
 * message says which, from 0. INFER_UNSUPPORTED: the engine does not make vectors. Null options:
 * the defaults. */
INFER_API infer_status infer_embed(infer_engine* engine, const char* const* texts,
                                   const size_t* lengths, size_t count,
                                   const infer_embed_options* options,
                                   infer_embeddings** embeddings);
INFER_API void infer_embeddings_free(infer_embeddings* embeddings);
INFER_API int32_t infer_embeddings_dimensions(const infer_embeddings* embeddings);
/* Tokens of all texts. */
INFER_API int64_t infer_embeddings_tokens(const infer_embeddings* embeddings);
/* The vectors of a text, one after the other: one, or with pooling "none" one for each token. Null
 * for an index beyond the texts. */
INFER_API const float* infer_embeddings_of(const infer_embeddings* embeddings, size_t text,
                                           size_t* vectors);

typedef struct infer_ranked_text {
  int32_t index; /* of the text, in what was given */
  float score;   /* higher fits better */
} infer_ranked_text;

/* Scores `count` texts for a query. The results are sorted, the best first; of equal scores the
 * lower index first. Nonzero `truncate`: texts that are too long are cut, in place of an error.
 * `ranked` has room for `count` results. */
INFER_API infer_status infer_rerank(infer_engine* engine, const char* query, size_t query_length,
                                    const char* const* texts, const size_t* lengths, size_t count,
                                    int32_t truncate, infer_ranked_text* ranked);

/* ------------------------------------------------------------------------------------------------
 * Sessions: sequences of tokens
 */

typedef struct infer_session infer_session;

typedef struct infer_logit_bias {
  int32_t token;
  float bias; /* added to the token's logit, -1e30 to 1e30. -infinity forbids the token. +infinity
                 forbids all tokens without it, as long as a grammar allows a token that has it */
} infer_logit_bias;

typedef struct infer_logprob {
  int32_t token;
  float logprob; /* natural logarithm of the probability that the model gives the token */
} infer_logprob;

/* Gets the generated token first, then the most likely tokens. Returns 0 to end the generation. */
typedef int (*infer_logprobs_fn)(void* user, const infer_logprob* logprobs, size_t count);

typedef struct infer_generate_options {
  size_t struct_size;
  int32_t max_tokens; /* -1: until the end of the text or the context; 0: only the prompt */
  int32_t ignore_end; /* nonzero: continue after end-of-text tokens */
  int32_t has_seed;   /* 0: a new seed for every call */
  uint64_t seed;      /* equal seeds give equal text, whatever the threads and other sessions */
  size_t logit_bias_count;
  const infer_logit_bias* logit_bias; /* read only during the call */
  int32_t shift_context; /* nonzero: when the context is full, the first `keep` tokens and the later
                            half of the others stay, and generation continues from that text */
  int32_t keep;
  size_t stop_count;
  const char* const* stop; /* strings: the text ends before the first of them; read only during the
                              call. The session keeps the tokens that spell it. */
  int32_t logprobs;        /* number of most likely tokens for on_logprobs; -1: not called */
  infer_logprobs_fn on_logprobs;
  void* logprobs_user;
  const char* samplers; /* null: all of samplers.def, in its order; otherwise names separated by
                           ';'; those not named are off */
  /* What the text must match, at most one of the two; null: anything. The text then ends when it is
   * complete. INFER_INVALID_ARGUMENT or INFER_UNSUPPORTED if that cannot be enforced. */
  const char* grammar;     /* in GBNF; the start rule is "root" */
  const char* json_schema; /* draft 2020-12 */
  int32_t special_text;    /* nonzero: spell out special tokens in the text */
  int32_t draft_tokens; /* proposed at a time if the engine has drafters; -1: the fastest number; 0:
                           none; otherwise that many. They change no token. */
  int32_t priority;     /* 0; calls of higher priority get the rows of a step and the pages of the
                           cache first. It changes no token. */
  /* How a token is chosen. samplers.def beside this header lists the fields: temperature, top_k,
   * top_p and so on, with what each does and its range. The init function leaves them unset: the
   * model's own value then holds, and without one the value that is noted there. A negative number
   * means unset, too, if the range has none. */
#define INFER_SAMPLING(type, name, preset, low, high, key, flags, value, help) type name;
#include "infer/samplers.def"
} infer_generate_options;

/* Sets the defaults; struct_size is sizeof(infer_generate_options). */
INFER_API void infer_generate_options_init(infer_generate_options* options, size_t struct_size);

/* A LoRA adapter that was loaded with the model (infer_load_options.adapters). */
typedef struct infer_adapter {
  const char* path; /* the texts are valid as long as the engine */
  const char* task; /* what it is for, as its file says; may be empty */
  float scale;      /* as loaded */
} infer_adapter;

INFER_API size_t infer_engine_adapter_count(const infer_engine* engine);
/* The adapter of this number, from 0. INFER_INVALID_ARGUMENT: there is none. */
INFER_API infer_status infer_engine_adapter(const infer_engine* engine, size_t index,
                                            infer_adapter* adapter, size_t struct_size);

/* An image that a model has read. */
typedef struct infer_image infer_image;

/* Whether the engine was loaded with a file that reads images (infer_load_options.vision). */
INFER_API int infer_engine_reads_images(const infer_engine* engine);
/* Reads a PNG, JPEG or WebP file of so many bytes. `name` begins messages. Blocks until computed.
 * The caller frees the image. INFER_UNSUPPORTED: the engine reads no images. INFER_BAD_FILE: it is
 * no such file, or damaged, or much longer than wide. */
INFER_API infer_status infer_image_read(infer_engine* engine, const void* file, size_t size,
                                        const char* name, infer_image** image);
INFER_API void infer_image_free(infer_image* image);
/* What stands for it in a prompt; valid as long as the image. What the model sees of it is below 0,
 * tokens between tiles of it are of the vocabulary. */
INFER_API const int32_t* infer_image_tokens(const infer_image* image, size_t* count);
/* What stands in a text for an image: a place for it. Empty: the engine reads no images. */
INFER_API const char* infer_engine_image_text(const infer_engine* engine);
/* As infer_tokenize(), with the tokens of the images in the text's places, in their order.
 * INFER_INVALID_ARGUMENT: it has more places than images, or fewer. */
INFER_API infer_status infer_tokenize_with_images(infer_engine* engine, const char* text,
                                                  size_t length, uint32_t flags,
                                                  const infer_image* const* images,
                                                  size_t image_count, int32_t* tokens,
                                                  size_t capacity, size_t* count);
/* The images whose tokens are in the prompt of the session's next call that generates, in their
 * order. They may be freed after this. If that call fails, they stay for the one after it. */
INFER_API infer_status infer_session_set_images(infer_session* session,
                                                const infer_image* const* images, size_t count);

enum {
  INFER_FINISH_STOP = 0,     /* the model ended the text, or a stop string was found */
  INFER_FINISH_LENGTH = 1,   /* max_tokens were generated */
  INFER_FINISH_CONTEXT = 2,  /* the context is full */
  INFER_FINISH_CANCELLED = 3 /* by the callback or infer_session_cancel() */
};

typedef struct infer_statistics {
  int64_t prompt_tokens;
  int64_t generated_tokens;
  double prompt_seconds;
  double generate_seconds;
  double first_token_seconds; /* from the call to the first token */
  uint64_t seed;              /* the seed that was used */
  int32_t finish_reason;
  int64_t reused_tokens;   /* found in the cache instead of computed */
  int64_t shifted_tokens;  /* dropped by shift_context */
  int64_t drafted_tokens;  /* proposed and verified */
  int64_t accepted_tokens; /* proposed tokens that were right */
  double draft_seconds;    /* spent on proposing */
  double queue_seconds;    /* from the call to the first step that computes it */
} infer_statistics;

/* Gets a generated token and the text that it completed, which may be empty. A last call with token
 * -1 delivers text that was held back; its result is ignored. */
typedef int (*infer_token_fn)(void* user, int32_t token, const char* text, size_t length);
/* Gets the logits after the token at `position` of the session; they are valid during the call. */
typedef int (*infer_logits_fn)(void* user, int64_t position, const float* logits, size_t count);

INFER_API infer_status infer_session_open(infer_engine* engine, infer_session** session);

typedef struct infer_session_options {
  size_t struct_size;
  int64_t context; /* tokens that the session may have at most; 0: the engine's context. One more
                      may be generated after them, which nothing follows. */
  const float* adapters; /* by adapter (infer_engine_adapter()): what it is multiplied with in this
                            session; null: as loaded */
  size_t adapter_count;  /* numbers in `adapters`: those of the engine, or 0 */
} infer_session_options;

/* Sets the defaults; struct_size is sizeof(infer_session_options). */
INFER_API void infer_session_options_init(infer_session_options* options, size_t struct_size);
/* As infer_session_open(), with options. Null options: the defaults. */
INFER_API infer_status infer_session_open_with(infer_engine* engine,
                                               const infer_session_options* options,
                                               infer_session** session);
INFER_API void infer_session_free(infer_session* session);

/* Appends the prompt's tokens and generates from there. The prompt may be empty if the session
 * holds tokens. Blocks until done. Afterwards the session also holds the generated tokens, without
 * the end token that stopped it. Null options: the defaults. The callback may be null. Cancelling
 * is not a failure here: the statistics say it. After a failure the session holds what it held
 * before. INFER_BUSY: see max_waiting of infer_load_options. */
INFER_API infer_status infer_generate(infer_session* session, const int32_t* prompt,
                                      size_t prompt_count, const infer_generate_options* options,
                                      infer_token_fn on_token, void* user);
/* Makes later generations of the session tell the log-probabilities of the prompt's tokens, each
 * with those of the `most_likely` most likely tokens: to the callback, and as events. The callback
 * may be null. most_likely -1: no longer. The first token of an empty session is left out: nothing
 * precedes it that could predict it. No token of such a prompt is taken from the cache of other
 * sessions, a step computes at most output_rows of its tokens (infer_load_options), and it must fit
 * the context, also with shift_context. INFER_INVALID_ARGUMENT: most_likely is below -1. */
INFER_API infer_status infer_session_set_prompt_logprobs(infer_session* session,
                                                         int32_t most_likely,
                                                         infer_logprobs_fn on_logprobs, void* user);
/* Makes later generations of the session end with any of these tokens, even with ignore_end, and
 * with none of their tokens, nor by a stop string, before they have `min_tokens`.
 * INFER_INVALID_ARGUMENT: the session is null, stop_tokens is null with a count above 0, or
 * min_tokens is below 0. */
INFER_API infer_status infer_session_set_ends(infer_session* session, int32_t min_tokens,
                                              const int32_t* stop_tokens, size_t count);
/* Called when an event becomes ready and none was ready before, on one of the engine's threads. It
 * must return at once and must not use the session. It may wake an event loop. */
typedef void (*infer_event_fn)(void* user);
/* An event of a generation that infer_session_start() began. Its pointers are valid until the
 * session is asked for the next event. */
typedef struct infer_event {
  int32_t finished; /* nonzero: the last event, with `status`; 0: a token */
  int32_t token;    /* -1: only text, which was held back until the end */
  const char* text; /* completed by the token, whole UTF-8 characters */
  size_t text_length;
  const infer_logprob* logprobs; /* with infer_generate_options::logprobs */
  size_t logprob_count;
  infer_status status; /* what infer_generate() would have returned */
  const char* message; /* of that failure; "" if there is none */
  int32_t of_prompt;   /* nonzero: a token of the prompt, without text; such events come first, with
                          infer_session_set_prompt_logprobs() */
} infer_event;
/* Begins what infer_generate() does and returns at once. The callback may be null; on_logprobs is
 * not called. Until the last event has been taken, other calls that use the session fail with
 * INFER_INVALID_ARGUMENT. At most 32 tokens queue up; the generation then pauses until
 * infer_session_next() takes some, while other sessions go on. */
INFER_API infer_status infer_session_start(infer_session* session, const int32_t* prompt,
                                           size_t prompt_count,
                                           const infer_generate_options* options,
                                           infer_event_fn on_event, void* user);
/* Takes the next event. Waits for it up to the given time (0: does not wait; infinity: no limit).
 * `taken` becomes 1, or 0 if none came. INFER_INVALID_ARGUMENT if nothing was started or the last
 * event has been taken. `event_size` is sizeof(infer_event). */
INFER_API infer_status infer_session_next(infer_session* session, double timeout_seconds,
                                          infer_event* event, size_t event_size, int32_t* taken);
/* Statistics of the last infer_generate(), also if it failed; zeros before the first. */
INFER_API infer_status infer_session_statistics(const infer_session* session,
                                                infer_statistics* statistics,
                                                size_t statistics_size);
/* Appends tokens and delivers the logits after each of them, in order. A callback that returns 0
 * ends the call with INFER_OK; infer_session_cancel() ends it with INFER_CANCELLED. The session
 * then holds at least the tokens whose logits were delivered; see infer_session_length(). */
INFER_API infer_status infer_evaluate(infer_session* session, const int32_t* tokens, size_t count,
                                      infer_logits_fn on_logits, void* user);
/* Writes the session to a file. At any moment the file is either the old one or the complete new
 * one. */
INFER_API infer_status infer_session_save(infer_session* session, const char* path);
/* Replaces the session by the saved one. INFER_BAD_FILE: the file is damaged.
 * INFER_INVALID_ARGUMENT: it belongs to another model or cache type. INFER_DOES_NOT_FIT: it has
 * more tokens than the context. After a failure the session is as it was. */
INFER_API infer_status infer_session_restore(infer_session* session, const char* path);
/* A new session that holds the same tokens. Both share the cache until one of them writes to it,
 * and they go on independently. INFER_INVALID_ARGUMENT while a generation that
 * infer_session_start() began has not ended. */
INFER_API infer_status infer_session_fork(infer_session* session, infer_session** fork);
/* Drops tokens from the end until `length` tokens are left. */
INFER_API infer_status infer_session_truncate(infer_session* session, int64_t length);
/* Tokens held. */
INFER_API int64_t infer_session_length(const infer_session* session);
/* Tokens until the context is full. */
INFER_API int64_t infer_session_room(const infer_session* session);
/* Soon ends the infer_generate() or infer_evaluate() that is running. A call runs from the moment
 * it is entered: this also works while a grammar is compiled, while the call waits for its turn and
 * while its prompt is computed. Without a running call it has no effect. Any thread;
 * async-signal-safe. */
INFER_API void infer_session_cancel(infer_session* session);

#ifdef __cplusplus
}
#endif

#endif
