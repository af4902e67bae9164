"""Measures SWE-ReX 1.4.0 in this process (its deployment `local`), for `cargo bench --bench executors`.

Reads words from stdin, and answers each with milliseconds: `open` starts a runtime and its shell (the one before
is ended), `run` runs `true` in it.
"""

import asyncio
import logging
import sys
import time

from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

logging.disable(logging.CRITICAL)


async def main():
    deployment = None
    for word in sys.stdin:
        if word.strip() == "open" and deployment:
            await deployment.stop()
        begin = time.perf_counter()
        if word.strip() == "open":
            deployment = LocalDeployment()
            await deployment.start()
            await deployment.runtime.create_session(CreateBashSessionRequest())
        else:
            found = await deployment.runtime.run_in_session(BashAction(command="true"))
            assert found.exit_code == 0, found
        print((time.perf_counter() - begin) * 1000, flush=True)
    if deployment:
        await deployment.stop()


asyncio.run(main())
