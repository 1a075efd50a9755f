// What every kernel of a table is called through.
#pragma once

namespace infer::cpu {
namespace {

/// A function that leaves no upper half of a vector register in use. Compilers do this themselves,
/// except where the last call in a function passes vectors to a part that was not inlined. The code
/// after it then takes hundreds of cycles longer on Intel's processors.
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
