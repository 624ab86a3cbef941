"""The estimators by scikit-learn's own checks, and over ragged sequences."""

import pickle

import numpy
import pytest

pytest.importorskip("sklearn", minversion="1.6")
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from turbolstm.sklearn import SequenceClassifier, SequenceRegressor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [SequenceClassifier, SequenceRegressor])
def test_conventions_of_scikit_learn(estimator):
    results = check_estimator(estimator(hidden_size=8, epochs=60, random_state=0), on_fail=None, on_skip=None)
    assert len(results) > 50
    assert [result["check_name"] for result in results if result["status"] == "failed"] == []


def ragged(count=160, seed=0):
    """Sequences [3..12, 2]: does the first feature of the first step agree in sign with that of the last?"""
    draw = numpy.random.default_rng(seed)
    X = [draw.standard_normal((draw.integers(3, 13), 2)) for _ in range(count)]
    y = numpy.array(["same" if x[0, 0] * x[-1, 0] > 0 else "other" for x in X])
    return X, y


@pytest.mark.parametrize("options", [dict(cell="lstm"), dict(cell="gru", bidirectional=True)], ids=str)
def test_a_classifier_learns_what_is_far_back(options):
    X, y = ragged()
    estimator = SequenceClassifier(hidden_size=24, epochs=60, learning_rate=0.01, random_state=1, **options)
    assert estimator.fit(X, y) is estimator
    assert estimator.score(X, y) > 0.95
    assert list(estimator.classes_) == ["other", "same"] and estimator.n_features_in_ == 2
    assert len(estimator.loss_curve_) == 60 and estimator.loss_curve_[-1] < 0.5 * estimator.loss_curve_[0]
    probabilities = estimator.predict_proba(X[:5])
    numpy.testing.assert_allclose(probabilities.sum(1), 1)
    alone = numpy.concatenate([estimator.predict_proba([x]) for x in X[:5]])
    numpy.testing.assert_allclose(alone, probabilities, atol=1e-5)  # padding changes nothing
    back = pickle.loads(pickle.dumps(estimator))
    numpy.testing.assert_array_equal(back.predict_proba(X), estimator.predict_proba(X))
    again = clone(estimator).fit(X, y)
    numpy.testing.assert_array_equal(again.predict_proba(X), estimator.predict_proba(X))


def test_a_regressor_sums_up():
    draw = numpy.random.default_rng(2)
    X = draw.standard_normal((200, 6, 1))
    y = numpy.stack([X.sum((1, 2)), 100 + X[:, -1, 0]], axis=1)
    estimator = SequenceRegressor("gru", 16, epochs=40, learning_rate=0.01, random_state=0).fit(X, y)
    assert estimator.predict(X).shape == (200, 2) and estimator.score(X, y) > 0.9
    assert estimator.fit(X, y[:, 0]).predict(X).shape == (200,)


def test_it_works_within_searches_and_pipelines():
    X, y = ragged(60)
    estimator = SequenceClassifier(hidden_size=4, epochs=2, random_state=0)
    search = GridSearchCV(estimator, {"cell": ["gru", "rnn_tanh"], "hidden_size": [4, 6]}, cv=2).fit(X, y)
    assert search.best_params_["cell"] in ("gru", "rnn_tanh")
    assert cross_val_score(make_pipeline(estimator), X, y, cv=3).shape == (3,)


def test_errors_name_what_is_wrong():
    X, y = ragged(20)
    with pytest.raises(ValueError, match=r"\[1, 2\] features"):
        SequenceClassifier().fit([*X[:19], numpy.zeros((3, 1))], y)
    estimator = SequenceClassifier(hidden_size=4, epochs=1).fit(X, y)
    with pytest.raises(ValueError, match="3 features.*expecting 2"):
        estimator.predict([numpy.zeros((2, 3))])
    with pytest.raises(ValueError, match="there is no cell 'lstn'"):
        SequenceClassifier("lstn").fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        SequenceRegressor().fit(numpy.full((4, 3, 1), numpy.nan), numpy.zeros(4))
    empty = SequenceClassifier(hidden_size=4, epochs=1).fit([numpy.zeros((0, 2)), *X[1:]], y)  # no steps is legal
    assert empty.predict([numpy.zeros((0, 2))]).shape == (1,)
