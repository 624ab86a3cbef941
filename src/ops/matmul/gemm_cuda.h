#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "base/dtype.h"

namespace turbolstm::cuda {

// A row-major matrix [rows, columns] in device memory, or `batches` of them.
struct DeviceMatrix {
  const void* data = nullptr;
  int64_t stride = 0;        // elements from row to row
  int64_t batch_stride = 0;  // elements from matrix to matrix
  DType dtype = DType::kFloat32;
  bool transposed = false;  // multiplied as its transpose
};

// What fp32 operands are multiplied in; sums are fp32 always.
enum class Fp32Product : uint8_t {
  kIeee,  // fp32
  kTf32,  // operands rounded to 10 bits
};

struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  int64_t batches = 1;
  DeviceMatrix a;              // [m, k], or [k, m] transposed
  DeviceMatrix b;              // [k, n], or [n, k] transposed; the type of a
  const void* bias = nullptr;  // [n], of c's type; one batch only
  bool accumulate = false;     // added to what c holds
  void* c = nullptr;           // [m, n]
  int64_t c_stride = 0;
  int64_t c_batch_stride = 0;
  DType c_dtype = DType::kFloat32;
  Fp32Product fp32 = Fp32Product::kIeee;
  // Rows of a product whose bits this one's rows are to have: its sums are split as that one's, by
  // that one's algorithm if need be, unless that cannot serve it. 0: its own.
  int64_t like_m = 0;
  // Multiprocessors that it is to use at most, so that others can use the rest; 0: all.
  int32_t processors = 0;
};

// A variable of the environment: when set, results are cleared before a product writes them. Tools
// that look for memory read before it was written do not see what the library stores by bulk
// copies.
inline constexpr const char* kClearProductsVariable = "TURBOLSTM_CLEAR_PRODUCTS";

// Dense products through cuBLASLt. One algorithm for each kind of product, chosen when it is first
// seen, so that the same call gives the same bits. Memory to work in: product_workspace.h. The
// library is opened at run time.
class GemmRunner {
 public:
  // Products that may run at once must have workspaces of their own.
  static constexpr size_t kWorkspaces = 2;

  // Error when cuBLASLt does not open. Workspaces grow with the products.
  GemmRunner();
  ~GemmRunner();
  GemmRunner(GemmRunner&&) noexcept;
  GemmRunner& operator=(GemmRunner&&) noexcept;

  // Enqueues c = a b (+ bias) (+ c). Empty results enqueue nothing; k = 0 gives zeros.
  void Run(const Gemm& gemm, cudaStream_t stream, size_t workspace = 0);
  // Bytes of device memory that products work in: as many as the algorithms chosen so far want.
  int64_t workspace_bytes() const;
  // A workspace that was too small for a later product is kept for what has been recorded with it,
  // until the caller says that nothing needs it any more.
  bool has_outgrown_workspaces() const;
  void DropOutgrownWorkspaces();

 private:
  class Library;
  std::unique_ptr<Library> library_;
};

}  // namespace turbolstm::cuda
