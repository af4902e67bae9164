"""An environment of Harbor that needs docker alone. Harbor's own needs docker's compose plugin, which Debian 12 lacks.

The container has the network of this machine, where the model's server is. PLAIN_DOCKER_OPTIONS are more options of
`docker run`.
"""

import asyncio
import os
import shlex
import uuid
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

FOLDERS = ["/logs/agent", "/logs/verifier", "/logs/artifacts", "/tests", "/solution", "/app"]


class PlainDocker(BaseEnvironment):
    container = None

    @staticmethod
    def type():
        return "plain-docker"

    @property
    def capabilities(self):
        return EnvironmentCapabilities()

    def _validate_definition(self):
        if not self.task_env_config.docker_image:
            raise ValueError("the task needs `docker_image` in its [environment]")

    async def docker(self, *words, timeout=None, checked=True):
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "docker", *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout)
        except BaseException:
            process.kill()
            raise
        if checked and process.returncode:
            raise RuntimeError(f"docker {words[0]}: {err.decode(errors='replace')}")
        return ExecResult(
            stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"), return_code=process.returncode
        )

    async def start(self, force_build):
        self.container = f"mswea-harbor-{uuid.uuid4().hex[:12]}"
        options = shlex.split(os.environ.get("PLAIN_DOCKER_OPTIONS", ""))
        await self.docker(
            "run", "-d", "--init", "--rm", "--network", "host", "--name", self.container,
            *options,
            self.task_env_config.docker_image, "sh", "-c", "sleep 600",
        )  # fmt: skip
        await self.docker("exec", self.container, "mkdir", "-p", *FOLDERS)

    async def stop(self, delete):
        if self.container:
            await self.docker("rm", "-f", self.container, checked=False)

    async def upload_file(self, source_path, target_path):
        await self.docker("exec", self.container, "mkdir", "-p", str(Path(target_path).parent))
        await self.docker("cp", str(source_path), f"{self.container}:{target_path}")

    async def upload_dir(self, source_dir, target_dir):
        await self.docker("exec", self.container, "mkdir", "-p", str(target_dir))
        await self.docker("cp", f"{source_dir}/.", f"{self.container}:{target_dir}")

    async def download_file(self, source_path, target_path):
        await self.docker("cp", f"{self.container}:{source_path}", str(target_path))

    async def download_dir(self, source_dir, target_dir):
        Path(target_dir).mkdir(parents=True, exist_ok=True)
        await self.docker("cp", f"{self.container}:{source_dir}/.", str(target_dir))

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None, **_):
        options = [word for pair in (self._merge_env(env) or {}).items() for word in ("-e", "=".join(pair))]
        options += ["-w", cwd] if cwd else []
        user = self._resolve_user(user)
        options += ["-u", str(user)] if user is not None else []
        words = ["exec", *options, self.container, "bash", "-c", command]
        try:
            return await self.docker(*words, timeout=timeout_sec, checked=False)
        except asyncio.TimeoutError:
            return ExecResult(stdout="", stderr="the time is over", return_code=124)
