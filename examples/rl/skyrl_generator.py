"""A generator of SkyRL whose trajectories are runs of mswea-host, one entry per turn (`step_wise_trajectories`).

As SkyRL's HarborGenerator does, an episode without a result (a time-out, a fault) is masked, and one that the model's
context ended is trained on with the reward 0.
"""

import asyncio
import dataclasses
import json
import uuid
from pathlib import Path

import rollout

try:
    from skyrl.train.generators.base import GeneratorInterface
except ImportError:  # The program below runs without SkyRL.
    GeneratorInterface = object


class MsweaGenerator(GeneratorInterface):
    def __init__(self, model, base_url, folder, **limits):
        self.model, self.base_url, self.folder, self.limits = model, base_url, Path(folder), limits

    async def generate(self, input_batch):
        ids = input_batch["trajectory_ids"]
        parameters = input_batch.get("sampling_params")
        tasks = zip(input_batch["prompts"], input_batch["env_extras"], ids)
        episodes = await asyncio.gather(*(self.episode(*task, parameters) for task in tasks))
        names = ["prompt_token_ids", "response_ids", "rewards", "loss_masks", "stop_reasons", "rollout_logprobs"]
        output = {name: [] for name in [*names, "trajectory_ids", "is_last_step"]}
        for trajectory_id, episode in zip(ids, episodes):
            for row in rows(episode):
                for name, value in {**row, "trajectory_ids": trajectory_id}.items():
                    output[name].append(value)
        kinds = [episode.kind for episode in episodes]
        output["rollout_metrics"] = {f"generate/mswea_{kind}": kinds.count(kind) for kind in sorted(set(kinds))}
        return output

    async def episode(self, prompt, extras, trajectory_id, parameters):
        # Empty: what an earlier episode left there could solve the task.
        folder = self.folder / f"{trajectory_id.instance_id}_{trajectory_id.repetition_id}_{uuid.uuid4().hex[:8]}"
        task = prompt[-1]["content"]
        run = dict(check=extras.get("check"), parameters=parameters, **self.limits)
        return await asyncio.to_thread(rollout.run, task, self.model, self.base_url, folder, **run)


def rows(episode):
    if episode.kind in ("timeout", "error") or not episode.turns:
        yield row([0], [0], 0.0, [0], "agent_timeout" if episode.kind == "timeout" else "error", [0.0], True)
        return
    reason = {"complete": "complete", "limit": "length", "context": "context_length"}[episode.kind]
    reward = 0.0 if episode.kind == "context" else episode.reward
    for turn in episode.turns:
        is_last = turn is episode.turns[-1]
        mask = [1] * len(turn.reply)
        yield row(turn.prompt, turn.reply, reward if is_last else 0.0, mask, reason, turn.logprobs, is_last)


def row(prompt, response, reward, mask, reason, logprobs, is_last):
    return {
        "prompt_token_ids": prompt,
        "response_ids": response,
        "rewards": reward,
        "loss_masks": mask,
        "stop_reasons": reason,
        "rollout_logprobs": logprobs,
        "is_last_step": is_last,
    }


@dataclasses.dataclass
class TrajectoryID:
    """As SkyRL's."""

    instance_id: str
    repetition_id: int


def main():
    parser = rollout.arguments(__doc__)
    parser.add_argument("task", nargs="+")
    it = parser.parse_args()
    limits = dict(seconds=it.seconds, kill_after=it.kill_after, step_limit=it.step_limit)
    generator = MsweaGenerator(it.model, it.base_url, it.folder, **limits)
    batch = {
        "prompts": [[{"role": "user", "content": task}] for task in it.task],
        "env_extras": [{"check": it.check} for _ in it.task],
        "trajectory_ids": [TrajectoryID(f"task{number}", 0) for number in range(len(it.task))],
        "sampling_params": {"temperature": 1.0},
    }
    print(json.dumps(asyncio.run(generator.generate(batch)), default=dataclasses.asdict))


if __name__ == "__main__":
    main()
