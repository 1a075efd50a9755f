// Device memory at an address.
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/block.h"

namespace infer::cuda {

/// The same place. The compiler knows by the cast that it is not in shared memory, and moves loads
/// ahead of stores there.
template <typename V, typename T>
INFER_DEVICE V* as_global(T* at) {
  return static_cast<V*>(__cvta_global_to_generic(reinterpret_cast<uint64_t>(at)));
}

template <typename T>
class Global {
 public:
  INFER_DEVICE explicit Global(uint64_t address) : at_(reinterpret_cast<T*>(address)) {}
  INFER_DEVICE T& operator[](int64_t i) const { return *as_global<T>(at_ + i); }
  INFER_DEVICE T* pointer(int64_t i) const { return at_ + i; }
  INFER_DEVICE uint64_t address() const { return reinterpret_cast<uint64_t>(at_); }

 private:
  T* at_;
};

/// A vector at element i, whose address is a multiple of the vector's size.
template <typename V, typename T>
INFER_DEVICE V load_as(const Global<T>& from, int64_t i) {
  return *as_global<const V>(from.pointer(i));
}
template <typename V, typename T>
INFER_DEVICE void store_as(const Global<T>& to, int64_t i, const V& value) {
  *as_global<V>(to.pointer(i)) = value;
}

// Of what is read once in a step and never written: weights. They leave the first-level cache to
// others.
INFER_DEVICE void load_once(uint4& v, const void* at) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
}
INFER_DEVICE void load_once(uint2& v, const void* at) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(at));
}
INFER_DEVICE void load_once(uint32_t& v, const void* at) {
  asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(at));
}
INFER_DEVICE void load_once(uint16_t& v, const void* at) {
  asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(at));
}
template <typename V, typename T>
INFER_DEVICE V load_once(const Global<T>& from, int64_t i) {
  V value;
  load_once(value, from.pointer(i));
  return value;
}

/// Of what no kernel of the step writes. The compiler leaves out what is not used.
template <typename V, typename T>
INFER_DEVICE V load_constant(const Global<T>& from, int64_t i) {
  return __ldg(reinterpret_cast<const V*>(from.pointer(i)));
}

/// Of what the host has put there before the step began: also before wait_for_last().
template <typename T>
INFER_DEVICE T load_early(const Global<const T>& from, int64_t i) {
  return __ldg(from.pointer(i));
}

/// Asks for what load_once() will read, so that it is in the second-level cache by then.
template <typename T>
INFER_DEVICE void ask_for(const Global<T>& from, int64_t i, uint32_t) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from.pointer(i)));
}

/// Returns the value before.
INFER_DEVICE uint32_t atomic_add(const Global<uint32_t>& to, int64_t i, uint32_t value) {
  return atomicAdd(to.pointer(i), value);
}

/// The same. What the thread has written before, and what it knows to be written, is seen by
/// whoever sees this addition by one of its own; and this thread sees what stood behind those
/// before.
INFER_DEVICE uint32_t atomic_add_in_order(const Global<uint32_t>& to, int64_t i, uint32_t value) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(to.pointer(i)), "r"(value)
               : "memory");
  return before;
}

}  // namespace infer::cuda

#endif
