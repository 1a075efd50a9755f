#include "server/api/openai_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api/openai_format.h"

namespace infer::server {

AnswerForm read_form(Fields& fields, const ServedModel& model) {
  AnswerForm form;
  form.model = fields.text("model").value_or(model.name());
  form.stream = fields.boolean("stream").value_or(false);
  if (const Json* stream = fields.object("stream_options")) {
    form.usage = Fields(*stream, "stream_options").boolean("include_usage").value_or(false);
  }
  form.prompt_logprobs =
      static_cast<int>(fields.integer("prompt_logprobs", 0, kMostLogprobs).value_or(-1));
  if (form.stream && form.prompt_logprobs >= 0) {
    fields.wrong("prompt_logprobs", "no stream: they are in whole answers only");
  }
  return form;
}

namespace {

constexpr size_t kMostValues = size_t{1} << 21;

}  // namespace

void check_prompt_logprobs(const Fields& fields, const char* field,
                           const CompletionRequest& request) {
  size_t tokens = 0;
  for (const auto& prompt : request.prompts) tokens += prompt.size();
  const auto each = static_cast<size_t>(request.options.prompt_logprobs + 1) *
                    static_cast<size_t>(request.copies);
  if (tokens * each > kMostValues) {
    fields.wrong(field, fmt::format("at most {} values: {} tokens of prompts with {} values each "
                                    "are more",
                                    kMostValues, tokens, each));
  }
}

void limit_logprobs(const Fields& fields, const char* field, const char* tokens, int64_t context,
                    CompletionRequest& request) {
  const GenerateOptions& options = request.options;
  if (options.logprobs < 0) return;
  request.most_values = kMostValues;
  if (options.max_tokens < 0) return;
  const size_t answers = request.prompts.size() * static_cast<size_t>(request.copies);
  const auto most = static_cast<size_t>(std::min<int64_t>(options.max_tokens, context));
  const auto each = static_cast<size_t>(options.logprobs + 1);
  if (answers * most * each > kMostValues) {
    fields.wrong(field,
                 fmt::format("at most {} values: {} answers of {} tokens ({}) with {} values each "
                             "are more, and only a stream may have them",
                             kMostValues, answers, most, tokens, each));
  }
}

OpenAiSink::OpenAiSink(const Call& call, const AnswerForm& form, const AnswerNames& names)
    : exchange_(call.exchange),
      model_(call.model),
      form_(form),
      names_(names),
      id_(completion_id(names.id_prefix, exchange_->request())),
      created_(now_seconds()) {}

void OpenAiSink::quiet() {
  if (!form_.stream) return;
  begin();
  exchange_->write(kComment);
}

void OpenAiSink::done(const CompletionTotals& totals) {
  if (!form_.stream) {
    Json answer = head(names_.whole);
    answer["choices"] = choices();
    answer["usage"] = usage_json(totals);
    complete(answer);
    return send_json(*exchange_, answer);
  }
  begin();
  if (form_.usage) {
    Json chunk = head(names_.chunk);
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_json(totals);
    exchange_->write(sse(chunk));
  }
  exchange_->write("data: [DONE]\n\n");
  exchange_->end();
}

void OpenAiSink::failed(const Status& status, const std::string& field) {
  const int code = http_status(status.code());
  if (!begun_) return send_problem(*exchange_, Problem(code, status.message(), field));
  exchange_->write(sse({{"error",
                         {{"message", status.message()},
                          {"type", error_type(code)},
                          {"code", error_code(exchange_->request().path, code)}}}}));
  exchange_->end();
}

void OpenAiSink::send_chunk(Json choice) {
  begin();
  Json chunk = head(names_.chunk);
  chunk["choices"] = Json::array({std::move(choice)});
  exchange_->write(sse(chunk));
}

Json OpenAiSink::head(const char* object) const {
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", form_.model}};
}

void OpenAiSink::begin() {
  if (std::exchange(begun_, true)) return;
  exchange_->begin(200, kEventStream, {{"Cache-Control", "no-cache"}});
}

}  // namespace infer::server
