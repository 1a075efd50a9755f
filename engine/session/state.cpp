#include "engine/session/state.h"

#include <optional>
#include <span>
#include <utility>

#include "engine/session/fingerprint.h"
#include "engine/session/page_copy.h"
#include "engine/session/page_form.h"
#include "engine/session/state_file.h"

namespace infer {
namespace {

Result<uint64_t> fingerprint_of(const Engine::Impl& engine, std::span<const float> adapters) {
  const std::lock_guard lock(engine.placed_mutex);
  return model_fingerprint(engine.opened, adapters);
}

Result<PageForm> form_of(const Engine::Impl& engine) {
  const std::lock_guard lock(engine.placed_mutex);
  INFER_CHECK_R(engine.broken);  // a broken engine has no cache
  const PlanRequest& request = engine.opened.request;
  return PageForm(
      canonical_kv_layout({engine.opened.model->info().kv_layers, request.k_type, request.v_type}),
      engine.opened.plan.kv_layout);
}

/// Writes the file, with pages or without. Nothing if the sequence lost pages meanwhile.
Result<std::optional<StateWriter>> write_state(Engine::Impl& engine, const std::string& path,
                                               uint64_t fingerprint, const SessionState& state,
                                               KvCache::SequenceId id, bool with_pages) {
  INFER_TRY(PageForm form, form_of(engine));
  StateHead head;
  StateHeader& header = head.header;
  header.fingerprint = fingerprint;
  header.tokens = static_cast<int64_t>(state.tokens.size());
  header.shifted = state.shifted;
  header.seed = state.seed;
  head.first.resize(form.kinds());
  if (with_pages) {
    engine.thread->call([&] {
      const KvCache& cache = *engine.cache;
      // Nothing was computed, or the cache moved to another device and is empty.
      if (!cache.has_sequence(id) || cache.kinds() != form.kept_kinds()) return;
      header.cached = cache.length(id);
      for (size_t k = 0; k < form.kinds(); ++k) head.first[k] = form.first_page(cache, id, k);
    });
  }
  INFER_TRY(StateWriter file, StateWriter::create(path, head));
  std::vector<int32_t> tokens = state.tokens;
  for (size_t t = 0; t < state.generated.size(); ++t) {
    if (state.generated[t]) tokens[t] = ~tokens[t];
  }
  INFER_CHECK_R(file.write(std::as_bytes(std::span<const int32_t>(tokens))));
  bool there = true;
  const std::vector<PagePlace> places = places_of(form, head.first, header.cached);
  const auto write_part = [&](std::span<const PagePlace> part, std::span<std::byte> bytes) {
    if (!there) return Status();
    const auto copy = [&](const PagePlace& place, std::span<std::byte> to) {
      return form.read(*engine.cache, id, place.kind, place.page, to);
    };
    INFER_TRY_S(there, copy_part(engine, form, id, header.cached, part, bytes, copy));
    std::span<std::byte> left = bytes;
    for (const PagePlace& place : part) {
      const auto page = left.first(static_cast<size_t>(form.page_bytes(place.kind)));
      const int64_t used = header.cached - place.page * kPageTokens;
      if (used < kPageTokens) {
        clear_behind(form.layout(), place.kind, place.page * kPageTokens, used, page);
      }
      left = left.subspan(page.size());
    }
    return file.write(bytes);
  };
  INFER_CHECK_R(for_each_part(form, places, write_part));
  if (!there) return std::nullopt;
  return std::optional<StateWriter>(std::move(file));
}

}  // namespace

CacheSequence::CacheSequence(Engine::Impl& engine)
    : id(engine.new_sequence()), removal(engine.removal(id)), engine_(engine) {}

CacheSequence::~CacheSequence() { engine_.thread->post(std::move(removal)); }

Status save_state(Engine::Impl& engine, const std::string& path, const SessionState& state,
                  KvCache::SequenceId id) {
  INFER_TRY_S(const uint64_t fingerprint, fingerprint_of(engine, state.adapters));
  for (const bool with_pages : {true, false}) {
    INFER_TRY_S(std::optional<StateWriter> file,
                write_state(engine, path, fingerprint, state, id, with_pages));
    if (file) return file->commit();
  }
  return {};
}

Result<SessionState> restore_state(Engine::Impl& engine, const std::string& path,
                                   KvCache::SequenceId id, std::span<const float> adapters) {
  INFER_TRY(StateReader reader, StateReader::open(path));
  INFER_TRY(PageForm form, form_of(engine));
  INFER_TRY(const uint64_t fingerprint, fingerprint_of(engine, adapters));
  INFER_TRY(const StateHead head,
            reader.read_head(fingerprint, engine.cache_options.context, form));
  SessionState state;
  state.shifted = head.header.shifted;
  state.seed = head.header.seed;
  state.tokens.resize(static_cast<size_t>(head.header.tokens));
  INFER_CHECK_R(reader.read(std::as_writable_bytes(std::span(state.tokens))));
  const int64_t pages_at = reader.at();
  INFER_TRY(const uint64_t checksum, reader.check_rest());
  const int64_t vocabulary = engine.opened.model->info().vocabulary;
  state.generated.resize(state.tokens.size(), false);
  for (size_t t = 0; t < state.tokens.size(); ++t) {
    state.generated[t] = state.tokens[t] < 0;
    if (state.generated[t]) state.tokens[t] = ~state.tokens[t];
    const int32_t token = state.tokens[t];
    if (token < vocabulary) continue;
    return fail(StatusCode::bad_file, "{}: token {} is not in the vocabulary of 0 to {}", path,
                token, vocabulary - 1);
  }

  const int64_t cached = head.header.cached;
  Status room;
  engine.thread->call([&] {
    Result<PageForm> now = form_of(engine);
    if (!now) {
      room = now.error();
      return;
    }
    form = *std::move(now);
    std::vector<int64_t> first(form.kept_kinds());
    for (size_t k = 0; k < form.kinds(); ++k) {
      for (const size_t part : form.parts(k)) first[part] = head.first[k];
    }
    engine.ensure_sequence(id);
    room = engine.cache->restore(id, cached, first);
  });
  if (room.code() == StatusCode::does_not_fit) return state;
  INFER_CHECK_R(room);
  reader.seek(pages_at);
  bool there = true;
  const auto read_part = [&](std::span<const PagePlace> part, std::span<std::byte> bytes) {
    if (!there) return Status();
    INFER_CHECK(reader.read(bytes));
    const auto copy = [&](const PagePlace& place, std::span<std::byte> from) {
      return form.write(*engine.cache, id, place.kind, place.page, from);
    };
    INFER_TRY_S(there, copy_part(engine, form, id, cached, part, bytes, copy));
    return Status();
  };
  INFER_CHECK_R(for_each_part(form, places_of(form, head.first, cached), read_part));
  if (!there) return state;
  if (reader.hash() != checksum) {
    return fail(StatusCode::io, "{}: the file was changed while it was read", path);
  }
  state.cached = cached;
  return state;
}

}  // namespace infer
