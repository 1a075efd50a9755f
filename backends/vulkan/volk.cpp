// volk's own definitions: the loader's entry points, found when the loader is opened.
#define VOLK_IMPLEMENTATION
#include <volk.h>
