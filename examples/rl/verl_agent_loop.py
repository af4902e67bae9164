"""An agent loop of verl that runs mswea-host. In the file of `actor_rollout_ref.rollout.agent.agent_loop_config_path`:

    - name: mswea_agent
      _target_: verl_agent_loop.MsweaAgentLoop
      model: hosted_vllm/policy
      base_url: http://GATEWAY/sessions/{session}/v1
      folder: /data/episodes

The rows of the data set have `agent_name: mswea_agent`, and in `extra_info` the shell command `check`.
"""

import asyncio
import json
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import rollout

try:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
except ImportError:  # The program below runs without verl.
    AgentLoopBase, AgentLoopMetrics, AgentLoopOutput = object, SimpleNamespace, SimpleNamespace


class MsweaAgentLoop(AgentLoopBase):
    def __init__(self, *args, model, base_url, folder, seconds=600, kill_after=None, step_limit=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.model, self.base_url, self.folder = model, base_url, Path(folder)
        self.limits = dict(seconds=seconds, kill_after=kill_after, step_limit=step_limit)

    async def run(self, sampling_params, **kwargs):
        session = uuid.uuid4().hex
        task = list(kwargs["raw_prompt"])[-1]["content"]
        check = (kwargs.get("extra_info") or {}).get("check")
        # verl's own name for what the API calls so.
        parameters = {name: value for name, value in sampling_params.items() if name in ("temperature", "top_p")}
        run = dict(session=session, check=check, parameters=parameters, **self.limits)
        begin = time.monotonic()
        episode = await asyncio.to_thread(
            rollout.run, task, self.model, self.base_url, self.folder / session, **run
        )
        if episode.kind == "error" or not episode.turns:
            # verl has no field for it, and must not learn from it.
            raise RuntimeError(f"episode {session}: {episode.status}")
        # After a compaction, only the first chain is one sequence of tokens with the prompt.
        chains = episode.chains()
        chain = chains[0]
        is_masked = episode.kind == "timeout"
        return AgentLoopOutput(
            prompt_ids=chain.prompt,
            response_ids=chain.response,
            response_mask=[0] * len(chain.mask) if is_masked else chain.mask,
            response_logprobs=chain.logprobs,
            reward_score=0.0 if is_masked else episode.reward,
            num_turns=2 * len(episode.turns),
            metrics=AgentLoopMetrics(generate_sequences=time.monotonic() - begin),
            extra_fields={"exit_status": episode.status, "kind": episode.kind, "chains": len(chains)},
        )


def main():
    parser = rollout.arguments(__doc__)
    parser.add_argument("task")
    it = parser.parse_args()
    if AgentLoopBase is not object:
        parser.error("verl is installed: let it make the loop")
    limits = dict(seconds=it.seconds, kill_after=it.kill_after, step_limit=it.step_limit)
    loop = MsweaAgentLoop(model=it.model, base_url=it.base_url, folder=it.folder, **limits)
    prompt = [{"role": "user", "content": it.task}]
    row = dict(raw_prompt=prompt, extra_info={"check": it.check})
    print(json.dumps(asyncio.run(loop.run({"temperature": 1.0, "top_k": -1}, **row)), default=vars))


if __name__ == "__main__":
    main()
