// libFuzzer: any bytes give conversations whose messages are a tree, or a typed error.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "conversations/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace infer::conversations;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  ImportSink sink;
  sink.conversation = [](const ImportedConversation& imported) -> infer::Status {
    Id id = 0;
    for (const Message& message : imported.messages) {
      ++id;
      if (message.id != id || message.parent < 0 || message.parent >= id) std::abort();
    }
    return {};
  };
  const infer::Result<ImportReport> report = read_conversations(in, "file", sink);
  if (!report && (report.error().ok() || !report.error().message().starts_with("file: "))) {
    std::abort();
  }
  return 0;
}
