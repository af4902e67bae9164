"""mswea-host as an agent of Harbor (0.23 or later).

    harbor run -p TASK -a mswea_harbor:MsweaHost -m openai/gpt-5

The binary is copied into the container; nothing is installed or downloaded there. MSWEA_HOST_BINARY names it, or
`--ak binary=PATH`. `mswea_harbor:MsweaAsMini` is Harbor's own adapter of mini-swe-agent, with the binary in its place.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, NonZeroAgentExitCodeError, with_prompt_template
from harbor.agents.installed.mini_swe_agent import MiniSweAgent

REMOTE = "/usr/local/bin/mswea-host"
RUN = "mswea"  # RUN.traj.json, RUN.events.jsonl
ATIF = "trajectory.json"
STATUS = "exit_status.txt"


class ContextLengthExceededError(NonZeroAgentExitCodeError):
    """Has the name of Harbor's own, which trainers look for, and is of the kind after which Harbor still verifies."""


def find_binary(binary):
    return Path(binary or os.environ.get("MSWEA_HOST_BINARY", "mswea-host")).resolve()


class MsweaHost(BaseInstalledAgent):
    capabilities = AgentCapabilities(atif=True)

    def __init__(
        self,
        *args,
        binary=None,
        config_file=None,
        cost_limit=0,
        step_limit=0,
        api_base=None,
        llm_kwargs=None,
        collect_rollout_details=False,
        session_id=None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.router_session = session_id  # Harbor sets `session_id` to the trial's name.
        self.binary = find_binary(binary)
        self.config_file = config_file
        self.flags = ["-l", str(float(cost_limit)), "--step-limit", str(int(step_limit))]
        if api_base:
            self.flags += ["--base-url", api_base]
        parameters = dict(llm_kwargs or {})
        if collect_rollout_details:
            parameters["logprobs"] = True
            parameters["extra_body"] = {**parameters.get("extra_body", {}), "return_token_ids": True}
        for name, value in parameters.items():
            self.flags += ["-c", f"model.model_kwargs.{name}={json.dumps(value)}"]

    @staticmethod
    def name():
        return "mswea-host"

    def get_version_command(self):
        return f"{REMOTE} --version"

    def parse_version(self, stdout):
        return stdout.split()[-1]

    async def install(self, environment):
        await environment.upload_file(self.binary, REMOTE)
        await self.exec_as_root(environment, f"chmod 755 {REMOTE} && {REMOTE} --version")

    @with_prompt_template
    async def run(self, instruction, environment, context):
        logs = self.environment_logs_dir
        # The key and the address of the chosen provider, and no other variable.
        provider = self.model_name.split("/")[0].upper()
        names = [f"{provider}_{name}" for name in ("API_KEY", "API_BASE", "BASE_URL")]
        env = {name: os.environ[name] for name in names if name in os.environ} | self.extra_env
        words = [REMOTE, "-m", self.model_name, "-t", instruction, "-o", f"{logs}/{RUN}.traj.json"]
        words += ["--atif", f"{logs}/{ATIF}", "--on-end", f'echo "$MSWEA_EXIT_STATUS" >{logs}/{STATUS}']
        words += self.flags
        session = self.router_session or self.session_id
        if session:
            words += ["--session-header", f"X-Session-ID={session}"]
        if self.config_file:
            await environment.upload_file(self.config_file, "/tmp/mswea.toml")
            words += ["-c", "/tmp/mswea.toml"]
        # A limit is a result of the agent, and no failure of the trial. What the model's commands print must not be
        # taken for a failure either, so only a failure's last lines are shown.
        script = (
            f"{shlex.join(words)} >{logs}/submission.txt 2>{logs}/mswea.txt </dev/null; code=$?; "
            f"case $code in 0|1|3|4) exit 0;; esac; tail -n 20 {logs}/mswea.txt; exit $code"
        )
        try:
            await self.exec_as_agent(environment, script, env=env)
        except NonZeroAgentExitCodeError as error:
            status = await environment.exec(f"cat {logs}/{STATUS}")
            if (status.stdout or "").strip() == "ContextWindowExceededError":
                raise ContextLengthExceededError("the history is longer than the model's context") from error
            raise

    def populate_context_post_run(self, context):
        atif, journal = self.logs_dir / ATIF, self.logs_dir / f"{RUN}.events.jsonl"
        if not atif.exists() and journal.exists():
            # The time of the task was over, and the run was killed: its journal has all that it did.
            export = [self.binary, "export", journal, "--to", "atif", "-o", atif]
            subprocess.run(export, check=True, timeout=60)
        if not atif.exists():
            return
        trajectory = json.loads(atif.read_text())
        final = trajectory.get("final_metrics") or {}
        context.n_input_tokens = final.get("total_prompt_tokens")
        context.n_output_tokens = final.get("total_completion_tokens")
        context.n_cache_tokens = final.get("total_cached_tokens")
        context.cost_usd = final.get("total_cost_usd")
        queries = [step for step in trajectory["steps"] if step.get("llm_call_count")]
        status = (trajectory.get("extra") or {}).get("exit_status")
        context.metadata = {"exit_status": status, "n_episodes": len(queries)}
        # For trainers: a request and its reply a turn, if the server has told the ids of all of them.
        turns = [step.get("metrics", {}) for step in queries]
        names = ["prompt_token_ids", "completion_token_ids"]
        if turns and all(name in turn for turn in turns for name in names):
            # Log probabilities are of use only if each belongs to an id.
            if all(len(turn.get("logprobs", [])) == len(turn["completion_token_ids"]) for turn in turns):
                names.append("logprobs")
            context.rollout_details = [{name: [turn[name] for turn in turns] for name in names}]


class MsweaAsMini(MiniSweAgent):
    """Harbor's adapter of mini-swe-agent: only what it installs is another program."""

    def __init__(self, *args, binary=None, **kwargs):
        # As mini-swe-agent does, end with 0 unless it was an error.
        kwargs["extra_env"] = {"MSWEA_EXIT_CODES": "mini", **(kwargs.get("extra_env") or {})}
        super().__init__(*args, **kwargs)
        self.binary = find_binary(binary)

    def get_version_command(self):
        return "mini-swe-agent --version"

    async def install(self, environment):
        program = "/usr/local/bin/mini-swe-agent"
        await environment.upload_file(self.binary, program)
        await self.exec_as_root(environment, f"chmod 755 {program} && {program} --help")
