#include "cells/parameter_spec.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/philox.h"
#include "graph/graph.h"

namespace turbolstm {
namespace {

// FNV-1a.
uint32_t HashOf(const std::string& name) {
  uint32_t hash = 0x811C9DC5u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return hash;
}

float Draw(const Initializer& init, const RandomSite& site, uint64_t index) {
  switch (init.kind) {
    case Initializer::Kind::kConstant:
      return static_cast<float>(init.first);
    case Initializer::Kind::kUniform: {
      const double share = site.Uniform(index);
      return static_cast<float>(init.first + share * (init.second - init.first));
    }
    case Initializer::Kind::kNormal: {
      // Box and Muller; 1 - u is never zero.
      const double radius = std::sqrt(-2.0 * std::log(1.0 - site.Uniform(2 * index)));
      const double angle = 2.0 * std::numbers::pi * site.Uniform(2 * index + 1);
      return static_cast<float>(init.first + init.second * radius * std::cos(angle));
    }
  }
  return 0;
}

}  // namespace

Initializer Initializer::UniformFan(int64_t n) {
  const double bound = n > 0 ? 1.0 / std::sqrt(static_cast<double>(n)) : 0.0;
  return Uniform(-bound, bound);
}

std::vector<float> DrawParameter(const ParameterSpec& spec, uint64_t seed) {
  // No training step has this number, so masks and initial values never share draws.
  const RandomSite site{seed, std::numeric_limits<uint32_t>::max(), HashOf(spec.name)};
  const auto count = static_cast<uint64_t>(ElementCount(spec.shape));
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = Draw(spec.init, site, i);
  if (count == 0) return values;
  const uint64_t row = count / static_cast<uint64_t>(spec.shape.front());
  for (const ParameterSpec::Rows& rows : spec.rows) {
    const uint64_t begin = static_cast<uint64_t>(rows.begin) * row;
    const uint64_t end = begin + static_cast<uint64_t>(rows.size) * row;
    for (uint64_t i = begin; i < end; ++i) values[i] = Draw(rows.init, site, i);
  }
  return values;
}

}  // namespace turbolstm
