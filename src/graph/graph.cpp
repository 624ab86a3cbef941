#include "graph/graph.h"

#include <array>

#include "base/error.h"

namespace turbolstm {
namespace {

struct NamedOp {
  Op op;
  OpTraits traits;
};

// name, arity, pointwise, per_step, matrix
constexpr std::array kOps = {
    NamedOp{Op::kInput, {"input", 0, false, true, false}},
    NamedOp{Op::kParameter, {"parameter", 0, false, true, false}},
    NamedOp{Op::kConstant, {"constant", 0, false, true, false}},
    NamedOp{Op::kRandomMask, {"random_mask", 0, false, true, false}},
    NamedOp{Op::kLengths, {"lengths", 0, false, true, false}},
    NamedOp{Op::kRowCount, {"row_count", 0, false, true, false}},
    NamedOp{Op::kIdentity, {"identity", 1, true, true, false}},
    NamedOp{Op::kAdd, {"add", -1, true, true, false}},
    NamedOp{Op::kSub, {"sub", 2, true, true, false}},
    NamedOp{Op::kMul, {"mul", 2, true, true, false}},
    NamedOp{Op::kDiv, {"div", 2, true, true, false}},
    NamedOp{Op::kMax, {"max", 2, true, true, false}},
    NamedOp{Op::kMin, {"min", 2, true, true, false}},
    NamedOp{Op::kNeg, {"neg", 1, true, true, false}},
    NamedOp{Op::kSigmoid, {"sigmoid", 1, true, true, false}},
    NamedOp{Op::kTanh, {"tanh", 1, true, true, false}},
    NamedOp{Op::kRelu, {"relu", 1, true, true, false}},
    NamedOp{Op::kSoftplus, {"softplus", 1, true, true, false}},
    NamedOp{Op::kLogSigmoid, {"log_sigmoid", 1, true, true, false}},
    NamedOp{Op::kExp, {"exp", 1, true, true, false}},
    NamedOp{Op::kLog, {"log", 1, true, true, false}},
    NamedOp{Op::kSqrt, {"sqrt", 1, true, true, false}},
    NamedOp{Op::kReciprocal, {"reciprocal", 1, true, true, false}},
    NamedOp{Op::kAbs, {"abs", 1, true, true, false}},
    NamedOp{Op::kSin, {"sin", 1, true, true, false}},
    NamedOp{Op::kCos, {"cos", 1, true, true, false}},
    NamedOp{Op::kGreater, {"greater", 2, true, true, false}},
    NamedOp{Op::kSelect, {"select", 3, true, true, false}},
    NamedOp{Op::kMatMul, {"matmul", 2, false, true, true}},
    NamedOp{Op::kMatMulTransposed, {"matmul_transposed", 2, false, true, true}},
    NamedOp{Op::kOuter, {"outer", 2, false, false, false}},
    NamedOp{Op::kProduct, {"product", 2, false, true, false}},
    NamedOp{Op::kTranspose, {"transpose", 1, false, true, false}},
    NamedOp{Op::kSlice, {"slice", 1, false, true, false}},
    NamedOp{Op::kPad, {"pad", 1, false, true, false}},
    NamedOp{Op::kConcat, {"concat", -1, false, true, false}},
    NamedOp{Op::kRowSum, {"row_sum", 1, false, true, false}},
    NamedOp{Op::kSumTime, {"sum_time", 1, false, false, false}},
    NamedOp{Op::kSumRows, {"sum_rows", 1, false, false, false}},
    NamedOp{Op::kFirstMaxMask, {"first_max_mask", 1, false, false, false}},
    NamedOp{Op::kFinal, {"final", 1, false, false, false}},
    NamedOp{Op::kFinalGrad, {"final_grad", 1, false, false, false}},
    NamedOp{Op::kFinalInitGrad, {"final_init_grad", 1, false, false, false}},
    NamedOp{Op::kInitGrad, {"init_grad", 1, false, false, false}},
    NamedOp{Op::kGather, {"gather", 2, false, true, false}},
    NamedOp{Op::kScatterAdd, {"scatter_add", 2, false, false, false}},
    NamedOp{Op::kOneHot, {"one_hot", 1, false, true, false}},
    NamedOp{Op::kSoftmax, {"softmax", 1, false, true, false}},
    NamedOp{Op::kCrossEntropy, {"cross_entropy", 2, false, true, false}},
};

constexpr bool InEnumOrder() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(InEnumOrder());

}  // namespace

NodeId Graph::Add(Node node) {
  TL_CHECK(node.name.empty() || Find(node.name) == kNoNode, "[graph] two nodes are named '{}'",
           node.name);
  nodes_.push_back(std::move(node));
  return size() - 1;
}

void Graph::AddOutput(std::string name, NodeId id) {
  TL_CHECK(FindOutput(name) == kNoNode, "[graph] two outputs are named '{}'", name);
  TL_CHECK(id >= 0 && id < size(), "[graph] output '{}' names node {} of {}", name, id, size());
  outputs_.emplace_back(std::move(name), id);
}

NodeId Graph::Find(std::string_view name) const {
  for (NodeId id = 0; id < size(); ++id) {
    if (node(id).name == name) return id;
  }
  return kNoNode;
}

NodeId Graph::FindOutput(std::string_view name) const {
  for (const auto& [output, id] : outputs_) {
    if (output == name) return id;
  }
  return kNoNode;
}

std::string Graph::Label(NodeId id) const {
  const Node& n = node(id);
  return n.name.empty() ? fmt::format("{}#{}", Traits(n.op).name, id) : n.name;
}

const OpTraits& Traits(Op op) {
  return kOps[static_cast<size_t>(op)].traits;
}

Op OpNamed(std::string_view name) {
  for (const NamedOp& entry : kOps) {
    if (entry.traits.name == name) return entry.op;
  }
  Fail("[graph] there is no operator '{}'", name);
}

std::string_view Name(Domain domain) {
  switch (domain) {
    case Domain::kStatic:
      return "static";
    case Domain::kBatch:
      return "batch";
    case Domain::kStep:
      return "step";
  }
  Fail("[graph] unknown domain {}", static_cast<int>(domain));
}

int64_t ElementCount(const std::vector<int64_t>& features) {
  int64_t count = 1;
  for (const int64_t n : features) count *= n;
  return count;
}

}  // namespace turbolstm
