/* Of the shared library alone, which is linked with --wrap=stderr. Debian's archives of libpng and
 * libjpeg-turbo are position independent only for programs: they take the variable stderr for one of the
 * file that they are linked into. Here it is one. */
#include <stdio.h>

extern FILE* __real_stderr;
FILE* __wrap_stderr;

/* Before other constructors of the library. */
__attribute__((constructor(101))) static void take_stderr(void) { __wrap_stderr = __real_stderr; }
