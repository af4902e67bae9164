"""The real client of SWE-ReX 1.4.0 against a server: python swerex_client.py URL KEY FOLDER.

FOLDER is where the server's commands start, on this machine. Prints `all as it should be` at the end.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from swerex.deployment.config import RemoteDeploymentConfig
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerex.runtime.remote import RemoteRuntime

url, key, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])


def same(found, wanted):
    assert found == wanted, f"{found!r} is not {wanted!r}"


async def raises(kind, awaitable):
    try:
        result = await awaitable
    except kind as error:
        assert type(error) is kind, type(error)
        return error
    raise AssertionError(f"no {kind.__name__} but {result!r}")


async def sessions(runtime):
    async def run(command, **more):
        return await runtime.run_in_session(BashAction(command=command, **{"timeout": 10, **more}))

    same((await runtime.create_session(CreateBashSessionRequest())).output, "")
    await raises(SessionExistsError, runtime.create_session(CreateBashSessionRequest()))
    for command, output, code in [
        ("echo hi", "hi\n", 0),
        ("false", "", 1),
        ("cat <<'X'\na $b\nX", "a $b\n", 0),
        ("printf 'a\\xffb'", "a\\xffb", 0),
        ("cd /tmp; export A=1", "", 0),
        ("pwd; echo $A", "/tmp\n1\n", 0),
    ]:
        found = await run(command, check="silent")
        same((found.output, found.exit_code), (output, code))
    await raises(NonZeroExitCodeError, run("false"))
    error = await raises(BashIncorrectSyntaxError, run("echo ("))
    assert "unexpected" in error.extra_info["bash_stderr"], error.extra_info
    await raises(SessionDoesNotExistError, run("true", session="none"))

    await raises(CommandTimeoutError, run("echo begun; sleep 30", timeout=0.3))
    interrupted = await runtime.run_in_session(BashInterruptAction())
    same((interrupted.output, interrupted.exit_code), ("begun", 0))
    same((await run("echo on")).output, "on\n")

    prompt = {"expect": [">>> "], "is_interactive_command": True}
    assert "Python" in (await run("python3", **prompt)).output
    same((await run("print('a' * 3)", **prompt)).output, "aaa")
    same((await run("quit()", is_interactive_quit=True)).exit_code, 0)
    same((await run("echo on")).output, "on\n")

    await runtime.close_session(CloseBashSessionRequest())
    await raises(SessionDoesNotExistError, runtime.close_session(CloseBashSessionRequest()))


async def commands(runtime):
    found = await runtime.execute(Command(command="echo a; echo b >&2; exit 3", shell=True))
    same((found.stdout, found.stderr, found.exit_code), ("a\n", "b\n", 3))
    found = await runtime.execute(
        Command(command=["sh", "-c", "echo a; echo b >&2"], merge_output_streams=True, env={"A": "1"}, cwd="/")
    )
    same((found.stdout, found.stderr, found.exit_code), ("a\nb\n", "", 0))
    await raises(CommandTimeoutError, runtime.execute(Command(command=["sleep", "30"], timeout=0.2)))
    await raises(NonZeroExitCodeError, runtime.execute(Command(command=["false"], check=True)))
    await raises(FileNotFoundError, runtime.execute(Command(command=["nonesuch"])))


async def files(runtime):
    path = str(folder / "new" / "file")
    await runtime.write_file(WriteFileRequest(path=path, content="a\n\u00e9\n"))
    same((await runtime.read_file(ReadFileRequest(path=path))).content, "a\n\u00e9\n")
    await raises(FileNotFoundError, runtime.read_file(ReadFileRequest(path=str(folder / "none"))))
    with tempfile.TemporaryDirectory() as local:
        local = Path(local)
        (local / "sub" / "empty").mkdir(parents=True)
        (local / "sub" / "run").write_text("#!/bin/sh\necho ran\n")
        (local / "sub" / "run").chmod(0o755)
        (local / "large").write_bytes(bytes(range(256)) * 20_000)
        target = folder / "up"
        await runtime.upload(UploadRequest(source_path=str(local), target_path=str(target)))
        same((target / "large").read_bytes(), (local / "large").read_bytes())
        assert (target / "sub" / "empty").is_dir()
        # SWE-ReX's own server loses the permissions.
        found = await runtime.execute(Command(command=[str(target / "sub" / "run")]))
        same(found.stdout, "ran\n")
        one = folder / "deep" / "one"
        await runtime.upload(UploadRequest(source_path=str(local / "large"), target_path=str(one)))
        same(one.read_bytes(), (local / "large").read_bytes())


async def main():
    wrong = RemoteRuntime(host=url, auth_token="wrong", timeout=5)
    found = await wrong.is_alive()
    assert not found.is_alive and "401" in found.message, found
    runtime = RemoteRuntime(host=url, auth_token=key, timeout=5)
    same((await runtime.is_alive()).is_alive, True)
    await sessions(runtime)
    await commands(runtime)
    await files(runtime)
    await runtime.create_session(CreateBashSessionRequest())
    await runtime.close()
    # As SWE-agent reaches it.
    host, _, port = url.rpartition(":")
    deployment = RemoteDeploymentConfig(auth_token=key, host=host, port=int(port)).get_deployment()
    await deployment.start()
    request = CreateBashSessionRequest(startup_source=["/root/.bashrc"], startup_timeout=10)
    await deployment.runtime.create_session(request)
    found = await deployment.runtime.run_in_session(BashAction(command="echo on", timeout=10, check="silent"))
    same(found.output, "on\n")
    await deployment.runtime.close()
    print("all as it should be")


asyncio.run(main())
