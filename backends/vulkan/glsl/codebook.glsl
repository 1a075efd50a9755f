// The levels of a type with a CODEBOOK, from shared memory: to compute one takes ten to thirty
// instructions. On a processor that is the faster way, as it has no shared memory.
#ifdef CODEBOOK
#ifdef INTEGER
shared uint codebook_bytes[16];
#else
shared float codebook_levels[16];
#endif

// By all invocations of a workgroup, before the first use.
void load_codebook() {
  for (uint c = gl_LocalInvocationIndex; c < 16; c += gl_WorkGroupSize.x) {
#ifdef INTEGER
    codebook_bytes[c] = uint(int(CODEBOOK(c))) & 255;
#else
    codebook_levels[c] = CODEBOOK(c);
#endif
  }
  barrier();
}

#ifdef INTEGER
float codebook(uint code) { return CODEBOOK(code); }
uint codebook_byte(uint code) { return codebook_bytes[code]; }
#else
float codebook(uint code) { return kHanded != 0 ? CODEBOOK(code) : codebook_levels[code]; }
#endif
#else
void load_codebook() {}
#endif
