#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "backend/cuda/testing/gpu.h"
#include "base/error.h"
#include "execution/testing/scene_cuda.h"

namespace turbolstm::cuda {

class OperatorsCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    UseDevice(0);
  }

  // check(scene, n) at random shapes.
  template <typename Function>
  static void AtRandomShapes(Function check) {
    constexpr int kDraws = 48;
    std::mt19937 random(7);
    const auto pick = [&](std::initializer_list<int64_t> choices) {
      return choices.begin()[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(random)];
    };
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const int64_t steps = pick({0, 1, 2, 17});
      const int64_t batch = pick({0, 1, 2, 17});
      const int64_t n = pick({0, 1, 2, 17, 64, 1100});
      const Scene::Options options{pick({0, 1}) == 1, pick({0, 1}) == 1};
      SCOPED_TRACE(fmt::format("draw {}: T {} B {} n {} lengths {} resets {}", draw, steps, batch,
                               n, options.lengths, options.resets));
      Scene scene(draw, steps, batch, options);
      check(scene, n);
      if (HasFailure()) return;
    }
  }

  // Many rows, and many steps: not where TURBOLSTM_SMALL_TESTS is set, for tools that are slow.
  template <typename Function>
  static void AtLargeShapes(Function check) {
    struct Shape {
      int64_t steps, batch, n;
    };
    if (std::getenv("TURBOLSTM_SMALL_TESTS")) return;
    uint32_t seed = 100;
    for (const Shape& shape : {Shape{65536, 2, 1}, Shape{3, 70000, 3}, Shape{257, 256, 4}}) {
      SCOPED_TRACE(fmt::format("T {} B {} n {}", shape.steps, shape.batch, shape.n));
      Scene scene(seed++, shape.steps, shape.batch, {true, true});
      check(scene, shape.n);
      if (HasFailure()) return;
    }
  }
  template <typename Function>
  static void Everywhere(Function check) {
    AtRandomShapes(check);
    if (!HasFailure()) AtLargeShapes(check);
  }
};

inline OperatorCall Call(Op op, Domain domain, int64_t width,
                         std::vector<WideOperand> inputs = {}) {
  OperatorCall call;
  call.op = op;
  call.domain = domain;
  call.width = width;
  call.inputs = std::move(inputs);
  return call;
}

inline Domain AnyDomain(Scene& scene) {
  return scene.OneOf({Domain::kStep, Domain::kStep, Domain::kBatch});
}

}  // namespace turbolstm::cuda
