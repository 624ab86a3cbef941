// The text of CUDA kernels, and that it compiles; needs the run-time compiler, but no device.

#include "ops/pointwise/emitter_cuda.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/pointwise/nvrtc_cuda.h"
#include "ops/pointwise/testing/sample_programs.h"
#include "ops/pointwise/testing/typed_samples_cuda.h"

namespace turbolstm::cuda {
namespace {

// c = max(a, NaN) + b with constants that are awkward to write.
PointwiseProgram AwkwardConstants() {
  return {{InputKind::kElement},
          {0.1, -1e300, 1e300, std::nan("")},
          {{PointwiseOp::kMax, 0, 4},
           {PointwiseOp::kAdd, 5, 1},
           {PointwiseOp::kMin, 6, 2},
           {PointwiseOp::kMax, 7, 3}},
          {8, 1}};
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(EmitterCuda, WritesEveryKernelOnce) {
  const std::vector<NamedTypedProgram> programs{{"a", DealTypes(LstmForwardProgram(), 0)},
                                                {"b", DealTypes(LstmForwardProgram(), 0, true)}};
  const std::string source = EmitCudaSource(programs);
  EXPECT_EQ(Count(source, "extern \"C\" __global__"), 4u);
  for (const char* name : {" a_plain(", " a_plain4(", " a_general(", " b_time_loop("}) {
    EXPECT_EQ(Count(source, name), 1u) << name;
  }
  EXPECT_EQ(Count(source, "#include"), 0u);
  EXPECT_EQ(Count(source, "// " + KernelKey(programs[0].typed) + "\n"), 1u);
  EXPECT_EQ(EmitCudaSource(programs), source);
}

// LSTM's c as a state: linear in what it was.
TypedProgram WithScan(TypedProgram typed) {
  typed.scan_input = typed.scan_output = 4;
  return typed;
}

TEST(EmitterCuda, LinearLoopsHaveAPrefixToo) {
  const NamedTypedProgram named{"a", WithScan(DealTypes(LstmForwardProgram(), 0, true))};
  const std::string source = EmitCudaSource(std::span(&named, 1));
  EXPECT_EQ(Count(source, "extern \"C\" __global__"), 2u);
  EXPECT_EQ(Count(source, " a_scan("), 1u);
  EXPECT_EQ(Count(EmitCudaFile(std::span(&named, 1), "Register"),
                  "{reinterpret_cast<const void*>(&a_scan), nullptr, "
                  "reinterpret_cast<const void*>(&a_time_loop)}"),
            1u);
}

TEST(EmitterCuda, FileRegistersItsKernels) {
  const std::vector<NamedTypedProgram> programs{{"a", DealTypes(LstmForwardProgram(), 1)},
                                                {"b", DealTypes(LstmBackwardProgram(), 2, true)}};
  const std::string file = EmitCudaFile(programs, "RegisterThem");
  EXPECT_EQ(Count(file, "void RegisterThem() {"), 1u);
  EXPECT_EQ(Count(file, "\"" + KernelKey(programs[1].typed) + "\""), 1u);
  EXPECT_EQ(Count(file, "reinterpret_cast<const void*>(&a_plain4)"), 1u);
  EXPECT_EQ(Count(file, "reinterpret_cast<const void*>(&b_time_loop)"), 1u);
  EXPECT_EQ(Count(EmitCudaFile({}, "RegisterNone"), "kKernels"), 0u);
}

TEST(EmitterCuda, ConstantsAreExact) {
  const std::string source =
      EmitCudaSource(std::vector<NamedTypedProgram>{{"a", DealTypes(AwkwardConstants(), 0)}});
  EXPECT_EQ(Count(source, "= 0x1.99999ap-4f;"), 1u);
  EXPECT_EQ(Count(source, "= __int_as_float(0xff800000);"), 1u);
  EXPECT_EQ(Count(source, "= __int_as_float(0x7fc00000);"), 1u);
}

TEST(EmitterCuda, LeavesOutWhatNoOutputNeeds) {
  const PointwiseProgram program{{InputKind::kElement, InputKind::kElement},
                                 {0.5},
                                 {{PointwiseOp::kSin, 1}, {PointwiseOp::kExp, 0}},
                                 {4}};
  const std::string kernels =
      EmitCudaFile(std::vector<NamedTypedProgram>{{"a", DealTypes(program, 0)}}, "Register");
  EXPECT_EQ(Count(kernels, "Sin("), 0u);
  EXPECT_EQ(Count(kernels, "args.in[1]"), 0u);
  EXPECT_EQ(Count(kernels, "Exp("), 1u);
}

TEST(EmitterCuda, KeySaysEverything) {
  TypedProgram typed{.program = {{InputKind::kElement}, {}, {{PointwiseOp::kNeg, 0}}, {1}},
                     .inputs = {DType::kBFloat16},
                     .outputs = {DType::kFloat32}};
  EXPECT_EQ(KernelKey(typed), "in e; 1=neg 0; out 1; bfloat16 -> float32");
  typed.time_loop = true;
  EXPECT_EQ(KernelKey(typed), "in e; 1=neg 0; out 1; bfloat16 -> float32; time loop");
  typed.scan_input = typed.scan_output = 0;
  EXPECT_EQ(KernelKey(typed), "in e; 1=neg 0; out 1; bfloat16 -> float32; time loop; 0 from 0");
}

void ExpectError(const std::string& text, const TypedProgram& typed) {
  try {
    Validate(typed);
    FAIL() << "no error, wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), text);
  }
}

TEST(EmitterCuda, ErrorsNameTheTypes) {
  const PointwiseProgram copy{{InputKind::kElement}, {}, {}, {0}};
  ExpectError("[pointwise] got types of 0 inputs, wants 1", {copy, {}, {DType::kFloat32}});
  ExpectError("[pointwise] got types of 2 outputs, wants 1",
              {copy, {DType::kFloat32}, {DType::kFloat32, DType::kFloat32}});
  ExpectError("[pointwise] got the type int32, wants float32, bfloat16 or float16",
              {copy, {DType::kInt32}, {DType::kFloat32}});
  ExpectError("[pointwise] input 1 of 1 and output 0 of 1 are no state of a loop over time",
              {copy, {DType::kFloat32}, {DType::kFloat32}, true, 1, 0});
  EXPECT_THROW(EmitCudaSource(std::vector<NamedTypedProgram>{{"a b", DealTypes(copy, 0)}}), Error);
  EXPECT_THROW(EmitCudaSource(std::vector<NamedTypedProgram>{{"a", DealTypes(copy, 0)},
                                                             {"a", DealTypes(copy, 1)}}),
               Error);
}

// The compiler is part of the toolkit that such a build needs, so it must be there.
TEST(EmitterCuda, EveryProgramCompiles) {
  std::vector<NamedTypedProgram> programs;
  const auto add = [&programs](const PointwiseProgram& program) {
    const size_t number = programs.size();
    programs.push_back({fmt::format("k{}", number), DealTypes(program, number, number % 4 == 3)});
  };
  add(LstmForwardProgram());
  add(LstmBackwardProgram());
  add(AwkwardConstants());
  programs.push_back({"scanned", WithScan(DealTypes(LstmForwardProgram(), 0, true))});
  add({{}, {1.5}, {}, {0}});
  add({{InputKind::kElement}, {}, {}, {0, 0}});
  for (uint64_t seed = 0; seed < 24; ++seed) add(RandomPointwiseProgram(seed).program);
  const std::vector<char> code = Nvrtc::Get().Compile(EmitCudaSource(programs), "sm_90a");
  ASSERT_GT(code.size(), 4u);
  EXPECT_EQ(std::string(code.data() + 1, 3), "ELF");
}

TEST(EmitterCuda, OlderArchitecturesCompileToo) {
  const std::vector<NamedTypedProgram> programs{{"a", DealTypes(LstmForwardProgram(), 1)}};
  EXPECT_FALSE(Nvrtc::Get().Compile(EmitCudaSource(programs), "sm_80").empty());
  EXPECT_FALSE(Nvrtc::Get().Compile(EmitCudaSource(programs), "sm_75").empty());
}

TEST(EmitterCuda, CompilerErrorsShowItsLog) {
  try {
    Nvrtc::Get().Compile("no source;", "sm_90");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pointwise.cu(1)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace turbolstm::cuda
