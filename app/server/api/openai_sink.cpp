#include "server/api/openai_sink.h"

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
  return form;
}

OpenAiSink::OpenAiSink(const Call& call, const AnswerForm& form, const AnswerNames& names)
    : exchange_(call.exchange),
      model_(call.model),
      form_(form),
      names_(names),
      id_(completion_id(names.id_prefix, exchange_->request())),
      created_(now_seconds()) {}

void OpenAiSink::done(const CompletionTotals& totals) {
  if (!form_.stream) {
    Json answer = head(names_.whole);
    answer["choices"] = choices();
    answer["usage"] = usage_json(totals);
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

void OpenAiSink::failed(const Status& status) {
  const int code = http_status(status.code());
  if (!begun_) return send_problem(*exchange_, code, status.message());
  exchange_->write(sse(
      {{"error", {{"message", status.message()}, {"type", error_type(code)}, {"code", code}}}}));
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
  exchange_->begin(200, "text/event-stream", {{"Cache-Control", "no-cache"}});
}

}  // namespace infer::server
