/* INFER_API marks what the shared library exports; everything else stays hidden in it. */
#ifndef INFER_EXPORT_H
#define INFER_EXPORT_H

#if defined(__GNUC__)
#define INFER_API __attribute__((visibility("default")))
#else
#define INFER_API
#endif

#endif
