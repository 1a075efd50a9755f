#include "formats/safetensors/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/core/file.h"
#include "formats/safetensors/tokenizer_parts.h"

namespace infer::safetensors {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

/// A field of a message: a number, or the bytes of a text or of another message.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      ///< of a number; its bits where it is fixed
  std::string_view bytes;  ///< of anything else
  size_t at = 0;           ///< where the field begins in the file
};

/// The fields of a message in their order. Source: protobuf.dev, "Encoding".
class Message {
 public:
  Message(const std::string& path, std::string_view bytes, size_t at)
      : path_(path), rest_(bytes), at_(at) {}

  bool ended() const { return rest_.empty(); }

  Result<Field> next() {
    Field field;
    field.at = at_;
    INFER_TRY(const uint64_t tag, varint());
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0: {
        INFER_TRY(field.value, varint());
        return field;
      }
      case 1: {
        INFER_TRY(const std::string_view bytes, take(8));
        std::memcpy(&field.value, bytes.data(), 8);
        return field;
      }
      case 2: {
        INFER_TRY(const uint64_t size, varint());
        INFER_TRY(field.bytes, take(size));
        return field;
      }
      case 5: {
        INFER_TRY(const std::string_view bytes, take(4));
        std::memcpy(&field.value, bytes.data(), 4);
        return field;
      }
      default:
        return fail(StatusCode::bad_file,
                    "{}: byte {}: expected a field of a SentencePiece model, found one of type {}",
                    path_, field.at, tag & 7);
    }
  }

  /// The message in a field.
  Message inside(const Field& field) const {
    return {path_, field.bytes, at_ - field.bytes.size()};
  }

 private:
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      INFER_TRY(const std::string_view byte, take(1));
      const auto bits = static_cast<uint8_t>(byte[0]);
      value |= static_cast<uint64_t>(bits & 127) << shift;
      if (bits < 128) return value;
    }
    return fail(StatusCode::bad_file, "{}: byte {}: expected a number of at most 10 bytes", path_,
                at_);
  }

  Result<std::string_view> take(uint64_t size) {
    if (size > rest_.size()) {
      return fail(StatusCode::bad_file,
                  "{}: byte {}: expected {} more bytes of a SentencePiece model, found {}", path_,
                  at_, size, rest_.size());
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    at_ += size;
    return taken;
  }

  const std::string& path_;
  std::string_view rest_;
  size_t at_;
};

/// What the file says beside the tokens, with the defaults of sentencepiece_model.proto.
struct Settings {
  enum Model : uint64_t { unigram = 1, bpe = 2 };
  uint64_t model = unigram;
  bool marks_behind = false;
  bool prefix = true;
  bool merge_spaces = true;
  bool space_marks = true;
};

class SentencePieceReader {
 public:
  explicit SentencePieceReader(const std::string& path) { spec_.source = path; }

  Result<TokenizerSpec> read(std::string_view bytes) {
    INFER_CHECK_R(
        fields(Message(spec_.source, bytes, 0), [this](const Message& in, const Field& f) {
          switch (f.number) {
            case 1: return piece(in.inside(f));
            case 2: return trainer(in.inside(f));
            case 3: return normalizer(in.inside(f));
            default: return Status();
          }
        }));
    if (spec_.tokens.empty()) {
      return fail(StatusCode::bad_file, "{}: expected a SentencePiece model, found no tokens",
                  spec_.source);
    }
    INFER_CHECK_R(special_ids());
    INFER_CHECK_R(kind());
    return std::move(spec_);
  }

 private:
  template <typename Take>
  static Status fields(Message message, const Take& take) {
    while (!message.ended()) {
      INFER_TRY_S(const Field field, message.next());
      INFER_CHECK(take(message, field));
    }
    return {};
  }

  Status piece(Message message) {
    constexpr auto kLast = static_cast<uint64_t>(TokenType::byte);
    if (spec_.tokens.size() >= static_cast<size_t>(kMaxTokens)) {
      return error(StatusCode::bad_file, "{}: expected at most {} tokens, found more", spec_.source,
                   kMaxTokens);
    }
    std::string text;
    float score = 0;
    uint64_t type = 1;
    INFER_CHECK(fields(message, [&](const Message&, const Field& f) {
      if (f.number == 1) text = f.bytes;
      if (f.number == 2) std::memcpy(&score, &f.value, sizeof(score));
      if (f.number == 3) type = f.value;
      return Status();
    }));
    if (std::isnan(score) || type == 0 || type > kLast) {
      return error(StatusCode::bad_file,
                   "{}: token {} ('{}'): expected a score and a type from 1 to {}", spec_.source,
                   spec_.tokens.size(), printable(text), kLast);
    }
    if (static_cast<TokenType>(type) == TokenType::unknown) {
      spec_.unknown = static_cast<int32_t>(spec_.tokens.size());
    }
    spec_.tokens.push_back(std::move(text));
    spec_.scores.push_back(score);
    spec_.types.push_back(static_cast<TokenType>(type));
    return {};
  }

  Status trainer(Message message) {
    return fields(message, [this](const Message&, const Field& f) {
      switch (f.number) {
        case 3: settings_.model = f.value; break;
        case 24: settings_.marks_behind = f.value != 0; break;
        case 41: bos_ = f.value; break;
        case 42: eos_ = f.value; break;
        case 43: padding_ = f.value; break;
        default: break;
      }
      return Status();
    });
  }

  Status normalizer(Message message) {
    return fields(message, [this](const Message&, const Field& f) {
      switch (f.number) {
        case 2: spec_.precompiled_charsmap.assign(f.bytes.begin(), f.bytes.end()); break;
        case 3: settings_.prefix = f.value != 0; break;
        case 4: settings_.merge_spaces = f.value != 0; break;
        case 5: settings_.space_marks = f.value != 0; break;
        default: break;
      }
      return Status();
    });
  }

  /// Ids are int32 in the file: none is -1.
  Status special_ids() {
    const auto one = [this](const char* name, uint64_t value, int32_t& id) {
      const auto given = static_cast<int64_t>(value);
      if (given == -1) return Status();
      if (given < 0 || given >= static_cast<int64_t>(spec_.tokens.size())) {
        return error(StatusCode::bad_file, "{}: {}: expected a token, 0 to {}, found {}",
                     spec_.source, name, spec_.tokens.size() - 1, given);
      }
      id = static_cast<int32_t>(given);
      return Status();
    };
    INFER_CHECK(one("bos_id", bos_, spec_.bos));
    INFER_CHECK(one("eos_id", eos_, spec_.eos));
    return one("pad_id", padding_, spec_.padding);
  }

  Status unsupported(const char* what) const {
    return error(StatusCode::unsupported, "{}: SentencePiece models {} are not supported",
                 spec_.source, what);
  }

  Status kind() {
    if (!settings_.space_marks) return unsupported("without ▁ for spaces");
    if (settings_.marks_behind) return unsupported("with ▁ at the end of words");
    spec_.pre = "default";
    spec_.add_space_prefix = settings_.prefix ? 1 : 0;
    if (settings_.model == Settings::unigram) {
      spec_.model = "t5";
      spec_.remove_extra_whitespaces = settings_.merge_spaces ? 1 : 0;
      return {};
    }
    if (settings_.model != Settings::bpe) return unsupported("of words or characters");
    if (!spec_.precompiled_charsmap.empty()) return unsupported("of BPE that normalise texts");
    if (settings_.merge_spaces) return unsupported("of BPE that merge spaces");
    spec_.model = "llama";
    return {};
  }

  TokenizerSpec spec_;
  Settings settings_;
  uint64_t bos_ = 1, eos_ = 2, padding_ = UINT64_MAX;
};

}  // namespace

Result<TokenizerSpec> read_sentencepiece_model(const std::string& path) {
  INFER_TRY(const File file, File::open(path));
  if (file.size() > kMostBytes) {
    return fail(StatusCode::bad_file, "{}: expected a SentencePiece model of at most {} bytes",
                path, kMostBytes);
  }
  std::string bytes(file.size(), '\0');
  INFER_CHECK_R(file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  return SentencePieceReader(path).read(bytes);
}

}  // namespace infer::safetensors
