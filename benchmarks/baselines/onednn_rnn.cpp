// oneDNN's own LSTM and GRU primitives at the shapes of shapes.json: forward inference, and a
// training step (forward training, then backward to the weights and the input). Weights are brought
// into the primitive's preferred format before the timed loop, which flatters it: a real training
// step has to do that after every update. oneDNN knows no lengths, so ragged batches run over all T
// steps (variant "padded").
#include <omp.h>

#include <cmath>
#include <dnnl.hpp>
#include <unordered_map>

#include "base/error.h"
#include "harness/measure.h"
#include "harness/report.h"

namespace turbolstm::bench {
namespace {

using dnnl::memory;
using DataType = memory::data_type;
using Tag = memory::format_tag;
using Arguments = std::unordered_map<int, memory>;

// oneDNN 3 took the operation descriptors of version 2 out.
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc Describe(const dnnl::engine& engine, Args... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, args...);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), engine);
#endif
}

template <typename Primitive, typename Forward, typename... Args>
typename Primitive::primitive_desc DescribeBackward(const dnnl::engine& engine,
                                                    const Forward& forward, Args... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, args..., forward);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), engine, forward);
#endif
}

// Engine, stream and the memory of one measurement.
class Context {
 public:
  Context() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}
  const dnnl::engine& engine() const { return engine_; }

  memory Empty(const memory::desc& desc) { return memory(desc, engine_); }

  // Memory of `wanted` format with small pseudo-random numbers; `plain` has the same sizes.
  memory Filled(const memory::dims& dims, Tag plain, const memory::desc& wanted, float scale) {
    memory source({dims, DataType::f32, plain}, engine_);
    int64_t count = 1;
    for (const auto size : dims) count *= size;
    float* data = source.map_data<float>();
    for (int64_t i = 0; i < count; ++i) {
      data[i] = scale * std::sin(static_cast<float>(i % 9973) * 1.7f);
    }
    source.unmap_data(data);
    memory target(wanted, engine_);
    dnnl::reorder(source, target).execute(stream_, source, target);
    stream_.wait();
    return target;
  }

  memory Reordered(memory source, const memory::desc& wanted) {
    if (source.get_desc() == wanted) return source;
    memory target(wanted, engine_);
    dnnl::reorder(source, target).execute(stream_, source, target);
    stream_.wait();
    return target;
  }

  void Run(const dnnl::primitive& primitive, const Arguments& arguments) {
    primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

// Sizes and formats of one case. `any` leaves the weights' format to the primitive.
struct Formats {
  Formats(const Case& c, DataType data, int64_t gates, int64_t biases)
      : direction(c.bidirectional ? dnnl::rnn_direction::bidirectional_concat
                                  : dnnl::rnn_direction::unidirectional_left2right),
        x_dims{c.T, c.B, c.I},
        weight_ih_dims{c.L, c.directions(), c.I, gates, c.H},
        weight_hh_dims{c.L, c.directions(), c.H, gates, c.H},
        bias_dims{c.L, c.directions(), biases, c.H},
        y_dims{c.T, c.B, c.directions() * c.H},
        x(x_dims, data, Tag::tnc),
        weight_ih(weight_ih_dims, data, Tag::any),
        weight_hh(weight_hh_dims, data, Tag::any),
        bias(bias_dims, DataType::f32, Tag::ldgo),
        y(y_dims, data, Tag::tnc),
        diff_x(x_dims, DataType::f32, Tag::tnc),
        diff_weight_ih(weight_ih_dims, DataType::f32, Tag::any),
        diff_weight_hh(weight_hh_dims, DataType::f32, Tag::any),
        diff_y(y_dims, DataType::f32, Tag::tnc) {}

  dnnl::rnn_direction direction;
  memory::dims x_dims, weight_ih_dims, weight_hh_dims, bias_dims, y_dims;
  memory::desc x, weight_ih, weight_hh, bias, y;
  memory::desc diff_x, diff_weight_ih, diff_weight_hh, diff_y;
  memory::desc none;  // states start at zero and are not returned
};

// What differs between the cells: the primitives and the order of their arguments.
struct Lstm {
  using Forward = dnnl::lstm_forward;
  using Backward = dnnl::lstm_backward;
  static constexpr int64_t kGates = 4, kBiases = 4;

  static Forward::primitive_desc DescribeForward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                                 const Formats& f) {
    return Describe<Forward>(engine, kind, f.direction, f.x, f.none, f.none, f.weight_ih,
                             f.weight_hh, f.bias, f.y, f.none, f.none);
  }
  static Backward::primitive_desc DescribeBackwardOf(const dnnl::engine& engine,
                                                     const Forward::primitive_desc& forward,
                                                     const Formats& f) {
    return DescribeBackward<Backward>(engine, forward, dnnl::prop_kind::backward, f.direction, f.x,
                                      f.none, f.none, f.weight_ih, f.weight_hh, f.bias, f.y, f.none,
                                      f.none, f.diff_x, f.none, f.none, f.diff_weight_ih,
                                      f.diff_weight_hh, f.bias, f.diff_y, f.none, f.none);
  }
};

struct Gru {
  using Forward = dnnl::lbr_gru_forward;  // linear before reset: PyTorch's variant
  using Backward = dnnl::lbr_gru_backward;
  static constexpr int64_t kGates = 3, kBiases = 4;

  static Forward::primitive_desc DescribeForward(const dnnl::engine& engine, dnnl::prop_kind kind,
                                                 const Formats& f) {
    return Describe<Forward>(engine, kind, f.direction, f.x, f.none, f.weight_ih, f.weight_hh,
                             f.bias, f.y, f.none);
  }
  static Backward::primitive_desc DescribeBackwardOf(const dnnl::engine& engine,
                                                     const Forward::primitive_desc& forward,
                                                     const Formats& f) {
    return DescribeBackward<Backward>(engine, forward, dnnl::prop_kind::backward, f.direction, f.x,
                                      f.none, f.weight_ih, f.weight_hh, f.bias, f.y, f.none,
                                      f.diff_x, f.none, f.diff_weight_ih, f.diff_weight_hh, f.bias,
                                      f.diff_y, f.none);
  }
};

// One network with its memory; Forward() and TrainingStep() are what is timed.
template <typename Cell>
class Network {
 public:
  Network(const Case& c, DataType data, bool training)
      : formats_(c, data, Cell::kGates, Cell::kBiases),
        forward_desc_(Cell::DescribeForward(
            context_.engine(),
            training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference,
            formats_)),
        forward_(forward_desc_) {
    const float scale = 1 / std::sqrt(static_cast<float>(c.H));
    const Formats& f = formats_;
    weight_ih_ =
        context_.Filled(f.weight_ih_dims, Tag::ldigo, forward_desc_.weights_layer_desc(), scale);
    weight_hh_ =
        context_.Filled(f.weight_hh_dims, Tag::ldigo, forward_desc_.weights_iter_desc(), scale);
    arguments_ = {{DNNL_ARG_SRC_LAYER, context_.Filled(f.x_dims, Tag::tnc, f.x, 1)},
                  {DNNL_ARG_WEIGHTS_LAYER, weight_ih_},
                  {DNNL_ARG_WEIGHTS_ITER, weight_hh_},
                  {DNNL_ARG_BIAS, context_.Filled(f.bias_dims, Tag::ldgo, f.bias, scale)},
                  {DNNL_ARG_DST_LAYER, context_.Empty(f.y)}};
    if (training) PrepareBackward(scale);
  }

  void Forward() { context_.Run(forward_, arguments_); }

  void TrainingStep() {
    Forward();
    // The primitive adds to the gradients of weights and bias.
    for (const int name :
         {DNNL_ARG_DIFF_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_ITER, DNNL_ARG_DIFF_BIAS}) {
      memory& gradient = backward_arguments_.at(name);
      auto* bytes = gradient.map_data<char>();
      std::fill_n(bytes, gradient.get_desc().get_size(), char{0});
      gradient.unmap_data(bytes);
    }
    context_.Run(backward_, backward_arguments_);
  }

 private:
  void PrepareBackward(float scale) {
    const Formats& f = formats_;
    const auto desc = Cell::DescribeBackwardOf(context_.engine(), forward_desc_, f);
    backward_ = typename Cell::Backward(desc);
    arguments_[DNNL_ARG_WORKSPACE] = context_.Empty(forward_desc_.workspace_desc());
    backward_arguments_ = arguments_;
    backward_arguments_[DNNL_ARG_WEIGHTS_LAYER] =
        context_.Reordered(weight_ih_, desc.weights_layer_desc());
    backward_arguments_[DNNL_ARG_WEIGHTS_ITER] =
        context_.Reordered(weight_hh_, desc.weights_iter_desc());
    backward_arguments_[DNNL_ARG_DIFF_SRC_LAYER] = context_.Empty(f.diff_x);
    backward_arguments_[DNNL_ARG_DIFF_WEIGHTS_LAYER] =
        context_.Empty(desc.diff_weights_layer_desc());
    backward_arguments_[DNNL_ARG_DIFF_WEIGHTS_ITER] = context_.Empty(desc.diff_weights_iter_desc());
    backward_arguments_[DNNL_ARG_DIFF_BIAS] = context_.Empty(f.bias);
    backward_arguments_[DNNL_ARG_DIFF_DST_LAYER] =
        context_.Filled(f.y_dims, Tag::tnc, f.diff_y, scale);
  }

  Context context_;
  Formats formats_;
  typename Cell::Forward::primitive_desc forward_desc_;
  typename Cell::Forward forward_;
  typename Cell::Backward backward_;
  memory weight_ih_, weight_hh_;
  Arguments arguments_, backward_arguments_;
};

template <typename Cell>
void MeasureCase(const Run& run, double min_seconds, Report& report) {
  const DataType data = run.precision == "bf16" ? DataType::bf16 : DataType::f32;
  const bool training = run.pass == "train";
  const PeakMemory memory;
  Network<Cell> network(*run.what, data, training);
  const auto step = [&] { training ? network.TrainingStep() : network.Forward(); };
  for (int i = 0; i < 3; ++i) step();
  const double peak = training ? memory.Mebibytes() : 0;
  report.Add(run, Measure(step, min_seconds), peak);
}

// Loads the library's code and thread pool before anything counts.
void WarmUp() {
  const Case tiny{.name = "tiny", .cell = "lstm", .T = 2, .B = 2, .I = 8, .H = 8};
  Network<Lstm>(tiny, DataType::f32, true).TrainingStep();
}

void MeasurePeaks(const Options& options, Report& report) {
  Context context;
  for (const std::string& precision : options.precisions) {
    const DataType data = precision == "bf16" ? DataType::bf16 : DataType::f32;
    for (const int64_t n : {2048, 3072, 4096}) {
      const memory::dims dims = {n, n};
      const memory::desc any(dims, data, Tag::any);
      const auto desc = Describe<dnnl::matmul>(context.engine(), any, any, any);
      const dnnl::matmul product(desc);
      const Arguments arguments = {
          {DNNL_ARG_SRC, context.Filled(dims, Tag::ab, desc.src_desc(), 1)},
          {DNNL_ARG_WEIGHTS, context.Filled(dims, Tag::ab, desc.weights_desc(), 1)},
          {DNNL_ARG_DST, context.Empty(desc.dst_desc())}};
      const Timing timing = Measure([&] { context.Run(product, arguments); }, options.min_seconds);
      report.AddPeak(precision, fmt::format("oneDNN matmul {}", n),
                     2.0 * static_cast<double>(n * n * n) / timing.min * 1e-6);
    }
  }
}

void MeasureAll(const Options& options, Report& report) {
  WarmUp();
  for (const Case& c : options.cases) {
    for (const std::string& precision : options.precisions) {
      for (const std::string& pass : options.passes) {
        const Run run{&c, precision, pass, c.uniform_lengths ? "padded" : ""};
        if (c.L > 1 && c.I != c.H * c.directions()) {
          report.AddError(run, "one primitive wants layers of one width");
          continue;
        }
        try {
          c.cell == "lstm" ? MeasureCase<Lstm>(run, options.min_seconds, report)
                           : MeasureCase<Gru>(run, options.min_seconds, report);
        } catch (const dnnl::error& error) {
          report.AddError(run, error.what());
        }
      }
    }
  }
}

}  // namespace
}  // namespace turbolstm::bench

int main(int argc, char** argv) {
  using namespace turbolstm::bench;
  const Options options = ParseOptions(argc, argv, "oneDNN's LSTM and GRU primitives");
  omp_set_num_threads(options.threads);
  const dnnl_version_t* version = dnnl_version();
  Report report("oneDNN", fmt::format("{}.{}.{}", version->major, version->minor, version->patch),
                options.threads);
  options.peak ? MeasurePeaks(options, report) : MeasureAll(options, report);
  report.Write(options.json);
  return 0;
}
