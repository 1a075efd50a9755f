// Small files of other programs, with what their formats have.
#pragma once

namespace infer::conversations::test {

inline constexpr const char* kChatGpt = R"json([{
  "title": "Deploy", "create_time": 1712345678.5, "update_time": 1712345699.25,
  "current_node": "answer", "conversation_id": "c1",
  "mapping": {
    "root": {"id": "root", "message": null, "parent": null, "children": ["system"]},
    "system": {"id": "system", "parent": "root", "children": ["q1", "q2"], "message": {
      "author": {"role": "system", "name": null}, "content": {"content_type": "text", "parts": [""]},
      "metadata": {"is_visually_hidden_from_conversation": true}}},
    "q1": {"id": "q1", "parent": "system", "children": [], "message": {
      "author": {"role": "user"}, "create_time": 1712345679,
      "content": {"content_type": "text", "parts": ["first wording"]}}},
    "q2": {"id": "q2", "parent": "system", "children": ["profile"], "message": {
      "author": {"role": "user"}, "create_time": 1712345679.5,
      "content": {"content_type": "multimodal_text", "parts": [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"},
        "why does it fail"]}}},
    "profile": {"id": "profile", "parent": "q2", "children": ["thoughts"], "message": {
      "author": {"role": "user"}, "content": {"content_type": "user_editable_context",
        "user_profile": "x", "user_instructions": "y"}}},
    "thoughts": {"id": "thoughts", "parent": "profile", "children": ["call"], "message": {
      "author": {"role": "assistant"}, "content": {"content_type": "thoughts", "thoughts": [
        {"summary": "Looking", "content": "I look at the log"}]}}},
    "call": {"id": "call", "parent": "thoughts", "children": ["result"], "message": {
      "author": {"role": "assistant"}, "recipient": "python", "status": "finished_successfully",
      "content": {"content_type": "code", "language": "unknown", "text": "print(1)"},
      "metadata": {"model_slug": "gpt-x"}}},
    "result": {"id": "result", "parent": "call", "children": ["recap"], "message": {
      "author": {"role": "tool", "name": "python"},
      "content": {"content_type": "execution_output", "text": "1"}}},
    "recap": {"id": "recap", "parent": "result", "children": ["answer"], "message": {
      "author": {"role": "assistant"},
      "content": {"content_type": "reasoning_recap", "content": "Thought for 3 seconds"}}},
    "answer": {"id": "answer", "parent": "recap", "children": [], "message": {
      "author": {"role": "assistant"}, "recipient": "all", "create_time": 1712345680,
      "content": {"content_type": "text", "parts": ["retry"]}}}
  }
}])json";

inline constexpr const char* kLmStudio = R"json({
  "name": "Pictures", "pinned": true, "createdAt": 1724000000000, "preset": "", "tokenCount": 33,
  "userLastMessagedAt": 1724000009000, "systemPrompt": "",
  "messages": [
    {"versions": [{"type": "singleStep", "role": "user", "content": [
       {"type": "text", "text": "Describe"},
       {"type": "file", "fileIdentifier": "17 - 431.png", "fileType": "image", "sizeBytes": 5}]}],
     "currentlySelected": 0},
    {"versions": [
       {"type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen3-8b"},
        "steps": [{"type": "contentBlock", "content": [{"type": "text", "text": "A dog."}],
          "genInfo": {"stats": {"stopReason": "userStopped"}}}]},
       {"type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "old name"},
        "steps": [
          {"type": "contentBlock", "style": {"type": "thinking", "title": "Thought for 1 second"},
           "content": [{"type": "text", "text": "It has "}, {"type": "text", "text": "whiskers."}]},
          {"type": "debugInfoBlock", "debugInfo": "x"},
          {"type": "contentBlock", "content": [{"type": "toolCallRequest", "callId": 7,
            "name": "look", "parameters": {"x": 1}}]},
          {"type": "toolStatus", "callId": 7},
          {"type": "contentBlock", "content": [{"type": "toolCallResult", "callId": 7,
            "content": ["fur"]}]},
          {"type": "contentBlock", "content": [{"type": "text", "text": "A cat."}],
           "genInfo": {"identifier": "qwen3-8b", "stats": {"stopReason": "eosFound",
             "tokensPerSecond": 33.5, "timeToFirstTokenSec": 0.25, "promptTokensCount": 11,
             "predictedTokensCount": 22, "totalTokensCount": 33}}}]}],
     "currentlySelected": 1},
    {"versions": [{"type": "singleStep", "role": "user",
       "content": [{"type": "text", "text": "thanks"}]}],
     "currentlySelected": 0}],
  "usePerChatPredictionConfig": true,
  "perChatPredictionConfig": {"fields": [
    {"key": "llm.prediction.systemPrompt", "value": "be brief"},
    {"key": "llm.prediction.temperature", "value": 0.25},
    {"key": "llm.prediction.topPSampling", "value": {"checked": true, "value": 0.9}},
    {"key": "llm.prediction.minPSampling", "value": {"checked": false, "value": 0.05}}]},
  "notes": [], "plugins": []
})json";

}  // namespace infer::conversations::test
