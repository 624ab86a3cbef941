#include "ops/pointwise/testing/device_rows_model_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bfloat16.h"
#include "graph/walk.h"
#include "ops/pointwise/kernel.h"

namespace turbolstm::cuda {
namespace {

constexpr unsigned char kUntouched = 0xA5;

uint32_t EncodeHalf(float value) {
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  // Units in the last place are 2^(exponent - 10), and 2^-24 below 2^-14.
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -14, -14);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign | ((static_cast<uint32_t>(exponent + 14) << 10) + units);
}

float DecodeHalf(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31u);
  const auto fraction = static_cast<float>(bits & 0x3ffu);
  float value = exponent == 0    ? std::ldexp(fraction, -24)
                : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                 : std::ldexp(1024.0f + fraction, exponent - 25);
  return (bits & 0x8000u) ? -value : value;
}

}  // namespace

uint32_t Encode(DType dtype, float value) {
  if (dtype == DType::kFloat32) return std::bit_cast<uint32_t>(value);
  return dtype == DType::kBFloat16 ? BFloat16(value).bits : EncodeHalf(value);
}

float Decode(DType dtype, uint32_t bits) {
  if (dtype == DType::kFloat32) return std::bit_cast<float>(bits);
  return dtype == DType::kBFloat16 ? std::bit_cast<float>(bits << 16) : DecodeHalf(bits);
}

RowImage::RowImage(DType dtype, int64_t rows, int64_t width, int64_t gap)
    : dtype_(dtype), rows_(rows), width_(width), gap_(gap) {
  bytes_.assign(static_cast<size_t>(rows * row_bytes()), kUntouched);
}

float RowImage::At(int64_t row, int64_t j) const {
  uint32_t bits = 0;
  std::memcpy(&bits, bytes_.data() + Offset(row, j), SizeOf(dtype_));
  return Decode(dtype_, bits);
}

void RowImage::Set(int64_t row, int64_t j, float value) {
  const uint32_t bits = Encode(dtype_, value);
  std::memcpy(bytes_.data() + Offset(row, j), &bits, SizeOf(dtype_));
}

int64_t ModelRun::OutputRow(const ModelOutput& output, int64_t t, int64_t b) const {
  if (output.kind == RowKind::kShared) return 0;
  return output.kind == RowKind::kBatch ? b : t % output.period * batch + b;
}

bool ModelRun::IsPadding(int64_t t, int64_t b) const {
  return range.padded && !lengths.empty() && t >= lengths[static_cast<size_t>(b)];
}

ModelRun::Found ModelRun::Find(const ModelOperand& operand, int64_t t, int64_t b) const {
  const auto row_at = [&](int64_t step) -> Found {
    if (operand.kind == RowKind::kShared) return {operand.image, 0};
    if (operand.kind == RowKind::kBatch) return {operand.image, b};
    return {operand.image, step % operand.period * batch + b};
  };
  if (operand.delay == 0) return row_at(t);
  const int64_t length = lengths.empty() ? steps : lengths[static_cast<size_t>(b)];
  // An adjoint edge walks against its reader.
  const bool forward = (operand.direction > 0) != operand.adjoint;
  const Walk walk(length, forward ? Direction::kForward : Direction::kReverse,
                  resets.empty() ? nullptr : resets.data() + b, batch);
  const int64_t position = walk.Position(t);
  const Link link = operand.adjoint ? walk.ReadAhead(position, operand.delay)
                                    : walk.Read(position, operand.delay);
  switch (link.kind) {
    case Link::Kind::kStep:
      return row_at(link.index);
    case Link::Kind::kInit:
      return {operand.init, b * operand.init_rows + link.index * operand.init_step_rows};
    case Link::Kind::kNothing:
      break;
  }
  return {};
}

void ModelRun::RunRow(int64_t t, int64_t b) {
  const size_t outputs_count = outputs.size();
  std::vector<std::vector<double>> in(inputs.size()), out(outputs_count);
  std::vector<PointwiseSlot> in_slots, out_slots;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputKind kind = typed.program.inputs[i];
    const bool one = kind == InputKind::kColumn || kind == InputKind::kScalar;
    const Found found = IsPadding(t, b) ? Found() : Find(inputs[i], t, b);
    in[i].assign(static_cast<size_t>(one ? 1 : n), 0.0);
    for (size_t j = 0; found.image >= 0 && j < in[i].size(); ++j) {
      in[i][j] = images[static_cast<size_t>(found.image)].At(found.row, static_cast<int64_t>(j));
    }
    in_slots.push_back({in[i].data(), n, DType::kFloat64});
  }
  for (std::vector<double>& values : out) {
    values.assign(static_cast<size_t>(n), 0.0);
    out_slots.push_back({values.data(), n, DType::kFloat64});
  }
  if (!IsPadding(t, b)) {
    RunPointwiseReference(typed.program, {1, n, in_slots.data(), out_slots.data()});
  }
  for (size_t i = 0; i < outputs_count; ++i) {
    RowImage& image = images[static_cast<size_t>(outputs[i].image)];
    for (int64_t j = 0; j < n; ++j) {
      image.Set(OutputRow(outputs[i], t, b), j, static_cast<float>(out[i][static_cast<size_t>(j)]));
    }
  }
}

void ModelRun::Run() {
  for (int64_t s = 0; s < range.steps; ++s) {
    const int64_t t = range.time_begin + (reverse ? range.steps - 1 - s : s);
    for (int64_t b = 0; b < batch; ++b) RunRow(t, b);
  }
}

namespace {

TEST(DeviceRowsModel, NarrowTypesRoundToNearestEven) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = Decode(dtype, bits);
      if (!std::isnan(value)) {
        ASSERT_EQ(Encode(dtype, value), bits) << Name(dtype) << " " << value;
      }
    }
    EXPECT_TRUE(std::isnan(Decode(dtype, Encode(dtype, NAN))));
  }
  EXPECT_EQ(Encode(DType::kFloat16, 1 + 0x1p-11f), 0x3c00u);
  EXPECT_EQ(Encode(DType::kFloat16, 1 + 0x3p-11f), 0x3c02u);
  EXPECT_EQ(Encode(DType::kFloat16, -65519.0f), 0xfbffu);
  EXPECT_EQ(Encode(DType::kFloat16, 65520.0f), 0x7c00u);
  EXPECT_EQ(Encode(DType::kFloat16, 0x1p-25f), 0u);
  EXPECT_EQ(Encode(DType::kFloat16, 0x3p-26f), 1u);
}

}  // namespace
}  // namespace turbolstm::cuda
