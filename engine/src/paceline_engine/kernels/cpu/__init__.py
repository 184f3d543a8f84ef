"""C++ kernels for AVX2: sources in `csrc/`, `build` compiles them, `library` loads them."""
