"""What a scenario gives to a program: arguments, environment, files, and the server's replies.

A scenario file has a short form of the replies. `expand` writes everything out, as it is recorded beside
the results: there, every reply is a status, headers and a body. So a recording can be played without this
file.
"""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "scenarios"
CONFIGS = HERE / "configs"

# Names that stand for values that differ from run to run, in arguments, variables, files and replies.
URL = "@URL@"
WORK = "@WORK@"
HOME = "@HOME@"

# The variables of every run: no wizard, no banner, no request for prices, no error about an unknown price.
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "sk-ant-dummy",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_GLOBAL_CONFIG_DIR": f"{HOME}/mini",
    "MSWEA_SILENT_STARTUP": "1",
    "OPENAI_API_KEY": "sk-dummy",
}

MODELS = {
    "chat": "openai/test-model",
    "text": "openai/test-model",
    "responses": "openai/test-model",
    "anthropic": "anthropic/test-model",
}

KEYS = {"what", "wire", "configs", "args", "model", "task", "env", "files", "replies", "clock"}
# `text` is the chat wire without tools.
CONFIG_OF = {"chat": "toolcall.yaml", "text": "text.yaml", "responses": "responses.yaml", "anthropic": "anthropic.yaml"}

CREATED = 1700000000


class ScenarioError(Exception):
    """A scenario with an error."""


def names():
    return sorted(path.parent.name for path in SCENARIOS.glob("*/scenario.json"))


def expand(name):
    """The scenario `name` with everything written out."""
    folder = SCENARIOS / name
    told = json.loads((folder / "scenario.json").read_text("utf-8"))
    if unknown := set(told) - KEYS:
        raise ScenarioError(f"{name}: unknown keys {sorted(unknown)}: known are {sorted(KEYS)}")
    wire = told["wire"]
    configs = told.get("configs", [CONFIG_OF[wire]])
    files = {}
    for config in configs:
        own = folder / config
        files[config] = (own if own.exists() else CONFIGS / config).read_text("utf-8")
    for path, text in told.get("files", {}).items():
        files[path] = text if isinstance(text, str) else json.dumps(text, indent=2) + "\n"
    args = [argument for config in configs for argument in ("-c", config)]
    model = told.get("model", MODELS[wire])
    if model is not None:
        args += ["-m", model]
    args += told.get("args", [])
    task = told.get("task", "Do what has to be done.")
    if task is not None:
        args += ["-t", task]
    args += ["-y", "--exit-immediately", "-o", "out.traj.json"]
    env = ENVIRONMENT | told.get("env", {})
    clock = {"clock": told["clock"]} if "clock" in told else {}
    return clock | {
        "what": told["what"],
        "wire": wire,
        "args": args,
        "env": {key: value for key, value in sorted(env.items()) if value is not None},
        "files": files,
        "replies": [reply(wire, number, one) for number, one in enumerate(told["replies"], 1)],
    }


def reply(wire, number, told):
    """A reply as status, headers and body."""
    body = told["body"] if "body" in told else BODIES[wire](number, told)
    out = {"status": told.get("status", 200), "headers": told.get("headers", {}), "body": body}
    return out | {key: told[key] for key in ("delay_ms", "away_ms") if key in told}


def calls_of(number, told):
    """The tool calls: a text is a command, anything else has the keys of a call."""
    for index, call in enumerate(told.get("calls", []), 1):
        call = {"arguments": {"command": call}} if isinstance(call, str) else call
        yield {"id": f"call_{number}_{index}", "name": "bash", "arguments": {}} | call


def as_text(value):
    return value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False)


def chat(number, told):
    calls = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": as_text(call["arguments"])}}
        for call in calls_of(number, told)
    ]
    message = {"role": "assistant", "content": text_of(told)}
    if calls:
        message["tool_calls"] = calls
    message |= told.get("message", {})
    finish = told.get("finish", "tool_calls" if calls else "stop")
    body = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED,
        "model": "test-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": told.get("usage", {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}),
    }
    return body | told.get("top", {})


def text_of(told):
    """The reply's text; `fence` is a command in a fence of the text mode."""
    if "fence" in told:
        return f"{told.get('text', 'Next:')}\n\n```mswea_bash_command\n{told['fence']}\n```\n"
    return told.get("text")


def responses(number, told):
    output = list(told.get("output", []))
    if (text := text_of(told)) is not None:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        output.append({"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": content})
    for index, call in enumerate(calls_of(number, told), 1):
        item = {"id": f"fc_{number}_{index}", "type": "function_call", "status": "completed", "call_id": call["id"]}
        output.append(item | {"name": call["name"], "arguments": as_text(call["arguments"])})
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    }
    body = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "test-model",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": told.get("usage", usage),
        "user": None,
        "metadata": {},
    }
    return body | told.get("top", {})


def anthropic(number, told):
    content = list(told.get("content", []))
    if (text := text_of(told)) is not None:
        content.append({"type": "text", "text": text})
    calls = list(calls_of(number, told))
    content += [{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]} for call in calls]
    body = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "content": content,
        "stop_reason": told.get("finish", "tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": told.get("usage", {"input_tokens": 100, "output_tokens": 10}),
    }
    return body | told.get("top", {})


BODIES = {"chat": chat, "text": chat, "responses": responses, "anthropic": anthropic}
