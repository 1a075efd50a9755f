#include "engine/sample/grammar/schema_document.h"

#include <charconv>

#include "engine/sample/grammar/json_schema.h"

namespace infer {
namespace {

/// Members of one object: a JSON library that keeps their order finds them one after another.
constexpr uint32_t kMaxMembers = 5000;
/// Bytes from which on a pointer, which serves messages alone, is not made longer.
constexpr size_t kLongPointer = 400;

/// Bounds nesting and members before anything is built of the text; whether it is JSON shows later.
Status check_shape(std::string_view text) {
  std::vector<std::pair<char, uint32_t>> open;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      open.emplace_back(c, 1);
      if (open.size() > kMaxSchemaNesting) {
        return error(StatusCode::unsupported, "the schema is nested deeper than {} levels",
                     kMaxSchemaNesting);
      }
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    } else if (c == ',' && !open.empty() && open.back().first == '{' &&
               ++open.back().second > kMaxMembers) {
      return error(StatusCode::unsupported, "the schema has an object of more than {} members",
                   kMaxMembers);
    }
  }
  return {};
}

/// Where and why a text is no JSON: "line 3, column 5: syntax error while parsing …".
std::string fault_of(std::string_view text) {
  struct Finder final : nlohmann::detail::json_sax_acceptor<Json> {
    std::string fault;
    bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& why) {
      fault = why.what();
      return false;
    }
  };
  Finder finder;
  Json::sax_parse(text, &finder);
  constexpr std::string_view kBefore = "parse error at ";
  const size_t at = finder.fault.find(kBefore);
  return at == std::string::npos ? finder.fault : finder.fault.substr(at + kBefore.size());
}

/// Whether a number outside of strings has no fraction and no exponent, and exceeds 64 bits.
bool find_large_integer(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c != '-' && (c < '0' || c > '9')) continue;
    const size_t end = std::min(text.find_first_not_of("-+.0123456789eE", i), text.size());
    const std::string_view number = text.substr(i, end - i);
    i = end - 1;
    if (number.find_first_of(".eE") != std::string_view::npos) continue;
    int64_t negative = 0;
    uint64_t positive = 0;
    const char* last = number.data() + number.size();
    const auto error = c == '-' ? std::from_chars(number.data(), last, negative).ec
                                : std::from_chars(number.data(), last, positive).ec;
    if (error == std::errc::result_out_of_range) return true;
  }
  return false;
}

std::string escaped(std::string_view step) {
  std::string out = "/";
  for (const char c : step) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string percent_decoded(std::string_view text) {
  const auto hex = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const int lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string unescaped(std::string_view step) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      out += step[++i] == '0' ? '~' : '/';
    } else {
      out += step[i];
    }
  }
  return out;
}

}  // namespace

Status SchemaDocument::parse(std::string_view text) {
  if (text.size() > kMaxSchemaBytes) {
    return error(StatusCode::unsupported, "the schema has {} bytes; at most {} are read",
                 text.size(), kMaxSchemaBytes);
  }
  INFER_CHECK(check_shape(text));
  // Throws where memory ends only.
  root_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root_.is_discarded()) {
    return error(StatusCode::invalid_argument, "the schema is not valid JSON: {}", fault_of(text));
  }
  large_integers_ = find_large_integer(text);
  if (root_.is_structured()) find_anchors();
  return {};
}

void SchemaDocument::find_anchors() {
  std::vector<const Json*> pending{&root_};
  while (!pending.empty()) {
    const Json* json = pending.back();
    pending.pop_back();
    if (json->is_object()) {
      const auto anchor = json->find("$anchor");
      if (anchor != json->end() && anchor->is_string()) {
        anchors_.emplace(anchor->get_ref<const std::string&>(), json);
      }
    }
    for (const Json& value : *json) {
      if (value.is_structured()) pending.push_back(&value);
    }
  }
}

NodeId SchemaDocument::intern(const Json* json, std::string pointer, bool negated) {
  auto& ids = negated ? negated_ids_ : ids_;
  const auto [it, fresh] = ids.try_emplace(json, static_cast<NodeId>(nodes_.size()));
  if (fresh) nodes_.push_back({json, std::move(pointer), negated});
  return it->second;
}

NodeId SchemaDocument::child(NodeId parent, const Json& json, std::string_view step,
                             std::string_view second) {
  std::string pointer = nodes_[parent].pointer;
  for (const std::string_view s : {step, second}) {
    if (!s.empty() && pointer.size() < kLongPointer) pointer += escaped(s.substr(0, kLongPointer));
  }
  return intern(&json, std::move(pointer));
}

NodeId SchemaDocument::child(NodeId parent, const Json& json, std::string_view step, size_t index) {
  return child(parent, json, step, std::to_string(index));
}

NodeId SchemaDocument::negation(NodeId id) {
  const Node node = nodes_[id];
  return intern(node.json, node.pointer, !node.negated);
}

Result<NodeId> SchemaDocument::resolve(NodeId at, const std::string& ref) {
  std::string_view fragment = ref;
  if (root_.is_object()) {
    const auto id = root_.find("$id");
    if (id != root_.end() && id->is_string()) {
      const std::string_view base = id->get_ref<const std::string&>();
      const std::string_view bare = base.substr(0, base.find('#'));
      if (!bare.empty() && fragment.starts_with(bare)) {
        fragment.remove_prefix(bare.size());
        if (fragment.empty()) return root();
      }
    }
  }
  if (!fragment.starts_with('#')) {
    return failure(StatusCode::unsupported, at, "$ref",
                   "references to other documents are not supported");
  }
  const std::string path = percent_decoded(fragment.substr(1));
  if (path.empty()) return root();
  if (path[0] != '/') {
    const auto it = anchors_.find(path);
    if (it == anchors_.end()) {
      return failure(StatusCode::invalid_argument, at, "$ref", "there is no such anchor");
    }
    return intern(it->second, path);
  }
  const Json* json = &root_;
  for (size_t pos = 0; pos < path.size();) {
    const size_t end = std::min(path.find('/', pos + 1), path.size());
    const std::string step = unescaped(std::string_view(path).substr(pos + 1, end - pos - 1));
    pos = end;
    const Json* next = nullptr;
    if (json->is_object()) {
      const auto it = json->find(step);
      if (it != json->end()) next = &*it;
    } else if (json->is_array() && !step.empty() && step.size() < 7 &&
               step.find_first_not_of("0123456789") == std::string::npos) {
      const size_t index = std::stoul(step);
      if (index < json->size()) next = &(*json)[index];
    }
    if (next == nullptr) {
      return failure(StatusCode::invalid_argument, at, "$ref", "it refers to nothing");
    }
    json = next;
  }
  return intern(json, path.substr(0, kLongPointer));
}

tl::unexpected<Status> SchemaDocument::failure(StatusCode code, NodeId at, std::string_view keyword,
                                               std::string_view what) const {
  return fail(code, "schema #{}: {}: {}", nodes_[at].pointer, keyword, what);
}

}  // namespace infer
