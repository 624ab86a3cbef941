#include "ops/matmul/gemm_cuda.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/shared_library_cuda.h"
#include "base/error.h"
#include "ops/matmul/product_workspace.h"

namespace turbolstm::cuda {
namespace {

// Allocated in steps of this, so that products which want a little more do not outgrow it often.
constexpr int64_t kWorkspaceStep = int64_t{1} << 20;

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat16:
      return CUDA_R_16F;
    default:
      Fail("[product] got {}, wants float32, bfloat16 or float16", Name(dtype));
  }
}

// The largest power of two up to 256 that divides an address.
int64_t AlignmentOf(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  return value == 0 ? 256 : static_cast<int64_t>(std::min<uintptr_t>(256, value & (~value + 1)));
}

// All that the choice of an algorithm depends on.
using Key = std::array<int64_t, 23>;

Key KeyOf(const Gemm& g) {
  return {g.m,
          g.n,
          g.k,
          g.batches,
          g.a.stride,
          g.a.batch_stride,
          static_cast<int64_t>(g.a.dtype),
          g.a.transposed,
          AlignmentOf(g.a.data),
          g.b.stride,
          g.b.batch_stride,
          g.b.transposed,
          AlignmentOf(g.b.data),
          g.bias != nullptr,
          AlignmentOf(g.bias),
          g.accumulate,
          g.c_stride,
          g.c_batch_stride,
          static_cast<int64_t>(g.c_dtype),
          AlignmentOf(g.c),
          static_cast<int64_t>(g.fp32),
          g.like_m,
          g.processors};
}

void ClearResult(const Gemm& gemm, cudaStream_t stream) {
  const size_t element = SizeOf(gemm.c_dtype);
  for (int64_t i = 0; i < gemm.batches; ++i) {
    TL_CUDA_CHECK(cudaMemset2DAsync(
        static_cast<std::byte*>(gemm.c) + static_cast<size_t>(i * gemm.c_batch_stride) * element,
        static_cast<size_t>(gemm.c_stride) * element, 0, static_cast<size_t>(gemm.n) * element,
        static_cast<size_t>(gemm.m), stream));
  }
}

// One kind of product, described for the library.
struct Plan {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  int64_t workspace = 0;  // bytes
};

int64_t MatrixBytes(int64_t rows, int64_t columns, int64_t batches, DType dtype) {
  return rows * columns * batches * static_cast<int64_t>(SizeOf(dtype));
}

// What the three matrices take in memory.
int64_t BytesOf(const Gemm& g) {
  return MatrixBytes(g.m, g.k, g.batches, g.a.dtype) + MatrixBytes(g.k, g.n, g.batches, g.b.dtype) +
         MatrixBytes(g.m, g.n, g.batches, g.c_dtype);
}

// Lets the calling thread allocate while it records a stream.
class AllocatesInCapture {
 public:
  AllocatesInCapture() { TL_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~AllocatesInCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  AllocatesInCapture(const AllocatesInCapture&) = delete;
  AllocatesInCapture& operator=(const AllocatesInCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

class GemmRunner::Library {
 public:
  Library() : library_(kCublasLtNames) {
    library_.Load(create_, "cublasLtCreate");
    library_.Load(destroy_, "cublasLtDestroy");
    library_.Load(status_text_, "cublasLtGetStatusString");
    library_.Load(describe_, "cublasLtMatmulDescCreate");
    library_.Load(forget_, "cublasLtMatmulDescDestroy");
    library_.Load(set_, "cublasLtMatmulDescSetAttribute");
    library_.Load(lay_out_, "cublasLtMatrixLayoutCreate");
    library_.Load(drop_layout_, "cublasLtMatrixLayoutDestroy");
    library_.Load(set_layout_, "cublasLtMatrixLayoutSetAttribute");
    library_.Load(prefer_, "cublasLtMatmulPreferenceCreate");
    library_.Load(drop_preference_, "cublasLtMatmulPreferenceDestroy");
    library_.Load(set_preference_, "cublasLtMatmulPreferenceSetAttribute");
    library_.Load(choose_, "cublasLtMatmulAlgoGetHeuristic");
    library_.Load(check_algorithm_, "cublasLtMatmulAlgoCheck");
    library_.Load(setting_, "cublasLtMatmulAlgoConfigGetAttribute");
    library_.Load(multiply_, "cublasLtMatmul");
    Check(create_(&handle_), "cublasLtCreate");
  }

  ~Library() {
    for (auto& [key, plan] : plans_) Drop(plan);
    if (handle_) destroy_(handle_);
  }

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void Run(const Gemm& gemm, cudaStream_t stream, size_t workspace) {
    const Plan& plan = PlanFor(gemm);
    DeviceBuffer& room = workspaces_.at(workspace);
    MakeRoom(plan.workspace, &room);
    if (gemm.bias) {
      Check(
          set_(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &gemm.bias, sizeof(gemm.bias)),
          "cublasLtMatmulDescSetAttribute(bias)");
    }
    const float one = 1;
    const float beta = gemm.accumulate ? 1 : 0;
    // The library is column-major: it sees every matrix transposed, and so computes c' = b' a'.
    Check(multiply_(handle_, plan.description, &one, gemm.b.data, plan.b, gemm.a.data, plan.a,
                    &beta, gemm.c, plan.c, gemm.c, plan.c, &plan.algorithm, room.data(),
                    room.size(), stream),
          "cublasLtMatmul");
  }

  bool has_outgrown() const { return !outgrown_.empty(); }
  void DropOutgrown() { outgrown_.clear(); }

  int64_t workspace_bytes() const {
    size_t bytes = 0;
    for (const DeviceBuffer& room : workspaces_) bytes += room.size();
    for (const DeviceBuffer& buffer : outgrown_) bytes += buffer.size();
    return static_cast<int64_t>(bytes);
  }

 private:
  // Recorded work goes on to use the workspace that it was recorded with.
  void MakeRoom(int64_t bytes, DeviceBuffer* room) {
    if (bytes <= static_cast<int64_t>(room->size())) return;
    const int64_t rounded = (bytes + kWorkspaceStep - 1) / kWorkspaceStep * kWorkspaceStep;
    const AllocatesInCapture relaxed;
    DeviceBuffer larger(static_cast<size_t>(rounded), "the workspace of products");
    if (room->size() > 0) outgrown_.push_back(std::move(*room));
    *room = std::move(larger);
  }

  void Check(cublasStatus_t status, const char* call) const {
    TL_CHECK(status == CUBLAS_STATUS_SUCCESS, "[product] {}: {}", call, status_text_(status));
  }

  template <typename Value>
  void Set(const Plan& plan, cublasLtMatmulDescAttributes_t attribute, Value value) const {
    Check(set_(plan.description, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }

  cublasLtMatrixLayout_t LayOut(DType dtype, int64_t rows, int64_t columns, int64_t stride,
                                int64_t batches, int64_t batch_stride) const {
    cublasLtMatrixLayout_t layout = nullptr;
    Check(lay_out_(&layout, TypeOf(dtype), static_cast<uint64_t>(columns),
                   static_cast<uint64_t>(rows), stride),
          "cublasLtMatrixLayoutCreate");
    if (batches > 1) {
      const auto count = static_cast<int32_t>(batches);
      Check(set_layout_(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
            "cublasLtMatrixLayoutSetAttribute");
      Check(set_layout_(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                        sizeof(batch_stride)),
            "cublasLtMatrixLayoutSetAttribute");
    }
    return layout;
  }

  cublasLtMatrixLayout_t LayOut(const DeviceMatrix& matrix, int64_t rows, int64_t columns,
                                int64_t batches) const {
    if (matrix.transposed) std::swap(rows, columns);
    return LayOut(matrix.dtype, rows, columns, matrix.stride, batches, matrix.batch_stride);
  }

  const Plan& PlanFor(const Gemm& gemm) {
    const Key key = KeyOf(gemm);
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    TL_CHECK(gemm.a.dtype == gemm.b.dtype, "[product] got {} times {}, wants one type",
             Name(gemm.a.dtype), Name(gemm.b.dtype));
    Plan plan;
    try {
      Describe(gemm, &plan);
      ChooseAlgorithm(gemm, &plan);
      if (gemm.like_m > 0) MakeAlike(gemm, &plan);
    } catch (...) {
      Drop(plan);
      throw;
    }
    return plans_.emplace(key, plan).first->second;
  }

  void Describe(const Gemm& gemm, Plan* plan) const {
    const bool tf32 = gemm.a.dtype == DType::kFloat32 && gemm.fp32 == Fp32Product::kTf32;
    Check(describe_(&plan->description, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                    CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    Set(*plan, CUBLASLT_MATMUL_DESC_TRANSA, gemm.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(*plan, CUBLASLT_MATMUL_DESC_TRANSB, gemm.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (gemm.bias) {
      Set(*plan, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      Set(*plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, gemm.bias);
    }
    if (gemm.processors > 0) {
      Set(*plan, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, gemm.processors);
    }
    plan->a = LayOut(gemm.a, gemm.m, gemm.k, gemm.batches);
    plan->b = LayOut(gemm.b, gemm.k, gemm.n, gemm.batches);
    plan->c =
        LayOut(gemm.c_dtype, gemm.m, gemm.n, gemm.c_stride, gemm.batches, gemm.c_batch_stride);
  }

  template <typename Value>
  Value SettingOf(const cublasLtMatmulAlgo_t& algorithm,
                  cublasLtMatmulAlgoConfigAttributes_t attribute) const {
    Value value{};
    size_t written = 0;
    Check(setting_(&algorithm, attribute, &value, sizeof(value), &written),
          "cublasLtMatmulAlgoConfigGetAttribute");
    return value;
  }

  // Sums that are not split are added up in the order of the inner axis, whatever the tiles.
  bool SplitsSums(const cublasLtMatmulAlgo_t& algorithm) const {
    return SettingOf<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1 ||
           SettingOf<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) !=
               CUBLASLT_REDUCTION_SCHEME_NONE;
  }

  void MakeAlike(const Gemm& gemm, Plan* plan) {
    Gemm other = gemm;
    other.m = std::exchange(other.like_m, 0);
    other.processors = 0;
    const Plan& known = PlanFor(other);
    if (!SplitsSums(plan->algorithm) && !SplitsSums(known.algorithm)) return;
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t status = check_algorithm_(handle_, plan->description, plan->b, plan->a,
                                                   plan->c, plan->c, &known.algorithm, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found.state != CUBLAS_STATUS_SUCCESS) return;
    plan->algorithm = known.algorithm;
    plan->workspace = static_cast<int64_t>(found.workspaceSize);
  }

  void ChooseAlgorithm(const Gemm& gemm, Plan* plan) const {
    cublasLtMatmulPreference_t preference = nullptr;
    Check(prefer_(&preference), "cublasLtMatmulPreferenceCreate");
    const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                          decltype(drop_preference_)>
        owner(preference, drop_preference_);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      Check(set_preference_(preference, attribute, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           static_cast<size_t>(MostWorkspaceBytes(BytesOf(gemm), gemm.a.dtype)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
           static_cast<uint32_t>(AlignmentOf(gemm.b.data)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
           static_cast<uint32_t>(AlignmentOf(gemm.a.data)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(AlignmentOf(gemm.c)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(AlignmentOf(gemm.c)));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = choose_(handle_, plan->description, plan->b, plan->a, plan->c,
                                          plan->c, preference, 1, &found, &count);
    TL_CHECK(status == CUBLAS_STATUS_SUCCESS && count == 1,
             "[product] cuBLASLt has no algorithm for [{}, {}] x [{}, {}], {} to {}: {}", gemm.m,
             gemm.k, gemm.k, gemm.n, Name(gemm.a.dtype), Name(gemm.c_dtype), status_text_(status));
    plan->algorithm = found.algo;
    plan->workspace = static_cast<int64_t>(found.workspaceSize);
  }

  void Drop(const Plan& plan) const {
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
      if (layout) drop_layout_(layout);
    }
    if (plan.description) forget_(plan.description);
  }

  SharedLibrary library_;
  std::array<DeviceBuffer, kWorkspaces> workspaces_;
  std::vector<DeviceBuffer> outgrown_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
  decltype(&cublasLtCreate) create_ = nullptr;
  decltype(&cublasLtDestroy) destroy_ = nullptr;
  decltype(&cublasLtGetStatusString) status_text_ = nullptr;
  decltype(&cublasLtMatmulDescCreate) describe_ = nullptr;
  decltype(&cublasLtMatmulDescDestroy) forget_ = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_ = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) lay_out_ = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) drop_layout_ = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout_ = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) prefer_ = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) drop_preference_ = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference_ = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose_ = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm_ = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) setting_ = nullptr;
  decltype(&cublasLtMatmul) multiply_ = nullptr;
};

GemmRunner::GemmRunner() : library_(std::make_unique<Library>()) {}
GemmRunner::~GemmRunner() = default;
GemmRunner::GemmRunner(GemmRunner&&) noexcept = default;
GemmRunner& GemmRunner::operator=(GemmRunner&&) noexcept = default;

int64_t GemmRunner::workspace_bytes() const {
  return library_->workspace_bytes();
}

bool GemmRunner::has_outgrown_workspaces() const {
  return library_->has_outgrown();
}

void GemmRunner::DropOutgrownWorkspaces() {
  library_->DropOutgrown();
}

void GemmRunner::Run(const Gemm& gemm, cudaStream_t stream, size_t workspace) {
  if (gemm.m == 0 || gemm.n == 0 || gemm.batches == 0) return;
  static const bool clear_first = std::getenv(kClearProductsVariable) != nullptr;
  const bool writes_all = !gemm.accumulate;
  if (gemm.k > 0) {
    if (clear_first && writes_all) ClearResult(gemm, stream);
    return library_->Run(gemm, stream, workspace);
  }
  TL_CHECK(!gemm.bias, "[product] a product over an empty axis takes no bias");
  if (writes_all) ClearResult(gemm, stream);
}

}  // namespace turbolstm::cuda
