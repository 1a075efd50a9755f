// A sink that also gathers the spans of a generation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/generation/completion.h"
#include "server/trace/trace_exporter.h"

namespace infer::server {

/// Passes all on. When it goes away it exports a span of the whole generation, with the attributes
/// that OpenTelemetry's conventions have for generative models, and within it "queue" (until the
/// first step that computes the request), "prompt" (until the first token) and "generation" (until
/// the last one). Of several answers together, each begins with the earliest and ends with the
/// latest.
class TracedSink final : public CompletionSink {
 public:
  /// The exporter outlives it. `model`: its name.
  TracedSink(std::unique_ptr<CompletionSink> sink, TraceExporter& exporter,
             const ExchangePtr& exchange, const std::string& model,
             const CompletionRequest& request);
  ~TracedSink() override;

  void begun(int choice, WallClock::time_point at) override;
  void prompt_token(int prompt, const TokenChoices& choices) override;
  void quiet() override { sink_->quiet(); }
  void part(int choice, const OutputEvent& event, std::vector<TokenChoices> tokens) override;
  void finished(int choice, const GenerateResult& result) override;
  void done(const CompletionTotals& totals) override;
  void failed(const Status& status, const std::string& field) override;

 private:
  using Time = WallClock::time_point;
  std::vector<Span> phases(const Span& whole) const;

  std::unique_ptr<CompletionSink> sink_;
  TraceExporter& exporter_;
  TraceContext context_;
  Span span_;
  Time came_;                                   ///< when the request came
  std::vector<Time> begun_;                     ///< by answer
  std::optional<Time> computed_, told_, last_;  ///< first step, first token, last token
  std::vector<std::string> reasons_;            ///< by answer
  bool any_begun_ = false;
  bool ended_ = false;
};

}  // namespace infer::server
