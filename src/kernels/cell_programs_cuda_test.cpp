// Classifiers of built-in cells need no compiler at run time, whatever their sizes; needs no
// device.

#include "kernels/cell_programs_cuda.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "execution/device_lowering.h"
#include "execution/typed_programs_cuda.h"
#include "graph/autodiff.h"
#include "graph/passes/lower_transforms.h"
#include "kernels/cell_kernels.h"
#include "nn/classifier.h"
#include "nn/model.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

Graph ClassifierGraph(const ClassifierOptions& options, bool training) {
  Model model;
  BuildClassifier(model, options);
  Graph graph = model.graph();
  if (!training) return graph;
  LowerTransforms(&graph);
  std::vector<NodeId> wrt;
  for (const ParameterSpec& spec : model.parameters()) wrt.push_back(graph.Find(spec.name));
  const std::vector<NodeId> gradients =
      Gradients(&graph, {{graph.FindOutput("loss"), Ones(&graph)}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (gradients[i] == kNoNode) continue;
    graph.AddOutput("gradient." + model.parameters()[i].name, gradients[i]);
  }
  return graph;
}

TEST(CellProgramsCuda, RegisterWhereNoDeviceAnswers) {
  RegisterDeviceCellKernels();
  RegisterDeviceCellKernels();
}

TEST(CellProgramsCuda, HaveThoseOfClassifiers) {
  std::set<std::string> known;
  for (const TypedProgram& typed : CellPrograms()) known.insert(KernelKey(typed));
  for (const char* cell : {"lstm", "gru", "rnn_tanh"}) {
    for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kMax}) {
      for (const bool training : {false, true}) {
        for (const Precision precision : kPrecisions) {
          ClassifierOptions options;
          options.vocabulary = 50;
          options.embedding = 24;
          options.classes = 3;
          options.recurrent.cell = cell;
          options.recurrent.size.hidden = 40;
          options.recurrent.layers = 3;
          options.pooling = pooling;
          if (training) {
            options.embedding_dropout = 0.3;
            options.recurrent.dropout = 0.3;
            options.dropout = 0.3;
          }
          const LoweredGraph lowered =
              LowerForDevice(ClassifierGraph(options, training), precision);
          for (const TypedProgram& typed : TypedProgramsOf(lowered)) {
            EXPECT_TRUE(known.contains(KernelKey(typed)))
                << cell << " " << Name(precision) << (training ? " training: " : ": ")
                << KernelKey(typed);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace turbolstm::cuda
