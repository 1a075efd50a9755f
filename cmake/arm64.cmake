# Toolchain: Debian's cross compiler for AArch64, with the libraries of its multiarch packages; what
# is built runs in QEMU's user mode.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Without -L: the libraries of the cross compiler's own tree do not mix with those of multiarch.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Processors to test on besides, each with the instruction set that has to be chosen there.
set(INFER_EMULATED_CPUS cortex-a53=neon cortex-a76=neon_dotprod max=neon_i8mm)
