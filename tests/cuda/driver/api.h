// What the functions of the driver for tests begin with.
#pragma once

#include "tests/cuda/driver/state.h"

#define INFER_CU extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

/// Takes the lock, counts the call and returns if it is to fail with `code`, or if a device is
/// lost.
#define INFER_BEGIN(name, code)                                                  \
  State& state = State::get();                                                   \
  const std::lock_guard lock(state.mutex);                                       \
  if (const CUresult begun_ = state.begin(name, code); begun_ != CUDA_SUCCESS) { \
    return begun_;                                                               \
  }

/// The same for a function that needs a context, which must not have a fault.
#define INFER_BEGIN_IN(name, code)                           \
  INFER_BEGIN(name, code)                                    \
  const CUcontext context = state.current(name);             \
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT; \
  if (context->fault != CUDA_SUCCESS) return context->fault;

/// For functions that give something back, which they do whatever has failed.
#define INFER_END(name)                    \
  State& state = State::get();             \
  const std::lock_guard lock(state.mutex); \
  [[maybe_unused]] const char* const function_name = name;

/// Returns with a mistake unless it holds.
#define INFER_EXPECT(name, condition)                                    \
  if (!(condition)) {                                                    \
    return state.mistake(std::string(name) + ": not so: " + #condition); \
  }
