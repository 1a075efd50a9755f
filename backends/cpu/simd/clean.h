// What every kernel of a table is called through.
#pragma once

namespace infer::cpu {
namespace {

/// A function that leaves vector registers as code without their instruction set needs them.
/// Compilers see to that but where a function's last call takes vectors, as of a part that was not
/// inlined. Intel's processors then need hundreds of cycles for the code that comes after.
template <auto kFn>
struct Clean;
template <typename R, typename... Args, R (*kFn)(Args...)>
struct Clean<kFn> {
  static R run(Args... args) {
    struct End {
      ~End() { end_vectors(); }
    } end;
    return kFn(args...);
  }
};
template <auto kFn>
constexpr auto clean = &Clean<kFn>::run;

}  // namespace
}  // namespace infer::cpu
