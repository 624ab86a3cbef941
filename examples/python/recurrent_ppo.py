#!/usr/bin/env python3
"""PPO with a recurrent policy: 512 features -> LSTM 128, 128 steps of 8 environments, with resets.

    python examples/python/recurrent_ppo.py [--updates 40] [--steps 128] [--environments 8]

The shape of CleanRL's ppo_atari_lstm. Its update runs the LSTM step by step to zero the state where an episode begins;
here a whole rollout is one call with a reset mask. The environment is a toy that wants memory: a cue is shown at the
first step of an episode, and the action at its last step has to repeat it.
"""

import argparse
import time

import torch
from torch import nn

import turbolstm.torch

CUES, OBSERVATION = 4, 16


class Recall:
    """Episodes of 4 to 8 steps, many at once. Observations: the cue at the first step, noise, and whether it is the last."""

    def __init__(self, count, generator):
        self.count, self.generator = count, generator
        self.cue = torch.zeros(count, dtype=torch.long)
        self.age = torch.zeros(count, dtype=torch.long)
        self.length = torch.zeros(count, dtype=torch.long)
        self.begin(torch.ones(count, dtype=torch.bool))

    def begin(self, which):
        def draw(low, high):
            return torch.randint(low, high, (self.count,), generator=self.generator)

        self.cue = torch.where(which, draw(0, CUES), self.cue)
        self.length = torch.where(which, draw(4, 9), self.length)
        self.age = torch.where(which, torch.zeros_like(self.age), self.age)

    def observe(self):
        seen = 0.1 * torch.randn(self.count, OBSERVATION, generator=self.generator)
        seen[:, :CUES] += nn.functional.one_hot(self.cue, CUES) * (self.age == 0)[:, None]
        seen[:, CUES] += (self.age == self.length - 1).float()
        return seen

    def step(self, actions):
        """Rewards, and which episodes ended (their places begin anew)."""
        last = self.age == self.length - 1
        rewards = (last & (actions == self.cue)).float()
        self.age = self.age + 1
        self.begin(last)
        return rewards, last


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(OBSERVATION, 512), nn.ReLU())
        self.lstm = turbolstm.torch.LSTM(512, 128)
        self.policy, self.value = nn.Linear(128, CUES), nn.Linear(128, 1)

    def forward(self, observations, states, begins):
        """[T, N, ..] with begins [T, N]: where an episode begins, the state is zero before."""
        hidden, states = self.lstm(self.features(observations), states, reset=begins)
        return torch.distributions.Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1), states


def rollout(agent, world, states, begins, steps):
    """What happened, by name [T, N, ..]; the states and begins behind it; rewards of the episodes that ended."""
    rows = {name: [] for name in ("seen", "begins", "actions", "log_probs", "values", "rewards")}
    ended = []
    with torch.no_grad():
        for _ in range(steps):
            seen = world.observe()
            policy, value, states = agent(seen[None], states, begins[None])
            action = policy.sample()[0]
            rewards, ends = world.step(action)
            ended += rewards[ends].tolist()
            for name, row in zip(rows, (seen, begins, action, policy.log_prob(action[None])[0], value[0], rewards)):
                rows[name].append(row)
            begins = ends
        next_value = agent(world.observe()[None], states, begins[None])[1][0]
    return {name: torch.stack(row) for name, row in rows.items()}, states, begins, next_value, ended


def advantages(data, begins, next_value, discount=0.99, trace=0.95):
    result, last = torch.zeros_like(data["rewards"]), 0.0
    for t in reversed(range(len(result))):
        goes_on = 1.0 - (begins if t == len(result) - 1 else data["begins"][t + 1]).float()
        after = next_value if t == len(result) - 1 else data["values"][t + 1]
        error = data["rewards"][t] + discount * after * goes_on - data["values"][t]
        result[t] = last = error + discount * trace * goes_on * last
    return result


def update(agent, optimizer, data, states, gains, epochs=4, parts=4):
    returns = gains + data["values"]
    for _ in range(epochs):
        for some in torch.randperm(gains.shape[1]).chunk(parts):  # whole sequences, as the state wants
            before = tuple(state[:, some].contiguous() for state in states)
            policy, values, _ = agent(data["seen"][:, some], before, data["begins"][:, some])
            ratio = (policy.log_prob(data["actions"][:, some]) - data["log_probs"][:, some]).exp()
            gain = gains[:, some]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            loss = -torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = loss + 0.5 * (values - returns[:, some]).square().mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--environments", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(1)
    world = Recall(options.environments, torch.Generator().manual_seed(2))
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), 1e-3, eps=1e-5)
    states = tuple(torch.zeros(1, options.environments, 128) for _ in range(2))
    begins = torch.ones(options.environments, dtype=torch.bool)
    start = time.perf_counter()
    for number in range(1, options.updates + 1):
        before = states
        data, states, begins, next_value, ended = rollout(agent, world, states, begins, options.steps)
        update(agent, optimizer, data, before, advantages(data, begins, next_value))
        if number % 5 == 0 or number == options.updates:
            print(f"update {number}: {sum(ended) / len(ended):.3f} of {len(ended)} cues recalled")
    print(f"{options.updates * options.steps * options.environments / (time.perf_counter() - start):.0f} steps a second")


if __name__ == "__main__":
    main()
