// How the answers of OpenAI's two completion APIs are sent, whole or in parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/api/api.h"
#include "server/generation/completion.h"

namespace infer::server {

/// Most likely tokens that a request may ask for beside each token.
inline constexpr int kMostLogprobs = 20;

/// The fields of a request that say how its answer is sent.
struct AnswerForm {
  std::string model;  ///< as the client named it
  bool stream = false;
  bool usage = false;  ///< a stream ends with the counts of tokens
  /// Most likely tokens beside each token of the prompt, as vLLM shows them; -1: not shown.
  int prompt_logprobs = -1;
};

/// `model`, `stream`, `stream_options` and `prompt_logprobs`. Throws Problem.
AnswerForm read_form(Fields& fields, const ServedModel& model);

/// Refuses log-probabilities of prompts that would fill too large an answer. `field`: the one that
/// asks for them. Throws Problem.
void check_prompt_logprobs(const Fields& fields, const char* field,
                           const CompletionRequest& request);

/// The same for those of generated tokens in a whole answer: refuses more than may be asked for,
/// and has an answer that comes to have more end with an error. `field`, `tokens`: the fields that
/// ask for them and that say how many tokens there may be.
void limit_logprobs(const Fields& fields, const char* field, const char* tokens, int64_t context,
                    CompletionRequest& request);

/// What a kind of answer is called.
struct AnswerNames {
  const char* id_prefix;
  const char* whole;
  const char* chunk;
};

/// Sends what a subclass makes of each choice.
class OpenAiSink : public CompletionSink {
 public:
  void quiet() final;
  void done(const CompletionTotals& totals) final;
  void failed(const Status& status, const std::string& field) final;

 protected:
  OpenAiSink(const Call& call, const AnswerForm& form, const AnswerNames& names);

  /// The elements of "choices" of a whole answer.
  virtual Json choices() = 0;
  /// What else is in a whole answer.
  virtual void complete(Json& answer) { (void)answer; }
  /// Sends a part of one choice in a stream.
  void send_chunk(Json choice);

  bool streams() const { return form_.stream; }
  const Engine& engine() const { return model_->engine(); }
  const Request& request() const { return exchange_->request(); }

 private:
  Json head(const char* object) const;
  void begin();

  ExchangePtr exchange_;
  std::shared_ptr<ServedModel> model_;
  AnswerForm form_;
  AnswerNames names_;
  std::string id_;
  int64_t created_;
  bool begun_ = false;
};

}  // namespace infer::server
