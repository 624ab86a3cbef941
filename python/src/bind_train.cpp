// Training of texts' classifiers, and what it leaves.
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>

#include "base/error.h"
#include "bind.h"
#include "data/utf8.h"
#include "spec.h"
#include "train/text_task.h"
#include "train/trained_run.h"
#include "train/trainer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

nb::dict DictOf(const EpochReport& report) {
  nb::dict dict;
  dict["epoch"] = report.epoch;
  dict["train_loss"] = report.train_loss;
  dict["held_out_samples"] = report.held_out.samples;
  dict["held_out_loss"] = report.held_out.loss;
  dict["held_out_accuracy"] = report.held_out.accuracy;
  dict["seconds"] = report.seconds;
  dict["evaluation_seconds"] = report.evaluation_seconds;
  dict["tokens_per_second"] = report.tokens_per_second;
  dict["best"] = report.best;
  return dict;
}

nb::dict DictOf(const BatchReport& report) {
  nb::dict dict;
  dict["epoch"] = report.epoch;
  dict["batch"] = report.batch;
  dict["batches"] = report.batches;
  dict["loss"] = report.loss;
  return dict;
}

// Calls Python from a run that does not hold the GIL. The first exception ends the run.
class PythonHooks {
 public:
  PythonHooks(nb::object on_epoch, nb::object on_batch)
      : on_epoch_(std::move(on_epoch)), on_batch_(std::move(on_batch)) {}

  TrainingHooks Hooks() {
    TrainingHooks hooks;
    hooks.on_epoch = [this](const EpochReport& report) {
      const nb::gil_scoped_acquire acquire;
      epochs_.append(DictOf(report));
      Call(on_epoch_, report);
    };
    if (!on_batch_.is_none()) {
      hooks.on_batch = [this](const BatchReport& report) {
        const nb::gil_scoped_acquire acquire;
        Call(on_batch_, report);
      };
    }
    hooks.stop = [this] {
      const nb::gil_scoped_acquire acquire;
      if (!failure_ && !stopped_ && PyErr_CheckSignals() != 0) {
        failure_ = std::make_exception_ptr(nb::python_error());
      }
      return stopped_ || failure_ != nullptr;
    };
    return hooks;
  }

  void Rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  nb::list epochs() const { return epochs_; }

 private:
  template <typename Report>
  void Call(const nb::object& hook, const Report& report) {
    if (hook.is_none() || failure_) return;
    try {
      const nb::object answer = hook(DictOf(report));
      stopped_ |= answer.is(nb::bool_(true));
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  nb::object on_epoch_, on_batch_;
  nb::list epochs_;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

// The folder of the run, and an entry for each epoch.
nb::tuple Train(const std::string& toml, const std::string& source,
                const std::vector<std::string>& overrides, bool replace, nb::object on_epoch,
                nb::object on_batch) {
  PythonHooks hooks(std::move(on_epoch), std::move(on_batch));
  std::string folder;
  {
    const nb::gil_scoped_release release;
    RegisterKernelsOnce();
    const Config config = ParseConfig(toml, source, overrides);
    folder = config.output.directory;
    const RunDirectory directory(folder);
    directory.Check(replace ? ExistingRun::kReplace : ExistingRun::kRefuse);
    const TextTask task = MakeTextTask(LoadTextData(config.data), config.data);
    Trainer trainer(config, task);
    trainer.Run(directory, hooks.Hooks());
  }
  hooks.Rethrow();
  return nb::make_tuple(folder, hooks.epochs());
}

// [texts, classes]
nb::object Predict(TrainedRun& run, const std::vector<std::string>& texts) {
  auto* all = new std::vector<double>;
  const nb::capsule owner(all,
                          [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  {
    const nb::gil_scoped_release release;
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto invalid = FirstInvalidUtf8(texts[i]);
      TL_CHECK(!invalid, "[predict] text {} is no UTF-8 at byte {}", i, *invalid + 1);
      const std::vector<TextSample> sample = {
          {.id = std::to_string(i), .text = texts[i], .label = 0}};
      const EncodedTexts encoded =
          EncodeTexts(sample, run.vocabulary(), EncodeOptionsOf(run.config().data));
      TL_CHECK(encoded.Length(0) > 0, "[predict] text {} has no words, wants at least one", i);
      const std::vector<double> probabilities = run.evaluator().Predict(encoded, 1)[0];
      all->insert(all->end(), probabilities.begin(), probabilities.end());
    }
  }
  const size_t shape[] = {texts.size(), run.labels().size()};
  return nb::cast(nb::ndarray<nb::numpy, double>(all->data(), 2, shape, owner));
}

// The numbers of a text's words, as the model reads them.
std::vector<int32_t> Encode(const TrainedRun& run, const std::string& text) {
  return EncodeText(text, run.vocabulary(), EncodeOptionsOf(run.config().data));
}

}  // namespace

void BindTrain(nb::module_& module) {
  module.def("_train", &Train, "toml"_a, "source"_a, "overrides"_a, "replace"_a,
             "on_epoch"_a.none(), "on_batch"_a.none(), "turbolstm.train calls this.");
  nb::class_<TrainedRun>(
      module, "TrainedRun",
      "A classifier of texts as training left it in a folder, ready to answer.\n\n"
      "For one thread at a time.")
      .def(
          "__init__",
          [](TrainedRun* self, const std::filesystem::path& directory, const std::string& device) {
            const nb::gil_scoped_release release;
            RegisterKernelsOnce();
            new (self) TrainedRun(directory, device);
          },
          "directory"_a, "device"_a = "auto")
      .def_prop_ro("labels", &TrainedRun::labels)
      .def_prop_ro(
          "config", [](const TrainedRun& run) { return FormatConfig(run.config()); }, "As TOML.")
      .def_prop_ro(
          "epochs", [](const TrainedRun& run) { return run.progress().epochs_done; },
          "Epochs behind these weights.")
      .def("predict", &Predict, "texts"_a,
           "Probabilities [texts, labels] of each text alone, without holding the GIL.")
      .def("encode", &Encode, "text"_a, "The numbers of a text's words, as the model reads them.");
}

}  // namespace turbolstm
