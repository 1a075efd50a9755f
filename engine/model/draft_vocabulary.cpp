#include "engine/model/draft_vocabulary.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <span>

#include "engine/model/draft_source.h"

namespace infer {
namespace {

Status bad(const HparamReader& r, const std::string& what) {
  return error(StatusCode::bad_file, "{}: {}", r.metadata().source(), what);
}

std::string read_table(HparamReader& r, const ModelInfo& main, int64_t width) {
  const Weight* own = r.source().find("token_embd.weight");
  if (own == nullptr && width != main.embedding) {
    r.set_error(bad(r, fmt::format("tensor 'token_embd.weight' is missing, and the embeddings of "
                                   "the model have {} elements in place of {}",
                                   main.embedding, width)));
  } else if (own != nullptr && own->desc.shape[1] != main.vocabulary) {
    r.set_error(bad(r, fmt::format("tensor 'token_embd.weight': expected rows for the {} tokens "
                                   "of the model, found {}",
                                   main.vocabulary, own->desc.shape[1])));
  }
  return own != nullptr ? own->name : kMainPrefix + std::string("token_embd.weight");
}

/// `most`: tokens of the main model.
Result<std::vector<int32_t>> read_ids(const WeightSource& source, const Weight& weight,
                                      int64_t rows, int64_t most) {
  // F32 is what a Hugging Face directory becomes.
  const DType type = weight.desc.type;
  if ((type != DType::i64 && type != DType::f32) || weight.desc.elements() != rows) {
    return fail(StatusCode::bad_file, "{}: tensor 'd2t': expected I64 [{}], found {}",
                source.metadata().source(), rows, to_string(weight.desc));
  }
  const auto size = static_cast<size_t>(rows);
  std::vector<std::byte> bytes(static_cast<size_t>(weight.desc.extent_bytes()));
  INFER_CHECK_R(source.read(weight.place, 0, bytes));
  std::vector<int32_t> ids;
  ids.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    double id = 0;
    if (type == DType::i64) {
      int64_t stored = 0;
      std::memcpy(&stored, bytes.data() + i * sizeof(stored), sizeof(stored));
      id = static_cast<double>(stored);
    } else {
      float stored = 0;
      std::memcpy(&stored, bytes.data() + i * sizeof(stored), sizeof(stored));
      id = static_cast<double>(stored);
    }
    if (!(id >= 0 && id < static_cast<double>(most)) || id != std::floor(id)) {
      return fail(StatusCode::bad_file,
                  "{}: tensor 'd2t': expected tokens of the model, 0 to {}, found {}",
                  source.metadata().source(), most - 1, id);
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace

DraftVocabulary read_draft_vocabulary(HparamReader& r, const ModelInfo& main, int64_t width,
                                      bool tied) {
  DraftVocabulary v;
  v.table = read_table(r, main, width);
  const WeightSource& source = r.source();
  const Weight* own = source.find("output.weight");
  if (own == nullptr && tied) own = source.find("token_embd.weight");
  const Weight* ids = source.find("d2t");
  const std::string of_main = kMainPrefix + std::string("output");
  const bool main_tied = source.find(of_main + ".weight") == nullptr;
  v.output = own != nullptr ? own->name.substr(0, own->name.size() - std::strlen(".weight"))
             : main_tied    ? kMainPrefix + std::string("token_embd")
                            : of_main;
  v.rows = own != nullptr ? own->desc.shape[1] : main.vocabulary;
  if (own == nullptr && (ids != nullptr || width != main.embedding)) {
    r.set_error(bad(r, "tensor 'output.weight' is missing, and that of the model does not fit"));
  } else if (ids != nullptr) {
    Result<std::vector<int32_t>> read = read_ids(source, *ids, v.rows, main.vocabulary);
    if (!read) {
      r.set_error(std::move(read).error());
    } else {
      v.ids = std::move(*read);
    }
  } else if (v.rows != main.vocabulary) {
    r.set_error(bad(r, fmt::format("tensor 'output.weight': expected rows for the {} tokens of "
                                   "the model, or a tensor 'd2t', found {} rows",
                                   main.vocabulary, v.rows)));
  }
  return v;
}

}  // namespace infer
