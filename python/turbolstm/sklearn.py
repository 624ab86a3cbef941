"""Estimators over sequences in scikit-learn's style (1.6 or newer); they need no PyTorch.

X is a list of N arrays [T_n, I] of any lengths, an array [N, T, I], or a matrix [N, T] of N sequences of T numbers.
Letters: N sequences, T time, I input, H hidden.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from ._core import Network

__all__ = ["SequenceClassifier", "SequenceRegressor"]


@functools.lru_cache(maxsize=64)
def _network(
    options: tuple[tuple[str, Any], ...], training: bool, threads: int
) -> tuple[Network, list[tuple[str, int]]]:
    """The layers, and the final states (name, size) that stand for a whole sequence: h of the last layer."""
    plain = Network(**dict(options), threads=threads)
    last = f"_l{dict(options)['num_layers'] - 1}"
    finals = [(info.final, info.size) for info in plain.states if info.state == "h" and last in info.final]
    if not training:
        return plain, finals
    gradients = [value.name for value in plain.parameters]
    cotangents = [name for name, _ in finals]
    return Network(**dict(options), threads=threads, gradients=gradients, cotangents=cotangents), finals


class _Adam:
    def __init__(self, learning_rate: float, weight_decay: float):
        self._rate, self._decay, self._steps, self._moments = learning_rate, weight_decay, 0, {}

    def step(self, parameters: dict[str, numpy.ndarray], gradients: dict[str, numpy.ndarray]):
        """Kingma and Ba 2015, with the weight decay of Loshchilov and Hutter 2019."""
        self._steps += 1
        for name, gradient in gradients.items():
            first, second = self._moments.setdefault(name, (numpy.zeros_like(gradient), numpy.zeros_like(gradient)))
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient * gradient - second)
            mean, square = first / (1 - 0.9**self._steps), second / (1 - 0.999**self._steps)
            value = parameters[name]
            value -= self._rate * (mean / (numpy.sqrt(square) + 1e-8) + self._decay * value)


def _padded(sequences: list[numpy.ndarray]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """[T, N, I] and lengths [N]."""
    lengths = numpy.array([len(sequence) for sequence in sequences], numpy.int32)
    x = numpy.zeros((lengths.max(initial=0), len(sequences), sequences[0].shape[1]), numpy.float32)
    for n, sequence in enumerate(sequences):
        x[: len(sequence), n] = sequence
    return x, lengths


class _SequenceEstimator(BaseEstimator):
    def __init__(
        self,
        cell="lstm",
        hidden_size=64,
        *,
        num_layers=1,
        bidirectional=False,
        dropout=0.0,
        epochs=30,
        batch_size=32,
        learning_rate=0.005,
        weight_decay=0.0,
        clip_norm=1.0,
        random_state=None,
        threads=1,
        verbose=False,
    ):
        self.cell = cell
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bidirectional = bidirectional
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.random_state = random_state
        self.threads = threads
        self.verbose = verbose

    def _options(self) -> tuple[tuple[str, Any], ...]:
        return (
            ("cell", self.cell),
            ("input_size", self._input_size),
            ("hidden_size", self.hidden_size),
            ("num_layers", self.num_layers),
            ("bidirectional", self.bidirectional),
            ("dropout", float(self.dropout) if self.num_layers > 1 else 0.0),
        )

    def _sequences(self, X, reset: bool) -> list[numpy.ndarray]:
        ragged = isinstance(X, (list, tuple)) and len(X) > 0 and all(getattr(x, "ndim", None) == 2 for x in X)
        if ragged or getattr(X, "ndim", None) == 3:
            sequences = [check_array(x, dtype=numpy.float32, ensure_min_samples=0) for x in X]
            features = {sequence.shape[1] for sequence in sequences}
            if len(features) != 1:
                raise ValueError(
                    f"[{type(self).__name__}] sequences have {sorted(features)} features, wants one number"
                )
            if reset:
                self.n_features_in_ = self._input_size = features.pop()
            elif features != {self.n_features_in_}:
                raise ValueError(
                    f"[{type(self).__name__}] X has {features.pop()} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
        else:
            matrix = validate_data(self, X, dtype=numpy.float32, reset=reset)
            if reset:
                self._input_size = 1
            sequences = list(matrix[:, :, None])
        if sequences[0].shape[1] != self._input_size:
            raise ValueError(
                f"[{type(self).__name__}] X is of another kind than at fit, where a step had {self._input_size} numbers"
            )
        return sequences

    def _fit(self, sequences: list[numpy.ndarray], targets: numpy.ndarray, outputs: int):
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(
                f"[{type(self).__name__}] epochs {self.epochs} and batch_size {self.batch_size}, wants >= 1"
            )
        draw = check_random_state(self.random_state)
        steps = numpy.concatenate(sequences)
        self._mean = steps.mean(0, dtype=numpy.float64).astype(numpy.float32) if len(steps) else numpy.float32(0)
        self._scale = steps.std(0, dtype=numpy.float64).astype(numpy.float32) if len(steps) else numpy.float32(1)
        self._scale = numpy.where(self._scale > 0, self._scale, numpy.float32(1))
        sequences = [self._standardised(sequence) for sequence in sequences]

        network, finals = _network(self._options(), True, self.threads)
        seed = int(draw.randint(2**31 - 1))
        self._parameters = {p.name: network.initial_values(p.name, seed=seed) for p in network.parameters}
        width = sum(size for _, size in finals)
        bound = 1 / numpy.sqrt(width)
        self._parameters["head.weight"] = draw.uniform(-bound, bound, (outputs, width)).astype(numpy.float32)
        self._parameters["head.bias"] = numpy.zeros(outputs, numpy.float32)
        optimizer, run = _Adam(self.learning_rate, self.weight_decay), network.run()
        self.loss_curve_ = []
        for epoch in range(self.epochs):
            total = 0.0
            order = draw.permutation(len(sequences))
            for begin in range(0, len(order), self.batch_size):
                rows = order[begin : begin + self.batch_size]
                batch = [sequences[row] for row in rows]
                loss, gradients = self._gradients(
                    run, network, finals, batch, targets[rows], int(draw.randint(2**31 - 1))
                )
                optimizer.step(self._parameters, gradients)
                total += loss * len(rows)
            self.loss_curve_.append(total / len(order))
            if self.verbose:
                print(f"epoch {epoch + 1}  loss {self.loss_curve_[-1]:.4f}")
        self.n_iter_ = self.epochs
        return self

    def _standardised(self, sequence: numpy.ndarray) -> numpy.ndarray:
        return (sequence - self._mean) / self._scale

    def _bind(self, run, network, batch):
        x, lengths = _padded(batch)
        run.set_shape(len(x), len(batch), lengths)
        run.bind("x", x)
        for parameter in network.parameters:
            run.bind(parameter.name, self._parameters[parameter.name])
        run.parameters_changed()

    @staticmethod
    def _features(run, finals, batch) -> numpy.ndarray:
        """What stands for each sequence: [N, features]."""
        parts = [numpy.empty((len(batch), size), numpy.float32) for _, size in finals]
        for (name, _), part in zip(finals, parts):
            run.read_into(name, part)
        return numpy.concatenate(parts, axis=1)

    def _gradients(self, run, network, finals, batch, targets, seed: int):
        self._bind(run, network, batch)
        run.forward(training=True, seed=seed)
        features = self._features(run, finals, batch)
        weight = self._parameters["head.weight"]
        loss, error = self._loss(features @ weight.T + self._parameters["head.bias"], targets)
        gradients = {"head.weight": error.T @ features, "head.bias": error.sum(0)}
        back, begin, bound = error @ weight, 0, []
        for name, size in finals:
            bound.append(numpy.ascontiguousarray(back[:, begin : begin + size]))
            run.bind("d." + name, bound[-1])
            begin += size
        run.backward()
        for parameter in network.parameters:
            gradients[parameter.name] = numpy.empty_like(self._parameters[parameter.name])
            run.read_into("d." + parameter.name, gradients[parameter.name])
        norm = numpy.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
        if self.clip_norm and norm > self.clip_norm:
            for gradient in gradients.values():
                gradient *= self.clip_norm / norm
        return loss, gradients

    def _scores(self, X) -> numpy.ndarray:
        check_is_fitted(self)
        sequences = [self._standardised(sequence) for sequence in self._sequences(X, reset=False)]
        network, finals = _network(self._options(), False, self.threads)
        run, scores = network.run(), []
        for begin in range(0, len(sequences), self.batch_size):
            batch = sequences[begin : begin + self.batch_size]
            self._bind(run, network, batch)
            run.forward()
            features = self._features(run, finals, batch)
            scores.append(features @ self._parameters["head.weight"].T + self._parameters["head.bias"])
        return numpy.concatenate(scores).astype(numpy.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.input_tags.three_d_array = True
        return tags


def _softmax(scores: numpy.ndarray) -> numpy.ndarray:
    powers = numpy.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


class SequenceClassifier(ClassifierMixin, _SequenceEstimator):
    """Recurrent layers over each sequence, and a linear classifier on their final states.

    The arguments from cell to dropout are those of ``turbolstm.Network``; training is Adam on the cross-entropy, on
    features that are standardised first. After fit: classes_, loss_curve_ [epochs], n_iter_, n_features_in_.
    """

    def fit(self, X, y):
        """Learns from X (see the module) and labels y [N]."""
        sequences = self._sequences(X, reset=True)
        y = column_or_1d(y, warn=True)
        check_consistent_length(sequences, y)
        check_classification_targets(y)
        self.classes_, targets = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"[SequenceClassifier] y has 1 class, {self.classes_[0]!r}, wants at least two")
        return self._fit(sequences, targets, len(self.classes_))

    @staticmethod
    def _loss(scores: numpy.ndarray, targets: numpy.ndarray) -> tuple[float, numpy.ndarray]:
        error = _softmax(scores)
        rows = numpy.arange(len(targets))
        loss = -float(numpy.log(numpy.maximum(error[rows, targets], 1e-30)).mean())
        error[rows, targets] -= 1
        return loss, error / numpy.float32(len(targets))

    def predict_proba(self, X):
        """Probabilities [N, classes]."""
        return _softmax(self._scores(X))

    def predict(self, X):
        """The most likely label of each sequence, [N]."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(1)]


class SequenceRegressor(RegressorMixin, _SequenceEstimator):
    """Recurrent layers over each sequence, and a linear map of their final states to numbers.

    Arguments as SequenceClassifier's; training is Adam on the mean squared error of targets that are standardised first.
    """

    def fit(self, X, y):
        """Learns from X (see the module) and numbers y, [N] or [N, K]."""
        sequences = self._sequences(X, reset=True)
        if y is None:
            raise ValueError("[SequenceRegressor] requires y to be passed, but the target y is None")
        y = check_array(y, ensure_2d=False, dtype=numpy.float64, input_name="y")
        check_consistent_length(sequences, y)
        self._one = y.ndim == 1
        targets = y.reshape(len(y), -1)
        self._target_mean, deviation = targets.mean(0), targets.std(0)
        self._target_scale = numpy.where(deviation > 0, deviation, 1.0)
        scaled = ((targets - self._target_mean) / self._target_scale).astype(numpy.float32)
        return self._fit(sequences, scaled, targets.shape[1])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @staticmethod
    def _loss(scores: numpy.ndarray, targets: numpy.ndarray) -> tuple[float, numpy.ndarray]:
        error = scores - targets
        return float((error**2).mean()), error * numpy.float32(2 / error.size)

    def predict(self, X):
        """Numbers [N] or [N, K], as y was."""
        values = self._scores(X) * self._target_scale + self._target_mean
        return values[:, 0] if self._one else values
