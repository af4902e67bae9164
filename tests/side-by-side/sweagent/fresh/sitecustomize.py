"""For recordings: what a run has left is removed before the next one starts, as it is in a new container.

SWE-agent's local deployment works in `/` and `/root`, and a second start finds the first one's files there.
"""

import importlib.abc
import importlib.machinery
import shutil
import sys
from pathlib import Path

LEFT = ("/sbsrepo", "/root/tools", "/root/model.patch", "/root/state.json", "/root/.swe-agent-env")


def be_patient():
    """Waits longer for a shell to start, as is needed on a busy machine. These are no time limits of commands."""
    import pexpect

    expect = pexpect.spawn.expect

    def patient(self, pattern, timeout=-1, **more):
        return expect(self, pattern, timeout=timeout * 10 if timeout in (10, 25) else timeout, **more)

    pexpect.spawn.expect = patient


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "swerex.deployment.local":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            start = module.LocalDeployment.start

            async def fresh(self):
                for place in map(Path, LEFT):
                    shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)
                await start(self)

            module.LocalDeployment.start = fresh
            be_patient()

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
