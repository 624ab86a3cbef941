# %% [markdown]
# # Forecasting with a recurrent network
#
# A notebook in the percent format: Jupyter with jupytext, VS Code and Spyder open it as cells; Python runs it as it is.
# The series has a trend, a season of 24 steps, a longer one, and noise. A GRU reads 72 steps and forecasts the next one.

# %%
import matplotlib.pyplot as plt
import numpy as np

import turbolstm
from turbolstm import plotting
from turbolstm.sklearn import SequenceRegressor

WINDOW, HELD_OUT = 72, 200
draw = np.random.default_rng(1)
t = np.arange(1600)
series = 0.002 * t + np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(2 * np.pi * t / 168) + 0.1 * draw.standard_normal(len(t))

# %% [markdown]
# Windows `[N, T]` and what comes behind them. The change against the last value is learned, so that the trend is no
# matter. The last 200 windows are held out.

# %%
windows = np.lib.stride_tricks.sliding_window_view(series, WINDOW)[:-1]
last, target = windows[:, -1], series[WINDOW:]
X, y = windows - last[:, None], target - last
model = SequenceRegressor("gru", hidden_size=32, epochs=10, learning_rate=0.01, random_state=1)
model.fit(X[:-HELD_OUT], y[:-HELD_OUT])
plotting.learning_curves(model.loss_curve_)

# %% [markdown]
# Errors of the forecasts, beside those of two simple guesses: the last value, and the value of a season before.

# %%
forecast = last[-HELD_OUT:] + model.predict(X[-HELD_OUT:])
truth = target[-HELD_OUT:]
guesses = {"network": forecast, "last value": last[-HELD_OUT:], "a season before": series[-HELD_OUT - 24 : -24]}
errors = {name: np.sqrt(np.mean((guess - truth) ** 2)) for name, guess in guesses.items()}
for name, error in errors.items():
    print(f"{name}: root mean square error {error:.3f}")

# %%
figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
axes.plot(truth, color="0.6", label="truth")
axes.plot(forecast, label="forecast one step ahead")
axes.legend()

# %% [markdown]
# How a training step of this network is cut into tasks, and when they run.

# %%
plan = turbolstm.plan("gru", 1, 32, steps=WINDOW, batch=32, threads=2)
plotting.timeline(plan)
print(plan)
