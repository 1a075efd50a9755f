// Files that become a part of the program, as they are.
#pragma once

/// Declares const unsigned char name[] and name_end[], at a multiple of `alignment` bytes. At the
/// top of a file, outside of namespaces.
#define INFER_EMBED(name, file, alignment)         \
  asm(".section .rodata.embedded, \"a\"\n"         \
      ".balign " #alignment                        \
      "\n"                                         \
      ".globl " #name "\n" #name                   \
      ":\n"                                        \
      ".incbin \"" file                            \
      "\"\n"                                       \
      ".globl " #name "_end\n" #name               \
      "_end:\n"                                    \
      ".previous\n");                              \
  extern "C" {                                     \
  extern const unsigned char name[], name##_end[]; \
  }                                                \
  static_assert(true)
