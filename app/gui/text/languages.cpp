#include "gui/text/languages.h"

#include <algorithm>

namespace infer::gui {

// Words that several languages share.
#define INFER_C_WORDS                                                                       \
  "auto break case const continue default do else enum extern for goto if inline register " \
  "restrict return sizeof static struct switch typedef union volatile while "
#define INFER_C_TYPES                                                                             \
  "bool char double float int long short signed unsigned void size_t ssize_t ptrdiff_t int8_t "   \
  "int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t FILE NULL true " \
  "false "
#define INFER_JS_WORDS                                                                          \
  "async await break case catch class const continue debugger default delete do else export "   \
  "extends finally for from function get if import in instanceof let new of return set static " \
  "super switch this throw try typeof var void while with yield "
#define INFER_JS_TYPES                                                                      \
  "true false null undefined NaN Infinity Array Boolean Date Error Function JSON Map Math " \
  "Number Object Promise Proxy Reflect RegExp Set String Symbol WeakMap WeakSet console "   \
  "document globalThis module process require window "

const std::vector<Language>& languages() {
  static const std::vector<Language> all = {
      {"c h", INFER_C_WORDS "_Alignas _Atomic _Generic _Noreturn _Static_assert", INFER_C_TYPES,
       "//", "/*", "*/", "\"'", kHashLines},
      {"cpp c++ cc cxx hpp hh hxx cuda cu glsl hlsl metal arduino ino objectivec objc",
       INFER_C_WORDS
       "alignas alignof and asm catch class co_await co_return co_yield concept consteval "
       "constexpr constinit const_cast decltype delete dynamic_cast explicit export final friend "
       "import module mutable namespace new noexcept not operator or override private protected "
       "public reinterpret_cast requires static_assert static_cast template this thread_local "
       "throw try typeid typename using virtual uniform layout in out inout __global__ __device__ "
       "__shared__ __host__",
       INFER_C_TYPES
       "std string string_view vector map set unordered_map unordered_set array span optional "
       "variant unique_ptr shared_ptr nullptr char8_t char16_t char32_t wchar_t vec2 vec3 vec4 "
       "mat3 mat4 sampler2D",
       "//", "/*", "*/", "\"'", kHashLines},
      {"python py python3 pyi gyp starlark bazel",
       "and as assert async await break case class continue def del elif else except finally for "
       "from global if import in is lambda match nonlocal not or pass raise return try while with "
       "yield",
       "True False None self cls int float str bytes bool list dict set tuple object type print "
       "len range enumerate zip map filter open super isinstance Exception ValueError TypeError "
       "KeyError",
       "#", "", "", "\"'", kTripleQuotes | kAtWords},
      {"javascript js jsx mjs cjs node", INFER_JS_WORDS, INFER_JS_TYPES, "//", "/*", "*/", "\"'`",
       kLongBackticks | kAtWords},
      {"typescript ts tsx",
       INFER_JS_WORDS
       "abstract as asserts declare enum implements infer interface is keyof namespace override "
       "private protected public readonly satisfies type unique",
       INFER_JS_TYPES "any bigint boolean never number object string symbol unknown Partial "
                      "Record Readonly Pick Omit",
       "//", "/*", "*/", "\"'`", kLongBackticks | kAtWords},
      {"rust rs",
       "as async await break const continue crate dyn else enum extern fn for if impl in let loop "
       "match mod move mut pub ref return self static struct super trait type unsafe use where "
       "while",
       "bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize Self String Vec "
       "Option Some None Result Ok Err Box Rc Arc HashMap true false",
       "//", "/*", "*/", "\"'", kNestedComments | kQuotedChars},
      {"go golang",
       "break case chan const continue default defer else fallthrough for func go goto if import "
       "interface map package range return select struct switch type var",
       "bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune "
       "string "
       "uint uint8 uint16 uint32 uint64 uintptr any true false nil iota append cap close copy "
       "delete len make new panic print println recover",
       "//", "/*", "*/", "\"'`", kLongBackticks},
      {"java groovy gradle",
       "abstract assert break case catch class continue default do else enum extends final finally "
       "for goto if implements import instanceof interface native new package private protected "
       "public record return sealed static strictfp super switch synchronized this throw throws "
       "transient try var volatile while yield permits def",
       "boolean byte char double float int long short void String Object Integer Long Double "
       "Boolean "
       "List Map Set ArrayList HashMap Optional Stream System true false null",
       "//", "/*", "*/", "\"'", kAtWords | kTripleQuotes},
      {"csharp c# cs",
       "abstract as async await base break case catch checked class const continue default "
       "delegate "
       "do else enum event explicit extern finally fixed for foreach get goto if implicit in init "
       "interface internal is lock namespace new operator out override params partial private "
       "protected public readonly record ref required return sealed set sizeof stackalloc static "
       "struct switch this throw try typeof unchecked unsafe using var virtual volatile when where "
       "while with yield",
       "bool byte char decimal double dynamic float int long nint object sbyte short string uint "
       "ulong ushort void true false null value Task List Dictionary IEnumerable Console",
       "//", "/*", "*/", "\"'", kHashLines | kTripleQuotes},
      {"kotlin kt kts",
       "abstract actual as break by class companion const constructor continue crossinline data do "
       "else enum expect external final finally for fun get if import in infix init inline inner "
       "interface internal is lateinit noinline object open operator out override package private "
       "protected public reified return sealed set super suspend tailrec this throw try typealias "
       "val var vararg when where while",
       "Any Array Boolean Byte Char Double Float Int List Long Map Set Short String Unit true "
       "false "
       "null it println listOf mapOf",
       "//", "/*", "*/", "\"'", kAtWords | kTripleQuotes | kNestedComments},
      {"swift",
       "actor as associatedtype async await break case catch class continue default defer deinit "
       "do "
       "else enum extension fallthrough fileprivate final for func guard if import in init inout "
       "internal is lazy let mutating nonisolated open operator override private protocol public "
       "repeat required rethrows return self some static struct subscript super switch throw "
       "throws "
       "try typealias var weak where while",
       "Any Array Bool Character Dictionary Double Float Int Optional Self Set String UInt Void "
       "true "
       "false nil print",
       "//", "/*", "*/", "\"", kAtWords | kTripleQuotes | kNestedComments | kHashLines},
      {"shell bash sh zsh console shellscript fish ksh shell-session terminal",
       "case do done elif else esac export fi for function if in local readonly return select "
       "source then time unset until while alias declare set shift trap eval exec exit",
       "awk cat cd chmod chown cmake cp curl cut docker echo find git grep head kill ls make mkdir "
       "mv npm pip pip3 printf ps pwd python python3 read rm sed sort ssh sudo tail tar tee test "
       "touch tr true false uniq wc wget xargs apt brew",
       "#", "", "", "\"'`", kDollarWords | kDashedWords | kMarkAfterBlank},
      {"powershell ps1 pwsh",
       "begin break catch class continue data do dynamicparam else elseif end enum exit filter "
       "finally for foreach from function if in param process return switch throw trap try until "
       "using while",
       "Get-ChildItem Get-Content Set-Content Write-Host Write-Output Select-Object Where-Object "
       "ForEach-Object New-Object Import-Module",
       "#", "<#", "#>", "\"'", kDollarWords | kDashedWords | kIgnoresCase},
      {"batch bat cmd dosbatch",
       "call cd copy del dir do echo else endlocal exist exit for goto if in md mkdir move not off "
       "on path pause pushd popd rd ren set setlocal shift start title type",
       "", "rem ::", "", "", "\"", kIgnoresCase},
      {"sql mysql postgresql postgres sqlite plsql tsql",
       "add all alter and any as asc begin between by cascade case cast check column commit "
       "conflict constraint create cross database default delete desc distinct drop else end "
       "escape except exists explain foreign from full function grant group having if ignore in "
       "index inner insert intersect into is join key left like limit natural not offset on or "
       "order outer over partition primary procedure references replace returning revoke right "
       "rollback row rows select set table temporary then transaction trigger truncate union "
       "unique update using values view virtual when where window with",
       "bigint blob boolean char date datetime decimal double float int integer json numeric real "
       "serial smallint text time timestamp uuid varchar null true false avg coalesce count max "
       "min "
       "sum now",
       "--", "/*", "*/", "'\"", kIgnoresCase | kDoubledQuotes},
      {"json json5 jsonc jsonl ndjson", "", "true false null", "//", "/*", "*/", "\"", kKeys},
      {"yaml yml", "", "true false null yes no on off", "#", "", "", "\"'",
       kKeys | kDashedWords | kMarkAfterBlank},
      {"toml ini conf cfg properties editorconfig", "", "true false on off yes no", "# ;", "", "",
       "\"'", kKeys | kDashedWords | kTripleQuotes},
      {"html xml svg xhtml htm vue rss plist xaml markup", "", "", "", "<!--", "-->", "\"'",
       kTags | kDashedWords},
      {"css scss sass less",
       "important import media keyframes supports charset font-face include mixin extend use",
       "auto none inherit initial unset block inline flex grid absolute relative fixed sticky "
       "solid "
       "center left right top bottom bold normal transparent",
       "//", "/*", "*/", "\"'", kDashedWords | kKeys | kAtWords | kMarkAfterBlank},
      {"markdown md mdx", "", "", "", "<!--", "-->", "", kProse},
      {"diff patch udiff", "", "", "", "", "", "", kChanges},
      {"ruby rb",
       "alias and begin break case class def defined do else elsif end ensure for if in module "
       "next "
       "not or redo rescue retry return self super then undef unless until when while yield "
       "require "
       "require_relative include extend attr_accessor attr_reader private public protected",
       "true false nil puts print Array Hash String Integer Float Symbol", "#", "=begin", "=end",
       "\"'`", kAtWords},
      {"php",
       "abstract and as break callable case catch class clone const continue declare default do "
       "echo "
       "else elseif empty enum extends final finally fn for foreach function global if implements "
       "include include_once instanceof interface isset match namespace new or print private "
       "protected public readonly require require_once return static switch throw trait try unset "
       "use var while yield",
       "array bool float int mixed null object self string true false void this", "// #", "/*",
       "*/", "\"'", kDollarWords | kIgnoresCase},
      {"perl pl pm",
       "and cmp continue die do else elsif eq for foreach ge given gt if last le local lt my ne "
       "next "
       "no not or our package print redo ref require return sub unless until use when while xor",
       "chomp close defined delete each exists join keys length map open push scalar shift sort "
       "split undef values",
       "#", "", "", "\"'`", kDollarWords | kAtWords | kMarkAfterBlank},
      {"lua",
       "and break do else elseif end for function goto if in local not or repeat return then until "
       "while",
       "true false nil self assert error ipairs next pairs pcall print require select setmetatable "
       "string table math io os tonumber tostring type",
       "--", "--[[", "]]", "\"'", 0},
      {"r", "break else for function if in next repeat return while library require source",
       "TRUE FALSE NULL NA NaN Inf c data.frame list matrix mean print sum vector", "#", "", "",
       "\"'`", 0},
      {"julia jl",
       "abstract baremodule begin break catch const continue do else elseif end export finally for "
       "function global if import in let local macro module mutable primitive quote return struct "
       "try using where while",
       "Any Array Bool Char Dict Float32 Float64 Int Int64 String Vector true false nothing "
       "println",
       "#", "#=", "=#", "\"", kAtWords | kTripleQuotes | kNestedComments},
      {"haskell hs",
       "case class data default deriving do else forall foreign if import in infix infixl infixr "
       "instance let module newtype of qualified then type where",
       "Bool Char Double Either Int Integer IO Just Left Maybe Nothing Right String True False",
       "--", "{-", "-}", "\"", kNestedComments},
      {"scala sbt",
       "abstract case catch class def do else enum export extends extension final finally for "
       "given "
       "if implicit import lazy match new object override package private protected return sealed "
       "super this throw trait try type using val var while with yield",
       "Any Boolean Double Float Int List Long Map Nothing Option Seq Set Some String Unit true "
       "false "
       "null None println",
       "//", "/*", "*/", "\"'", kAtWords | kTripleQuotes | kNestedComments},
      {"dart",
       "abstract as assert async await break case catch class const continue covariant default do "
       "else enum export extends extension external factory final finally for get if implements "
       "import in is late library mixin new on operator part required rethrow return set static "
       "super switch sync this throw try typedef var while with yield",
       "bool double dynamic int num void String List Map Set Future Stream Widget true false null",
       "//", "/*", "*/", "\"'", kAtWords | kTripleQuotes},
      {"zig",
       "align allowzero and anytype asm async await break catch comptime const continue defer else "
       "enum errdefer error export extern fn for if inline linksection noalias nosuspend or orelse "
       "packed pub resume return struct suspend switch test threadlocal try union unreachable "
       "usingnamespace var volatile while",
       "bool f16 f32 f64 i8 i16 i32 i64 isize u8 u16 u32 u64 usize void type anyerror true false "
       "null "
       "undefined",
       "//", "", "", "\"'", kAtWords},
      {"elixir ex exs",
       "after and case catch cond def defmodule defp defstruct do else end fn for if import in not "
       "or "
       "quote raise receive rescue require try unless unquote use when with alias",
       "true false nil Enum IO List Map String", "#", "", "", "\"'", kAtWords | kTripleQuotes},
      {"makefile make mk", "ifeq ifneq ifdef ifndef else endif include define endef export",
       "all clean install PHONY", "#", "", "", "\"'", kDollarWords | kDashedWords},
      {"cmake",
       "if elseif else endif foreach endforeach while endwhile function endfunction macro endmacro "
       "return set unset include option project add_executable add_library target_link_libraries "
       "target_include_directories find_package message cmake_minimum_required",
       "ON OFF TRUE FALSE PUBLIC PRIVATE INTERFACE STATIC SHARED REQUIRED VERSION", "#", "#[[",
       "]]", "\"", kDollarWords | kIgnoresCase},
      {"dockerfile docker containerfile",
       "FROM RUN CMD LABEL MAINTAINER EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG "
       "ONBUILD "
       "STOPSIGNAL HEALTHCHECK SHELL AS",
       "", "#", "", "", "\"'", kDollarWords | kDashedWords | kMarkAfterBlank},
      {"latex tex", "begin end documentclass usepackage newcommand section subsection item", "",
       "%", "", "", "", 0},
      {"protobuf proto",
       "enum extend extensions group import map message oneof option optional package public "
       "repeated required reserved returns rpc service stream syntax to weak",
       "bool bytes double fixed32 fixed64 float int32 int64 sint32 sint64 string uint32 uint64 "
       "true "
       "false",
       "//", "/*", "*/", "\"'", 0},
      {"graphql gql",
       "directive enum extend fragment implements input interface mutation on query scalar schema "
       "subscription type union",
       "Boolean Float ID Int String true false null", "#", "", "", "\"", kTripleQuotes | kAtWords},
      {"asm nasm assembly armasm",
       "add and call cmp dec div imul inc int ja jae jb jbe je jg jge jl jle jmp jne jnz jz lea "
       "mov "
       "mul neg nop not or pop push ret shl shr sub syscall test xor db dd dq dw section global "
       "extern",
       "eax ebx ecx edx esi edi esp ebp rax rbx rcx rdx rsi rdi rsp rbp r8 r9 r10 r11 r12 r13 r14 "
       "r15 "
       "xmm0 xmm1 xmm2 xmm3",
       "; #", "", "", "\"'", kIgnoresCase},
  };
  return all;
}

#undef INFER_C_WORDS
#undef INFER_C_TYPES
#undef INFER_JS_WORDS
#undef INFER_JS_TYPES

const Language* find_language(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (const Language& language : languages()) {
    for (std::string_view rest = language.names; !rest.empty();) {
      const std::string_view known = rest.substr(0, rest.find(' '));
      if (std::ranges::equal(known, name, {}, {}, lower)) return &language;
      rest.remove_prefix(std::min(known.size() + 1, rest.size()));
    }
  }
  return nullptr;
}

}  // namespace infer::gui
