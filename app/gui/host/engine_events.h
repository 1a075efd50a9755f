// What the engine's host is asked for, and what it tells. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gui/host/trace.h"
#include "infer/infer.hpp"
#include "infer/jobs.hpp"

namespace infer::gui {

/// What happens to answers that are being generated when their model is to go.
enum class Ending {
  wait,  ///< the model goes when they have ended
  stop,  ///< they are stopped; what they have so far stays
};

struct Message {
  std::string role;  ///< "system", "user", "assistant", "tool"
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;  ///< that an answer asks for
  std::string call_id;          ///< of a tool's result: the call's id; may be empty
  std::string tool;             ///< of a tool's result: the function's name
};

/// How the messages of a conversation become text.
struct ChatForm {
  std::string chat_template;  ///< a name or Jinja (chat::choose_template); empty: the model's own
  std::string tools;          ///< a JSON array as in OpenAI's requests; empty: no tools
  std::string variables;      ///< a JSON object with more variables of the template; may be empty

  bool operator==(const ChatForm&) const = default;
};

struct AnswerRequest {
  int64_t conversation = 0;  ///< the caller's number; one answer at a time
  ChatForm form;
  std::vector<Message> messages;
  bool continues = false;   ///< the last message is an answer that was ended early: go on with it
  GenerateOptions options;  ///< its callbacks are not called
};

struct CountRequest {
  int64_t request = 0;  ///< the caller's number
  ChatForm form;
  std::vector<Message> messages;
  std::string draft;  ///< a message of the user that is being typed; may be empty
};

struct PlanRequest {
  int64_t request = 0;  ///< the caller's number
  std::string path;
  LoadOptions options;
  std::string on;  ///< ForecastOptions::on: a device that is not present; empty: those of `options`
};

// ---------------------------------------------------------------------------------------------
// Events

using DescriptionPtr = std::shared_ptr<const ModelDescription>;

/// Several ones become one while nobody polls.
struct LoadProgress {
  std::string path;
  double done = 0;       ///< 0 to 1
  bool waiting = false;  ///< for answers of the model that is loaded
};
struct Loaded {
  DescriptionPtr model;
  LoadOptions options;  ///< without `progress`
  MemoryReport memory;
  std::vector<DeviceDescription> devices;
  double seconds = 0;
};
/// The model that was loaded before is still there, unless Unloaded said that it went.
struct LoadFailed {
  std::string path;
  Status status;
  std::vector<Alternative> alternatives;  ///< if it does not fit
};
/// Comes for every model that went, also when another one takes its place.
struct Unloaded {
  std::string path;
};

/// The latest PlanRequest alone is answered. What failed has a status; the rest is there.
struct Planned {
  int64_t request = 0;
  std::string path;
  DescriptionPtr model;  ///< null: the file cannot be read
  Status status;         ///< of the plan
  MemoryReport plan;
  SpeedEstimate speed;
  std::string absent;                     ///< the device of PlanRequest::on; empty: none
  std::vector<Alternative> alternatives;  ///< if it does not fit on the devices that are present
};

/// Text of one kind that follows the text of earlier events, or a whole call of a tool. Several
/// ones become one while nobody polls.
struct AnswerPart {
  int64_t conversation = 0;
  OutputEvent part;
};
struct AnswerEnded {
  /// What filled the context, if `status` is does_not_fit for that reason.
  enum class Full { nothing, messages, last_message };
  int64_t conversation = 0;
  Status status;  ///< ok also for an answer that was stopped
  GenerateResult result;
  int64_t context_used = 0;      ///< tokens that the conversation holds now
  int64_t context = 0;           ///< tokens that it may hold
  int64_t dropped_messages = 0;  ///< oldest messages that the model did not see
  Full full = Full::nothing;
};
/// The latest CountRequest alone is answered.
struct Counted {
  int64_t request = 0;
  Status status;
  int64_t draft_tokens = 0;  ///< of the draft alone
  int64_t tokens = 0;        ///< of all messages with the draft, as the template writes them
  int64_t context = 0;       ///< tokens that the conversation may hold
};

/// After resize_cache() and ask_memory().
struct Memory {
  Status status;  ///< of the change of size
  MemoryReport memory;
  std::vector<DeviceDescription> devices;
};

/// After ask_devices().
struct Devices {
  Status status;
  std::vector<DeviceDescription> devices;
};

struct BenchJob {
  std::vector<std::string> models;
  BenchOptions options;
};
struct SelftestJob {
  LoadOptions options;
  std::string only;  ///< an operation's name; empty: all
};
struct QuantizeJob {
  std::string input, output;
  QuantizeOptions options;
};
struct ConvertJob {
  std::string input, output;
  ConvertOptions options;
};
struct ImportanceJob {
  std::string model, text_file, output;
  ImportanceOptions options;
};
/// The callbacks in the options are not called.
using Job = std::variant<BenchJob, SelftestJob, QuantizeJob, ConvertJob, ImportanceJob>;
/// The report of a job, in the order of Job; nothing if it failed.
using JobReport = std::variant<std::monostate, BenchReport, SelftestReport, QuantizeReport,
                               ConvertReport, ImportanceReport>;

/// Several ones become one while nobody polls.
struct JobProgress {
  int64_t job = 0;
  double done = 0;  ///< 0 to 1
};
struct JobEnded {
  int64_t job = 0;
  Status status;
  JobReport report;
  std::shared_ptr<const Trace> trace;  ///< of a benchmark that was asked for one; else null
  double seconds = 0;
};

using EngineEvent = std::variant<LoadProgress, Loaded, LoadFailed, Unloaded, Planned, AnswerPart,
                                 AnswerEnded, Counted, Memory, Devices, JobProgress, JobEnded>;

}  // namespace infer::gui
