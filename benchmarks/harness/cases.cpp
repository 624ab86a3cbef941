#include "harness/cases.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace turbolstm::bench {
namespace {

std::string NameOf(const Case& c) {
  return fmt::format("{}_T{}_B{}_I{}_H{}_L{}{}{}", c.cell, c.T, c.B, c.I, c.H, c.L,
                     c.bidirectional ? "_bi" : "", c.uniform_lengths ? "_uniform" : "");
}

Case SizesOf(const nlohmann::json& shape) {
  Case c;
  c.T = shape.at("T");
  c.B = shape.at("B");
  c.I = shape.at("I");
  c.H = shape.at("H");
  c.L = shape.at("L");
  return c;
}

template <typename Read>
std::vector<Case> ReadFrom(const std::filesystem::path& path, Read read) {
  std::ifstream file(path);
  TL_CHECK(file.good(), "[{}] cannot be read", path.string());
  std::vector<Case> cases;
  try {
    read(nlohmann::json::parse(file), &cases);
  } catch (const nlohmann::json::exception& error) {
    Fail("[{}] {}", path.string(), error.what());
  }
  return cases;
}

}  // namespace

std::vector<int64_t> Case::Lengths() const {
  std::vector<int64_t> lengths(static_cast<size_t>(B), T);
  if (!uniform_lengths) return lengths;
  // Multiples of the golden ratio modulo 1 spread evenly for every B.
  constexpr uint32_t kGoldenRatio = 2654435769u;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const uint64_t fraction = static_cast<uint32_t>(b * kGoldenRatio);
    lengths[b] = T - static_cast<int64_t>((fraction * static_cast<uint64_t>(T)) >> 32);
  }
  return lengths;
}

double Case::ForwardGflop() const {
  const std::vector<int64_t> lengths = Lengths();
  const double steps =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
  const double gates = cell == "lstm" || cell == "imdb" ? 4 : cell == "gru" ? 3 : 1;
  double per_step = 0;
  for (int64_t layer = 0; layer < L; ++layer) {
    const int64_t inputs = layer == 0 ? I : H * directions();
    per_step += static_cast<double>(directions()) * 2 * gates * static_cast<double>(H) *
                static_cast<double>(inputs + H);
  }
  return steps * per_step * 1e-9;
}

std::vector<Case> ReadCases(const std::filesystem::path& path) {
  return ReadFrom(path, [](const nlohmann::json& document, std::vector<Case>* cases) {
    const nlohmann::json every = document.value("cells", nlohmann::json::array({""}));
    for (const std::string cell : every) {
      for (const auto& shape : document.at("shapes")) {
        Case c = SizesOf(shape);
        c.cell = shape.value("cell", cell);
        c.bidirectional = shape.value("bidirectional", false);
        c.uniform_lengths = shape.value("lengths", "full") == "uniform";
        c.name = NameOf(c);
        cases->push_back(std::move(c));
      }
    }
  });
}

std::vector<Case> ReadModels(const std::filesystem::path& path) {
  return ReadFrom(path, [](const nlohmann::json& document, std::vector<Case>* cases) {
    for (const auto& shape : document.value("models", nlohmann::json::array())) {
      Case c = SizesOf(shape);
      c.model = shape.at("model");
      c.cell = c.model;
      c.vocabulary = shape.at("vocabulary");
      c.classes = shape.at("classes");
      c.name = NameOf(c);
      cases->push_back(std::move(c));
    }
  });
}

}  // namespace turbolstm::bench
