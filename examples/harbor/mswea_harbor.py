"""mswea-host as an agent of Harbor (0.23 or later).

    harbor run -p TASK -a mswea_harbor:MsweaHost -m openai/gpt-5

The binary is copied into the container; nothing is installed or downloaded there. MSWEA_HOST_BINARY names it, or
`--ak binary=PATH`.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template

REMOTE = "/usr/local/bin/mswea-host"
RUN = "mswea"  # RUN.traj.json, RUN.events.jsonl
ATIF = "trajectory.json"


class MsweaHost(BaseInstalledAgent):
    capabilities = AgentCapabilities(atif=True)

    def __init__(self, *args, binary=None, config_file=None, cost_limit=0, step_limit=0, **kwargs):
        super().__init__(*args, **kwargs)
        self.binary = Path(binary or os.environ.get("MSWEA_HOST_BINARY", "mswea-host")).resolve()
        self.config_file = config_file
        self.limits = ["-l", str(float(cost_limit)), "--step-limit", str(int(step_limit))]

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
        words += ["--atif", f"{logs}/{ATIF}", *self.limits]
        if self.config_file:
            await environment.upload_file(self.config_file, "/tmp/mswea.toml")
            words += ["-c", "/tmp/mswea.toml"]
        # A limit is a result of the agent, and no failure of the trial. What the model's commands print must not be
        # taken for a failure either, so only a failure's last lines are shown.
        script = (
            f"{shlex.join(words)} >{logs}/submission.txt 2>{logs}/mswea.txt </dev/null; code=$?; "
            f"case $code in 0|1|3|4) exit 0;; esac; tail -n 20 {logs}/mswea.txt; exit $code"
        )
        await self.exec_as_agent(environment, script, env=env)

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
        context.metadata = {"exit_status": (trajectory.get("extra") or {}).get("exit_status")}
