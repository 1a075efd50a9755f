#include "hub/hub_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <set>

namespace infer::hub {
namespace {

constexpr size_t kMaxName = 96;  // of a user or a repository, as the hub has it
constexpr size_t kMaxPath = 1000;
constexpr size_t kListed = 30;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_separator(char c) { return c == '-' || c == '.' || c == '_' || c == '/'; }

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return result;
}

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.';
  };
  const auto at_edge = [](char c) { return c == '-' || c == '.'; };
  return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, allowed) &&
         !at_edge(name.front()) && !at_edge(name.back()) &&
         name.find("--") == std::string_view::npos && name.find("..") == std::string_view::npos;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view without_ending(std::string_view path) {
  return path.substr(0, std::min(path.rfind('.'), path.size()));
}

/// A GGUF file with a language model in it.
bool is_model(std::string_view path) {
  const std::string name = upper(file_name(path));
  return name.ends_with(".GGUF") && name.find("MMPROJ") == std::string::npos &&
         name.find("IMATRIX") == std::string::npos;
}

/// A GGUF file that reads images for a model. infer::find_vision() knows them by these names.
bool is_tower(std::string_view path) {
  const std::string name = upper(file_name(path));
  return name.ends_with(".GGUF") && name.starts_with("MMPROJ");
}

/// The length of a quantisation's name at the beginning of a text in capitals; 0: there is none.
size_t quant_length(std::string_view text) {
  size_t end = 0;
  for (const std::string_view whole :
       {"BF16", "F16", "FP16", "F32", "FP32", "MXFP4", "NVFP4", "NF4"}) {
    if (text.starts_with(whole)) end = whole.size();
  }
  for (const std::string_view kind : {"Q", "IQ", "TQ"}) {
    if (!text.starts_with(kind) || text.size() <= kind.size() || !is_digit(text[kind.size()])) {
      continue;
    }
    end = kind.size() + 1;
  }
  // What goes on: "_K_M", "_0", "_XXS".
  while (end > 0 && end + 1 < text.size() && text[end] == '_') {
    size_t next = end + 1;
    while (next < text.size() && (is_digit(text[next]) || is_letter(text[next]))) ++next;
    if (next - end > 4) break;  // a word of another kind
    end = next;
  }
  return end == text.size() || (end > 0 && is_separator(text[end])) ? end : 0;
}

/// Whether the word stands in the path, in capitals both, with separators or an end around it.
bool has_word(std::string_view path, std::string_view word) {
  for (size_t at = path.find(word); at != std::string_view::npos; at = path.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || is_separator(path[at - 1])) &&
        (end == path.size() || is_separator(path[end]))) {
      return true;
    }
  }
  return false;
}

/// What a user calls the file: its quantisation, or its path where the name tells none.
std::string label_of(const HubFile& file) {
  const std::string quant = quant_of(file.path);
  return quant.empty() ? file.path : quant;
}

std::string listed(const std::vector<const HubFile*>& files, bool as_paths) {
  std::set<std::string> names;
  for (const HubFile* file : files) names.insert(as_paths ? file->path : label_of(*file));
  std::string text;
  size_t count = 0;
  for (const std::string& name : names) {
    if (++count > kListed) return text + ", …";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

Status not_found(const std::string& message) { return {StatusCode::not_found, message}; }

/// The file, and if it is split all of its parts.
Result<Chosen> with_parts(const ModelName& wanted, const HubFile& file,
                          const std::vector<HubFile>& files) {
  const std::string stem(without_ending(file.path));
  const std::string ending = file.path.substr(stem.size());
  const std::optional<SplitPart> part = split_part(stem);
  if (!part) return Chosen{{file}, file.path};
  std::map<std::string_view, const HubFile*> by_path;
  for (const HubFile& each : files) by_path.emplace(each.path, &each);
  Chosen chosen;
  for (int number = 1; number <= part->count; ++number) {
    const std::string path =
        fmt::format("{}-{:05}-of-{:05}{}", part->name, number, part->count, ending);
    const auto found = by_path.find(path);
    if (found == by_path.end()) {
      return tl::unexpected(
          not_found(fmt::format("{}: the part {} is missing", wanted.repository, path)));
    }
    chosen.files.push_back(*found->second);
  }
  chosen.model = chosen.files.front().path;
  return chosen;
}

/// Adds what reads images for the chosen model, if the model's folder has it: of several files that
/// of F16, which all devices read fast, else the first.
void add_tower(Chosen& chosen, const std::vector<HubFile>& files) {
  const auto folder = [](std::string_view path) { return path.substr(0, path.rfind('/') + 1); };
  std::vector<const HubFile*> towers;
  for (const HubFile& file : files) {
    if (is_tower(file.path) && folder(file.path) == folder(chosen.model)) towers.push_back(&file);
  }
  const auto order = [](const HubFile* file) {
    return std::pair(quant_of(file->path) != "F16", file->path);
  };
  if (!towers.empty()) chosen.files.push_back(**std::ranges::min_element(towers, {}, order));
}

/// Of the candidates those whose quantisation is called exactly that; else those with the word.
std::vector<const HubFile*> with_quant(const std::vector<const HubFile*>& candidates,
                                       std::string_view quant) {
  std::vector<const HubFile*> found;
  const std::string wanted = upper(quant);
  for (const HubFile* file : candidates) {
    if (quant_of(file->path) == wanted) found.push_back(file);
  }
  if (!found.empty()) return found;
  for (const HubFile* file : candidates) {
    if (has_word(upper(file->path), wanted)) found.push_back(file);
  }
  return found;
}

/// A file of a module of sentence-transformers: modules.json names folders such as "1_Pooling" and
/// "2_Dense".
bool is_of_module(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash == path.npos) return false;
  const std::string_view name = path.substr(slash + 1);
  const std::string_view folder = path.substr(0, slash);
  const size_t digits = std::min(folder.find('_'), folder.size());
  return (name == "config.json" || name == "model.safetensors") && digits > 0 &&
         digits < folder.size() && std::ranges::all_of(folder.substr(0, digits), is_digit);
}

Result<Chosen> choose_folder(const ModelName& wanted, const std::vector<HubFile>& files) {
  constexpr std::array<std::string_view, 14> kBeside = {"config.json",
                                                        "tokenizer.json",
                                                        "tokenizer.model",
                                                        "tokenizer.jsonl",
                                                        "added_tokens.json",
                                                        "tokenizer_config.json",
                                                        "generation_config.json",
                                                        "chat_template.jinja",
                                                        "chat_template.json",
                                                        "modules.json",
                                                        "special_tokens_map.json",
                                                        "model.safetensors.index.json",
                                                        "preprocessor_config.json",
                                                        "processor_config.json"};
  const auto has = [&](std::string_view name) {
    return std::ranges::find(files, name, &HubFile::path) != files.end();
  };
  Chosen chosen;
  const bool has_modules = has("modules.json");
  for (const HubFile& file : files) {
    const bool beside = std::ranges::count(kBeside, file.path) > 0;
    if (beside || (has_modules && is_of_module(file.path))) chosen.files.push_back(file);
  }
  // As the engine chooses: the one file, or the shards of the index, or all.
  const bool single = has("model.safetensors");
  const bool sharded = has("model.safetensors.index.json");
  std::vector<HubFile> weights;
  for (const HubFile& file : files) {
    if (!file.path.ends_with(".safetensors") || file.path.find('/') != std::string::npos) continue;
    const std::optional<SplitPart> part = split_part(without_ending(file.path));
    const bool shard = part && part->name == "model";
    if (single ? file.path == "model.safetensors" : !sharded || shard) weights.push_back(file);
  }
  const bool has_tokenizer =
      has("tokenizer.json") || has("tokenizer.model") || has("tokenizer.jsonl");
  if (weights.empty() || !has("config.json") || !has_tokenizer) {
    return tl::unexpected(not_found(fmt::format(
        "{}: has no GGUF file, and lacks config.json, tokenizer.json (or tokenizer.model) or the "
        "safetensors files",
        wanted.repository)));
  }
  std::map<std::pair<std::string, int>, std::set<int>> parts;  // numbers by name and count
  for (const HubFile& file : weights) {
    const std::optional<SplitPart> part = split_part(without_ending(file.path));
    if (part) parts[{part->name, part->count}].insert(part->number);
  }
  for (const auto& [of, numbers] : parts) {
    if (std::ssize(numbers) == of.second) continue;
    const auto& [name, count] = of;
    return tl::unexpected(
        not_found(fmt::format("{}: a part of {}-{:05}-of-{:05}.safetensors is missing",
                              wanted.repository, name, *numbers.begin(), count)));
  }
  chosen.files.insert(chosen.files.end(), weights.begin(), weights.end());
  return chosen;
}

}  // namespace

Result<ModelName> parse_model_name(std::string_view text) {
  const std::string given(text);
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (text.starts_with(scheme)) text.remove_prefix(scheme.size());
  }
  for (const std::string_view host : {"hf.co/", "huggingface.co/"}) {
    if (text.starts_with(host)) text.remove_prefix(host.size());
  }
  ModelName name;
  const size_t colon = std::min(text.find(':'), text.size());
  name.repository = text.substr(0, colon);
  if (colon < text.size()) name.quant = text.substr(colon + 1);
  const size_t slash = std::min(name.repository.find('/'), name.repository.size());
  const auto quant_character = [](char c) {
    return is_digit(c) || is_letter(c) || c == '-' || c == '_' || c == '.';
  };
  const bool quant_missing = colon < text.size() && name.quant.empty();
  if (slash == name.repository.size() || !is_name(name.repository.substr(0, slash)) ||
      !is_name(name.repository.substr(slash + 1)) || quant_missing ||
      name.quant.size() > kMaxName || !std::ranges::all_of(name.quant, quant_character)) {
    return tl::unexpected(Status(StatusCode::invalid_argument,
                                 fmt::format("expected USER/REPO or USER/REPO:QUANT, such as "
                                             "Qwen/Qwen3-0.6B-GGUF:Q8_0, found '{}'",
                                             given)));
  }
  return name;
}

bool is_safe_path(std::string_view path) {
  const auto allowed = [](char c) { return c >= ' ' && c <= '~' && c != '\\'; };
  if (path.empty() || path.size() > kMaxPath || !std::ranges::all_of(path, allowed)) return false;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    at = end + 1;
  }
  return true;
}

bool is_hash(std::string_view text) {
  return text.size() >= 40 && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

std::optional<SplitPart> split_part(std::string_view stem) {
  constexpr size_t kTail = sizeof("-00001-of-00002") - 1;
  if (stem.size() <= kTail) return std::nullopt;
  const std::string_view tail = stem.substr(stem.size() - kTail);
  const auto digits = [&](size_t at) { return std::ranges::all_of(tail.substr(at, 5), is_digit); };
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !digits(1) || !digits(10)) {
    return std::nullopt;
  }
  SplitPart part{std::string(stem.substr(0, stem.size() - kTail)),
                 std::atoi(std::string(tail.substr(1, 5)).c_str()),
                 std::atoi(std::string(tail.substr(10, 5)).c_str())};
  if (part.number < 1 || part.number > part.count) return std::nullopt;
  return part;
}

std::string quant_of(std::string_view path) {
  std::string name = upper(without_ending(file_name(path)));
  if (const std::optional<SplitPart> part = split_part(without_ending(file_name(path)))) {
    name = upper(part->name);
  }
  for (size_t at = name.size(); at-- > 0;) {
    if (at > 0 && !is_separator(name[at - 1])) continue;
    const size_t length = quant_length(std::string_view(name).substr(at));
    if (length == 0) continue;
    const bool dynamic =
        at >= 3 && name.substr(at - 3, 3) == "UD-" && (at == 3 || is_separator(name[at - 4]));
    return dynamic ? "UD-" + name.substr(at, length) : name.substr(at, length);
  }
  return {};
}

Result<Chosen> choose(const ModelName& wanted, const std::vector<HubFile>& files) {
  if (!wanted.file.empty()) {
    const auto found = std::ranges::find(files, wanted.file, &HubFile::path);
    if (found != files.end()) return with_parts(wanted, *found, files);
    std::vector<const HubFile*> models;
    for (const HubFile& file : files) {
      if (is_model(file.path)) models.push_back(&file);
    }
    return tl::unexpected(
        not_found(fmt::format("{}: has no file {}{}{}", wanted.repository, wanted.file,
                              models.empty() ? "" : "; its models are ", listed(models, true))));
  }
  std::vector<const HubFile*> models;
  for (const HubFile& file : files) {
    const std::optional<SplitPart> part = split_part(without_ending(file.path));
    if (is_model(file.path) && (!part || part->number == 1)) models.push_back(&file);
  }
  std::ranges::sort(models, {}, &HubFile::path);
  if (models.empty()) {
    if (wanted.quant.empty()) return choose_folder(wanted, files);
    return tl::unexpected(not_found(fmt::format("{}: has no GGUF files; give it without ':{}'",
                                                wanted.repository, wanted.quant)));
  }
  std::vector<const HubFile*> found;
  if (wanted.quant.empty()) {
    for (const char* usual : {"Q4_K_M", "Q8_0"}) {
      if (found.empty()) found = with_quant(models, usual);
    }
    if (found.empty()) found = {models.front()};
  } else {
    found = with_quant(models, wanted.quant);
  }
  if (found.empty()) {
    return tl::unexpected(
        not_found(fmt::format("{}: has no GGUF file of {}; it has {}", wanted.repository,
                              wanted.quant, listed(models, false))));
  }
  if (found.size() > 1) {
    return tl::unexpected(
        Status(StatusCode::invalid_argument,
               fmt::format("{}: several files match: {}; choose one with -hff FILE",
                           wanted.repository, listed(found, true))));
  }
  Result<Chosen> chosen = with_parts(wanted, *found.front(), files);
  if (chosen) add_tower(*chosen, files);
  return chosen;
}

}  // namespace infer::hub
