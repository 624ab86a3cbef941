// A build without CUDA.
