#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/bfloat16.h"
#include "base/error.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <typename T>
std::vector<T> ValuesOf(const NamedTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

std::string FileContent(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class SafetensorsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("turbolstm_safetensors_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(SafetensorsFileTest, RoundTripKeepsEverything) {
  const SafetensorsFile file{
      .tensors = {{"double", DType::kFloat64, {}, BytesOf<double>({1e300})},
                  {"float", DType::kFloat32, {2, 1}, BytesOf<float>({-0.0f, 3.0f})},
                  {"empty", DType::kInt32, {0, 7}, {}},
                  {"half", DType::kBFloat16, {3}, BytesOf<uint16_t>({1, 2, 3})}},
      .metadata = {{"epoch", "3"}, {"näme", "\"quoted\"\n"}}};
  WriteSafetensors(folder_ / "a", file);
  SafetensorsFile read = ReadSafetensors(folder_ / "a");
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), 4u);
  for (const NamedTensor& tensor : file.tensors) EXPECT_EQ(read.At(tensor.name), tensor);
}

TEST_F(SafetensorsFileTest, NoTensorsIsAFile) {
  WriteSafetensors(folder_ / "a", {});
  EXPECT_EQ(ReadSafetensors(folder_ / "a"), SafetensorsFile{});
}

TEST_F(SafetensorsFileTest, StoresEveryTensorAligned) {
  WriteSafetensors(folder_ / "a", {.tensors = {{"b", DType::kBFloat16, {1}, BytesOf<uint16_t>({1})},
                                               {"d", DType::kFloat64, {1}, BytesOf<double>({2})}},
                                   .metadata = {}});
  const std::string content = FileContent(folder_ / "a");
  double stored = 0;
  std::memcpy(&stored, content.data() + content.size() - 10, 8);
  EXPECT_EQ(stored, 2.0);
  EXPECT_EQ((content.size() - 10) % 8, 0u);
}

// The golden file comes from the reference package, see tests/golden/make_safetensors.py.
TEST_F(SafetensorsFileTest, ReadsAndReproducesAFileOfTheReferencePackage) {
  const fs::path golden = fs::path(TL_GOLDEN_DIR) / "safetensors_python.safetensors";
  const SafetensorsFile file = ReadSafetensors(golden);
  EXPECT_EQ(file.tensors.size(), 6u);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(ValuesOf<float>(file.At("weight")),
            (std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f}));
  EXPECT_EQ(file.At("weight").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.At("empty").shape, (std::vector<int64_t>{0, 5}));
  EXPECT_TRUE(file.At("scalar").shape.empty());
  EXPECT_EQ(ValuesOf<double>(file.At("scalar")), std::vector<double>{3.5});
  EXPECT_EQ(ValuesOf<int32_t>(file.At("ids")), (std::vector<int32_t>{-1, INT32_MAX}));
  EXPECT_EQ(ValuesOf<int64_t>(file.At("counter")), std::vector<int64_t>{int64_t{1} << 40});
  EXPECT_EQ(ValuesOf<uint16_t>(file.At("größe.half")),
            (std::vector<uint16_t>{BFloat16(1.0f).bits, BFloat16(-2.5f).bits}));

  WriteSafetensors(folder_ / "again", file);
  EXPECT_EQ(FileContent(folder_ / "again"), FileContent(golden));
}

TEST_F(SafetensorsFileTest, WriterRefusesWhatNoReaderWouldTake) {
  const auto write = [&](std::vector<NamedTensor> tensors) {
    WriteSafetensors(folder_ / "bad", {.tensors = std::move(tensors), .metadata = {}});
  };
  const NamedTensor good{"a", DType::kFloat32, {1}, BytesOf<float>({1})};
  EXPECT_THROW(write({good, good}), Error);
  EXPECT_THROW(write({{"__metadata__", DType::kFloat32, {1}, BytesOf<float>({1})}}), Error);
  EXPECT_THROW(write({{"a", DType::kFloat32, {2}, BytesOf<float>({1})}}), Error);
  EXPECT_THROW(write({{"a", DType::kFloat32, {-1}, {}}}), Error);
  EXPECT_THROW(write({{"\xff", DType::kFloat32, {1}, BytesOf<float>({1})}}), Error);
  EXPECT_FALSE(fs::exists(folder_ / "bad"));
}

TEST_F(SafetensorsFileTest, MissingFileAndFolderAreNamed) {
  for (const fs::path& path : {folder_ / "absent", folder_}) {
    try {
      ReadSafetensors(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
}

TEST_F(SafetensorsFileTest, EveryTruncationIsRefused) {
  WriteSafetensors(folder_ / "a", {.tensors = {{"x", DType::kFloat32, {2}, BytesOf<float>({1, 2})}},
                                   .metadata = {}});
  const std::string content = FileContent(folder_ / "a");
  for (size_t size = 0; size < content.size(); ++size) {
    std::ofstream(folder_ / "cut", std::ios::binary) << content.substr(0, size);
    EXPECT_THROW(ReadSafetensors(folder_ / "cut"), Error) << size;
  }
}

struct HostileCase {
  const char* name;
  std::string header;
  size_t data_size;
  const char* complaint;  // must occur in the error
};

std::string Prefixed(uint64_t length, const std::string& rest) {
  std::string content(8, '\0');
  std::memcpy(content.data(), &length, 8);
  return content + rest;
}

void ExpectRefused(const std::string& content, const std::string& complaint) {
  try {
    ParseSafetensors(std::as_bytes(std::span(content)), "hostile");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(complaint), std::string::npos) << text;
    EXPECT_NE(text.find("hostile"), std::string::npos) << text;
  }
}

class HostileHeader : public testing::TestWithParam<HostileCase> {};

TEST_P(HostileHeader, IsRefusedWithItsReason) {
  const HostileCase& hostile = GetParam();
  ExpectRefused(
      Prefixed(hostile.header.size(), hostile.header + std::string(hostile.data_size, '\0')),
      hostile.complaint);
}

std::string Entry(const std::string& name, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{}]}})", name, shape,
                     offsets);
}
std::string Header(const std::string& entries) {
  return "{" + entries + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Files, HostileHeader,
    testing::Values(
        HostileCase{"overlap", Header(Entry("a", "2", "0,8") + "," + Entry("b", "2", "4,12")), 12,
                    "overlap"},
        HostileCase{"same_bytes", Header(Entry("a", "2", "0,8") + "," + Entry("b", "2", "0,8")), 8,
                    "overlap"},
        HostileCase{"hole", Header(Entry("a", "1", "0,4") + "," + Entry("b", "1", "8,12")), 12,
                    "hole"},
        HostileCase{"hole_at_start", Header(Entry("a", "1", "4,8")), 8, "hole"},
        HostileCase{"short_data", Header(Entry("a", "2", "0,8")), 7, "the file holds 7"},
        HostileCase{"trailing_data", Header(Entry("a", "2", "0,8")), 9, "9 bytes of data"},
        HostileCase{"shape_not_bytes", Header(Entry("a", "3", "0,8")), 8, "wants 12"},
        HostileCase{"reversed_offsets", Header(Entry("a", "1", "4,0")), 4, "[4, 0)"},
        HostileCase{"huge_dimension", Header(Entry("a", "4611686018427387904", "0,0")), 0,
                    "exceeds 64 bits"},
        HostileCase{"overflowing_product",
                    Header(Entry("a", "4294967296,4294967296,4294967296", "0,0")), 0,
                    "exceeds 64 bits"},
        HostileCase{"dimension_beyond_signed", Header(Entry("a", "9223372036854775808", "0,0")), 0,
                    "2^63-1"},
        HostileCase{"dimension_beyond_64_bits", Header(Entry("a", "99999999999999999999", "0,0")),
                    0, "99999999999999999999"},
        HostileCase{"negative_dimension", Header(Entry("a", "-1", "0,0")), 0, "-1"},
        HostileCase{"fractional_dimension", Header(Entry("a", "1.5", "0,4")), 4, "1.5"},
        HostileCase{"negative_offset", Header(Entry("a", "1", "-4,0")), 0, "-4"},
        HostileCase{"one_offset", Header(Entry("a", "1", "4")), 4, "wants 2"},
        HostileCase{"three_offsets", Header(Entry("a", "1", "0,4,4")), 4, "wants 2"},
        HostileCase{"nested_shape", Header(Entry("a", "[1]", "0,4")), 4, "an array"},
        HostileCase{"duplicate_tensor",
                    Header(Entry("a", "1", "0,4") + "," + Entry("a", "1", "4,8")), 8, "'a' twice"},
        HostileCase{"duplicate_field",
                    R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
                    "'dtype' twice"},
        HostileCase{"duplicate_metadata", R"({"__metadata__":{"k":"1","k":"2"}})", 0, "'k' twice"},
        HostileCase{"metadata_not_text", R"({"__metadata__":{"k":1}})", 0, "wants a string"},
        HostileCase{"metadata_not_object", R"({"__metadata__":[]})", 0, "an array"},
        HostileCase{"unknown_dtype", R"({"a":{"dtype":"Q3","shape":[1],"data_offsets":[0,4]}})", 4,
                    "'Q3'"},
        HostileCase{"dtype_not_text", R"({"a":{"dtype":null,"shape":[1],"data_offsets":[0,4]}})", 4,
                    "null"},
        HostileCase{"no_dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "lacks 'dtype'"},
        HostileCase{"no_shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4,
                    "lacks 'shape'"},
        HostileCase{"no_offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4,
                    "lacks 'data_offsets'"},
        HostileCase{"unknown_field",
                    R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "'x'"},
        HostileCase{"tensor_not_object", R"({"a":7})", 0, "'a' has 7"},
        HostileCase{"not_utf8", "{\"\xff\":{}}", 0, "not valid JSON"},
        HostileCase{"not_json", "{nonsense}", 0, "not valid JSON"},
        HostileCase{"garbage_behind_json", "{}{}", 0, "not valid JSON"},
        HostileCase{"leading_space", " {}", 0, "does not begin with"},
        HostileCase{"array", "[]", 0, "does not begin with"},
        HostileCase{"empty_header", "", 0, "does not begin with"},
        HostileCase{"unclosed", "{", 0, "not valid JSON"},
        HostileCase{"deep_nesting", "{\"a\":" + std::string(100000, '['), 0, "an array"}),
    [](const auto& instance) { return instance.param.name; });

TEST(HostileLength, HeaderLargerThanTheFormatAllows) {
  ExpectRefused(Prefixed(100'000'001, "{}"), "at most 100000000");
  ExpectRefused(Prefixed(UINT64_MAX, "{}"), "at most 100000000");
}

TEST(HostileLength, HeaderLargerThanTheFile) {
  ExpectRefused(Prefixed(3, "{}"), "truncated");
}

TEST(HostileLength, FileTooShortForALength) {
  ExpectRefused("", "0 bytes");
  ExpectRefused("1234567", "7 bytes");
}

TEST(SafetensorsParse, AcceptsPaddingAndEmptyTensorsSharingAnOffset) {
  const std::string header = Header(Entry("b", "1", "0,4") + "," + Entry("a", "0", "0,0") + "," +
                                    Entry("c", "0,9", "4,4")) +
                             "   ";
  const std::string content = Prefixed(header.size(), header + "1234");
  const SafetensorsFile file = ParseSafetensors(std::as_bytes(std::span(content)), "x");
  EXPECT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.Find("absent"), nullptr);
  EXPECT_THROW(file.At("absent"), Error);
}

}  // namespace
}  // namespace turbolstm
