// Cells by their equations in Python. What people call is python/turbolstm/equations.py.
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "base/error.h"
#include "bind.h"
#include "cells/cell.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

// The equations of one cell while they are written down. Values that outlive that are refused.
struct Scope {
  CellScope* cell = nullptr;  // null: it is over

  CellScope& get() const {
    TL_CHECK(cell != nullptr, "[equations] a value is used outside the equations that made it");
    return *cell;
  }
};

struct Term {
  std::shared_ptr<Scope> scope;
  Value value;

  Term With(const Value& other) const { return {scope, other}; }
};

using Operand = std::variant<Term, double>;

Value ValueOf(const Operand& operand, const std::shared_ptr<Scope>& scope) {
  CellScope& cell = scope->get();
  if (const auto* const term = std::get_if<Term>(&operand)) {
    TL_CHECK(term->scope == scope, "[equations] a value of another cell is used");
    return term->value;
  }
  return cell.Constant(std::get<double>(operand));
}

template <typename Function>
auto Unary(Function function) {
  return [function](const Term& x) {
    x.scope->get();
    return x.With(function(x.value));
  };
}

template <typename Function>
auto Binary(Function function) {
  return [function](const Term& a, const Operand& b) {
    return a.With(function(ValueOf(a, a.scope), ValueOf(b, a.scope)));
  };
}

template <typename Function>
auto Reflected(Function function) {
  return [function](const Term& a, const Operand& b) {
    return a.With(function(ValueOf(b, a.scope), ValueOf(a, a.scope)));
  };
}

// x[begin:end] along the first axis.
Term SliceOf(const Term& x, const nb::slice& slice) {
  x.scope->get();
  const int64_t n = x.value.features();
  const auto [begin, end, step, count] = slice.compute(static_cast<size_t>(n));
  TL_CHECK(step == 1, "[equations] a slice has the step {}, wants 1", step);
  return x.With(Slice(x.value, static_cast<int64_t>(begin), static_cast<int64_t>(count)));
}

std::vector<Term> SplitOf(const Term& x, int64_t count) {
  x.scope->get();
  std::vector<Term> parts;
  for (const Value& part : Split(x.value, count)) parts.push_back(x.With(part));
  return parts;
}

Term ConcatOf(const std::vector<Term>& parts) {
  TL_CHECK(!parts.empty(), "[equations] got nothing to join, wants at least one value");
  std::vector<Value> values;
  for (const Term& part : parts) values.push_back(ValueOf(part, parts[0].scope));
  return parts[0].With(Concat(values));
}

void BindTerm(nb::module_& module) {
  const auto add = [](const Value& a, const Value& b) { return a + b; };
  const auto sub = [](const Value& a, const Value& b) { return a - b; };
  const auto mul = [](const Value& a, const Value& b) { return a * b; };
  const auto div = [](const Value& a, const Value& b) { return a / b; };
  nb::class_<Term>(module, "Term", "A value of one step within a cell's equations.")
      .def("__add__", Binary(add), nb::is_operator())
      .def("__radd__", Reflected(add), nb::is_operator())
      .def("__sub__", Binary(sub), nb::is_operator())
      .def("__rsub__", Reflected(sub), nb::is_operator())
      .def("__mul__", Binary(mul), nb::is_operator())
      .def("__rmul__", Reflected(mul), nb::is_operator())
      .def("__truediv__", Binary(div), nb::is_operator())
      .def("__rtruediv__", Reflected(div), nb::is_operator())
      .def("__neg__", Unary([](const Value& x) { return -x; }), nb::is_operator())
      .def(
          "__matmul__",
          [](const Term& a, const Term& b) {
            return a.With(MatMul(ValueOf(a, a.scope), ValueOf(b, a.scope)));
          },
          nb::is_operator(), "A weight [m, k] (or [heads, m / heads, k / heads]) times [k].")
      .def("__getitem__", &SliceOf, "Elements (of a weight: rows) begin:end.")
      .def("split", &SplitOf, "count"_a, "Equal parts along the first axis.")
      .def_prop_ro("size", [](const Term& x) {
        x.scope->get();
        return x.value.features();
      });
  module.def("sigmoid", Unary([](const Value& x) { return Sigmoid(x); }), "x"_a);
  module.def("tanh", Unary([](const Value& x) { return Tanh(x); }), "x"_a);
  module.def("relu", Unary([](const Value& x) { return Relu(x); }), "x"_a);
  module.def("softplus", Unary([](const Value& x) { return Softplus(x); }), "x"_a);
  module.def("exp", Unary([](const Value& x) { return Exp(x); }), "x"_a);
  module.def("row_sum", Unary([](const Value& x) { return RowSum(x); }), "x"_a,
             "The sum of the elements, [1].");
  module.def("maximum", Binary([](const Value& a, const Value& b) { return Max(a, b); }), "a"_a,
             "b"_a);
  module.def("minimum", Binary([](const Value& a, const Value& b) { return Min(a, b); }), "a"_a,
             "b"_a);
  module.def("concat", &ConcatOf, "parts"_a, "Values one behind the other.");
  module.def(
      "layer_norm",
      [](const Term& x, const Operand& gain, const Operand& bias) {
        return x.With(
            LayerNorm(ValueOf(x, x.scope), ValueOf(gain, x.scope), ValueOf(bias, x.scope)));
      },
      "x"_a, "gain"_a, "bias"_a, "Layer normalisation (Ba et al. 2016) over the elements.");
}

// What a cell's equations are written with.
struct Equations {
  std::shared_ptr<Scope> scope;

  CellScope& cell() const { return scope->get(); }
  Term Of(const Value& value) const { return {scope, value}; }
};

Initializer InitializerOf(const nb::object& initial) {
  if (nb::isinstance<nb::tuple>(initial)) {
    const auto bounds = nb::cast<std::pair<double, double>>(initial);
    return Initializer::Uniform(bounds.first, bounds.second);
  }
  return Initializer::Constant(nb::cast<double>(initial));
}

Term WeightOf(const Equations& self, const std::string& name, const std::vector<int64_t>& shape,
              const nb::object& initial) {
  return self.Of(initial.is_none() ? self.cell().Weight(name, shape)
                                   : self.cell().Parameter(name, shape, InitializerOf(initial)));
}

void BindScope(nb::module_& module) {
  nb::class_<Equations>(module, "Equations", "What a cell's equations are written with.")
      .def_prop_ro(
          "x", [](const Equations& self) { return self.Of(self.cell().x()); }, "[I]")
      .def_prop_ro("input_size", [](const Equations& self) { return self.cell().options().input; })
      .def_prop_ro("hidden_size", [](const Equations& self) { return self.cell().H(); })
      .def_prop_ro(
          "bias", [](const Equations& self) { return self.cell().options().bias; },
          "Whether the cell is to have biases.")
      .def("weight", &WeightOf, "name"_a, "shape"_a, "initial"_a = nb::none(),
           "A parameter. initial: a number, bounds (low, high), or None: as PyTorch draws its own.")
      .def(
          "from_input",
          [](const Equations& self, int64_t gates) {
            return self.Of(self.cell().FromInput(gates));
          },
          "gates"_a = 1, "weight_ih x + bias_ih: [gates * H].")
      .def(
          "plus_bias",
          [](const Equations& self, const Term& a, const std::string& name) {
            return self.Of(self.cell().PlusBias(ValueOf(a, self.scope), name));
          },
          "a"_a, "name"_a, "a plus a bias, or a where the cell is to have none.")
      .def(
          "state",
          [](const Equations& self, const std::string& name, std::optional<int64_t> size) {
            return self.Of(self.cell().State(name, size.value_or(self.cell().H())));
          },
          "name"_a, "size"_a = nb::none(), "A state that define() gives its value; [H] by default.")
      .def(
          "define",
          [](const Equations& self, const Term& state, const Term& next) {
            return self.Of(
                self.cell().Define(ValueOf(state, self.scope), ValueOf(next, self.scope)));
          },
          "state"_a, "next"_a, "Gives a state its value at this step.")
      .def(
          "past",
          [](const Equations& self, const Term& state) {
            return self.Of(self.cell().Past(ValueOf(state, self.scope)));
          },
          "state"_a, "A state one step before.")
      .def(
          "recurrent",
          [](const Equations& self, const Term& state) {
            return self.Of(self.cell().Recurrent(ValueOf(state, self.scope)));
          },
          "state"_a, "The same where it enters a matrix product: recurrent dropout acts there.")
      .def(
          "named",
          [](const Equations& self, const std::string& name, const Term& value) {
            return self.Of(self.cell().Named(name, ValueOf(value, self.scope)));
          },
          "name"_a, "value"_a, "Names a value in printed equations.");
}

void AddPythonCell(const std::string& name, const std::string& description,
                   const nb::callable& equations) {
  // Kept for as long as the process lives, as the cell is.
  PyObject* const function = nb::object(equations).release().ptr();
  AddCell(name, description, [function, name](CellScope& cell) {
    const nb::gil_scoped_acquire acquire;
    const auto scope = std::make_shared<Scope>(Scope{&cell});
    const auto end = [&scope](void*) { scope->cell = nullptr; };
    const std::unique_ptr<void, decltype(end)> ending(scope.get(), end);
    const nb::object output = nb::handle(function)(nb::cast(Equations{scope}));
    TL_CHECK(nb::isinstance<Term>(output), "[{}] the equations return {}, want the output's value",
             name, nb::cast<std::string>(nb::str(output.type())));
    return ValueOf(nb::cast<Term>(output), scope);
  });
}

}  // namespace

void BindEquations(nb::module_& module) {
  BindTerm(module);
  BindScope(module);
  module.def("_add_cell", &AddPythonCell, "name"_a, "description"_a, "equations"_a,
             "turbolstm.Cell calls this.");
}

}  // namespace turbolstm
