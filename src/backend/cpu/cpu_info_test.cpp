#include "backend/cpu/cpu_info.h"

#include <gtest/gtest.h>

namespace turbolstm {
namespace {

// Two sockets, one core each, two hardware threads a core.
constexpr std::string_view kTwoSockets =
    "processor\t: 0\nmodel name\t: Example 9000\nphysical id\t: 0\ncore id\t\t: 0\n"
    "flags\t\t: fpu avx2 fma avx512f avx512dq avx512bw avx512vl avx512_bf16\n\n"
    "processor\t: 1\nmodel name\t: Example 9000\nphysical id\t: 0\ncore id\t\t: 0\n\n"
    "processor\t: 2\nmodel name\t: Example 9000\nphysical id\t: 1\ncore id\t\t: 0\n\n"
    "processor\t: 3\nmodel name\t: Example 9000\nphysical id\t: 1\ncore id\t\t: 0";

TEST(ParseCpuInfo, CountsCoresOfAllSockets) {
  const CpuInfo info = ParseCpuInfo(kTwoSockets);
  EXPECT_EQ(info.name, "Example 9000");
  EXPECT_EQ(info.cores, 2);
  EXPECT_EQ(info.simd, "AVX-512 + BF16");
}

TEST(ParseCpuInfo, NamesTheWidestUsableSimdLevel) {
  EXPECT_EQ(ParseCpuInfo("flags : avx512f avx512dq avx512bw avx512vl").simd, "AVX-512");
  EXPECT_EQ(ParseCpuInfo("flags : avx512f avx2 fma").simd, "AVX2");
  EXPECT_EQ(ParseCpuInfo("flags : avx2").simd, "portable");
  EXPECT_EQ(ParseCpuInfo("flags : myavx2 fma").simd, "portable");
}

TEST(ParseCpuInfo, TakesTextWithoutTheFields) {
  for (const std::string_view text : {"", "\n\n", "Features : asimd", ":", "flags :"}) {
    const CpuInfo info = ParseCpuInfo(text);
    EXPECT_EQ(info.name, "") << text;
    EXPECT_EQ(info.simd, "portable") << text;
    EXPECT_EQ(info.cores, 0) << text;
  }
}

TEST(ParseMemTotal, ReadsKibibytes) {
  EXPECT_EQ(ParseMemTotal("MemTotal:       24689376 kB\nMemFree: 1 kB\n"),
            uint64_t{24689376} * 1024);
  EXPECT_EQ(ParseMemTotal("MemFree: 1 kB"), 0u);
  EXPECT_EQ(ParseMemTotal("MemTotal: lots"), 0u);
}

}  // namespace
}  // namespace turbolstm
