#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plan/task.h"

namespace turbolstm {

// Programs for tests and benchmarks.

// Boxes anywhere in a few small buffers of [kTime, kRows, kColumns], some of them empty.
struct RandomTasks {
  static constexpr int kBuffers = 5;
  static constexpr int64_t kTime = 6, kRows = 4, kColumns = 3;

  explicit RandomTasks(uint64_t seed) : random(seed) {}

  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  }

  Access Box() {
    Access box;
    box.buffer = static_cast<int32_t>(Below(kBuffers));
    const auto interval = [this](int64_t extent, int64_t& begin, int64_t& end) {
      begin = Below(extent);
      end = begin + Below(std::min<int64_t>(extent - begin, 3) + 1);
      if (Below(3) > 0 && end == begin) ++end;
    };
    interval(kTime, box.time_begin, box.time_end);
    interval(kRows, box.row_begin, box.row_end);
    interval(kColumns, box.column_begin, box.column_end);
    return box;
  }

  std::vector<Task> Make(int64_t count) {
    std::vector<Task> tasks(static_cast<size_t>(count));
    for (size_t t = 0; t < tasks.size(); ++t) {
      tasks[t].name = "task" + std::to_string(t);
      tasks[t].cost = 1e-6 * static_cast<double>(Below(20));
      for (int64_t n = Below(4); n > 0; --n) tasks[t].reads.push_back(Box());
      for (int64_t n = Below(3); n > 0; --n) tasks[t].writes.push_back(Box());
    }
    return tasks;
  }

  std::mt19937_64 random;
};

// A stack of LSTM layers cut into blocks of time and tiles of rows: a task for the input's product
// and one for the loop, for each layer, block and tile; then, backward, the loop again, the input's
// gradient and the sum of the weights' gradient. 5 * layers * blocks * tiles tasks.
inline std::vector<Task> StackedLayers(int layers, int blocks, int tiles) {
  constexpr int64_t kSteps = 4, kTile = 16, kHidden = 128;
  std::vector<Task> tasks;
  int32_t buffers = 0;
  std::vector<int32_t> values{buffers++}, gates, weights, states, value_gradients{buffers++},
      gate_gradients, weight_gradients;
  for (int layer = 0; layer < layers; ++layer) {
    for (auto* list : {&values, &gates, &weights, &states, &value_gradients, &gate_gradients,
                       &weight_gradients}) {
      list->push_back(buffers++);
    }
  }
  const auto box = [](int32_t buffer, const Task& task, int64_t columns, bool step) {
    return Access{buffer,
                  step ? task.time_begin : 0,
                  step ? task.time_end : 1,
                  task.row_begin,
                  task.row_end,
                  0,
                  columns};
  };
  const auto add = [&](const char* name, int layer, int block, int tile, double cost,
                       std::vector<int32_t> step_reads, std::vector<int32_t> step_writes) -> Task& {
    Task task;
    task.name = std::string(name) + std::to_string(layer);
    task.time_begin = block * kSteps;
    task.time_end = task.time_begin + kSteps;
    task.row_begin = tile * kTile;
    task.row_end = task.row_begin + kTile;
    task.cost = cost;
    for (const int32_t b : step_reads) task.reads.push_back(box(b, task, kHidden, true));
    for (const int32_t b : step_writes) task.writes.push_back(box(b, task, kHidden, true));
    tasks.push_back(std::move(task));
    return tasks.back();
  };
  const auto carry = [&](Task& task, int32_t state) {
    task.reads.push_back(box(state, task, kHidden, false));
    task.writes.push_back(box(state, task, kHidden, false));
  };
  const Access whole{0, 0, 1, 0, 4 * kHidden, 0, kHidden};  // a weight
  const auto with_weight = [&](int32_t buffer) {
    Access access = whole;
    access.buffer = buffer;
    return access;
  };
  for (int layer = 0; layer < layers; ++layer) {
    for (int block = 0; block < blocks; ++block) {
      for (int tile = 0; tile < tiles; ++tile) {
        add("project", layer, block, tile, 8e-6, {values[layer]}, {gates[layer]})
            .reads.push_back(with_weight(weights[layer]));
        Task& loop = add("loop", layer, block, tile, 12e-6, {gates[layer]},
                         {values[layer + 1], gates[layer]});
        loop.reads.push_back(with_weight(weights[layer]));
        carry(loop, states[layer]);
      }
    }
  }
  for (int layer = layers - 1; layer >= 0; --layer) {
    for (int block = blocks - 1; block >= 0; --block) {
      for (int tile = 0; tile < tiles; ++tile) {
        Task& loop = add("loop_gradient", layer, block, tile, 12e-6,
                         {gates[layer], value_gradients[layer + 1]}, {gate_gradients[layer]});
        carry(loop, states[layer]);
        add("input_gradient", layer, block, tile, 8e-6, {gate_gradients[layer]},
            {value_gradients[layer]});
        Task& sum = add("weight_gradient", layer, block, tile, 8e-6,
                        {gate_gradients[layer], values[layer]}, {});
        sum.reads.push_back(with_weight(weight_gradients[layer]));
        sum.writes.push_back(with_weight(weight_gradients[layer]));
      }
    }
  }
  return tasks;
}

}  // namespace turbolstm
