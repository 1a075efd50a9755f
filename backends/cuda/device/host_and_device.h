// Marks functions that the host and the kernels share.
#pragma once

#ifdef __CUDACC__
#define INFER_HOST_AND_DEVICE __host__ __device__
#else
#define INFER_HOST_AND_DEVICE
#endif
