#!/usr/bin/env python3
"""Makes the price table that is in the binary, and checks the prices against litellm.

    python3 tests/tooling/prices.py table target/debug/mswea-host
    python3 tests/tooling/prices.py vectors > host/provider/src/price/vectors.jsonl
    python3 tests/tooling/prices.py vectors --all > /tmp/all.jsonl &&
        MSWEA_PRICE_VECTORS=/tmp/all.jsonl cargo test -p mswea-provider --lib price::vectors

`table` passes the data file of the pinned wheel of litellm to `mswea-host prices update`; litellm's code
is not run. `vectors` needs litellm itself (`pip install litellm==VERSION`) and writes the result of its
`completion_cost` for many models and usages, one JSON object a line: with `--all` for every model of the
table, else for a sample.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import zipfile

VERSION = "1.109.1"
WHEEL_SHA256 = "1c8b4dd671fa0cd0850aa751678704ff77e595fb1e6085b2dc3be39ee19bdaaf"
DATA = "litellm/model_prices_and_context_window_backup.json"
LICENSE = f"litellm-{VERSION}.dist-info/licenses/LICENSE"
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "host" / "data"


def table(host):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, f"litellm=={VERSION}"]
        subprocess.run([*pip, "--platform", "manylinux_2_28_x86_64", "--only-binary=:all:"], check=True)
        (wheel,) = folder.glob("*.whl")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != WHEEL_SHA256:
            sys.exit(f"the wheel has the digest {digest}, not {WHEEL_SHA256}: was it replaced?")
        with zipfile.ZipFile(wheel) as unpacked:
            (folder / "prices.json").write_bytes(unpacked.read(DATA))
            (FOLDER / "prices.LICENSE").write_bytes(unpacked.read(LICENSE))
        update = [host, "prices", "update", folder / "prices.json", "--source", f"litellm {VERSION}"]
        subprocess.run([*update, "--output", FOLDER / "prices.table"], check=True)


# input, read from the cache, written to the cache, the part written for an hour, output, reasoning
USAGES = [
    [1_000, 0, 0, 0, 500, 0],
    [100_000, 80_000, 15_000, 0, 2_000, 0],
    [30_000, 10_000, 5_000, 2_000, 2_000, 1_500],
    [250_000, 200_000, 1_000, 400, 3_000, 100],
    [600_000, 0, 0, 0, 10_000, 9_000],
]
EDGES = [[count, 0, 0, 0, 10, 0] for k in (32, 100, 128, 200, 256, 272, 512) for count in (k * 1000, k * 1000 + 1)]
TIERS = ["default", "flex", "priority", "fast", "ultrafast"]
# For models of these providers, litellm asks for a login.
LOGIN = ("github_copilot", "chatgpt")
# A time on a Friday when every price is the standard one, and other times of the week.
NOON = datetime.datetime(2026, 11, 20, 8, 30, tzinfo=datetime.timezone.utc)
TIMES = [NOON + datetime.timedelta(hours=hours) for hours in (-8, -4, 4, 15, 24, 60)]


def cases(prices):
    for name, entry in sorted(prices.items()):
        if name == "sample_spec" or entry.get("mode", "chat") not in ("chat", "responses", "completion"):
            continue
        if entry.get("litellm_provider") in LOGIN:
            continue
        keys = " ".join(entry)
        for usage in USAGES:
            yield name, usage, None, NOON
        if "_above_" in keys or "tiered_pricing" in keys:
            for usage in EDGES:
                yield name, usage, None, NOON
        if any(f"_{tier}" in keys for tier in TIERS):
            for tier in TIERS:
                for usage in USAGES[1:4]:
                    yield name, usage, tier, NOON
        if "off_peak_pricing" in keys:
            for at in TIMES:
                yield name, USAGES[2], None, at


def cost(litellm, name, usage, tier):
    from litellm.types.utils import (
        CacheCreationTokenDetails,
        CompletionTokensDetailsWrapper,
        ModelResponse,
        PromptTokensDetailsWrapper,
        Usage,
    )

    given, read, write, hour, output, reasoning = usage
    details = {"cached_tokens": read, "cache_creation_tokens": write}
    if hour:
        details["cache_creation_token_details"] = CacheCreationTokenDetails(
            ephemeral_5m_input_tokens=write - hour, ephemeral_1h_input_tokens=hour
        )
    response = ModelResponse(model=name)
    response.usage = Usage(
        prompt_tokens=given,
        completion_tokens=output,
        total_tokens=given + output,
        prompt_tokens_details=PromptTokensDetailsWrapper(**details) if read or write else None,
        completion_tokens_details=CompletionTokensDetailsWrapper(reasoning_tokens=reasoning) if reasoning else None,
    )
    if tier:
        response.service_tier = tier
    try:
        return litellm.cost_calculator.completion_cost(response, model=name)
    except Exception:  # the model has no price
        return None


def vectors(everything):
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm
    from litellm.litellm_core_utils.llm_cost_calc import utils

    litellm.suppress_debug_info = True
    prices = json.loads((pathlib.Path(litellm.__file__).parent / pathlib.Path(DATA).name).read_text())
    wanted = list(cases(prices))
    if not everything:
        chance = random.Random(7)
        special = [case for case in wanted if case[3] != NOON or case[2] or case[1] in EDGES]
        plain = [case for case in wanted if case not in special]
        wanted = sorted(chance.sample(special, 250) + chance.sample(plain, 350), key=str)
    for name, usage, tier, at in wanted:
        utils.current_billing_time = lambda at=at: at
        try:
            model, provider, _, _ = litellm.get_llm_provider(name)
        except Exception:  # the file lists it under a name that litellm itself can't resolve
            continue
        case = {"provider": provider, "model": model, "usage": usage, "at": int(at.timestamp())}
        if tier:
            case["tier"] = tier
        print(json.dumps({**case, "cost": cost(litellm, name, usage, tier)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table").add_argument("host", help="the program mswea-host")
    commands.add_parser("vectors").add_argument("--all", action="store_true")
    args = parser.parse_args()
    if args.command == "table":
        table(args.host)
    else:
        vectors(args.all)


main()
