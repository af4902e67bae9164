"""Records what mini-swe-agent's requests look like when litellm puts them into Anthropic's words.

    pip install litellm==1.106.0 && python record_litellm.py > litellm.json

Each case is a call as mini-swe-agent makes it, and the body that arrived at a server of our own.
"""

import http.server
import json
import os
import sys
import threading

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402

arrived = []
REPLY = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
    "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        arrived.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        body = json.dumps(REPLY).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


BASH = [{"type": "function", "function": {
    "name": "bash", "description": "Execute a bash command",
    "parameters": {"type": "object", "required": ["command"], "properties": {
        "command": {"type": "string", "description": "The bash command to execute"}}}}}]
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
SYSTEM = {"role": "system", "content": "You are a helpful assistant.\n"}
TASK = {"role": "user", "content": "Fix  it — now.\n"}
THOUGHT = {"type": "thinking", "thinking": "hm\n", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
LINK = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def call(id, command="ls -la\n\t\"é\""):
    arguments = json.dumps({"command": command})
    return {"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}}


def said(content, *ids, **more):
    out = {"role": "assistant", "content": content, **more}
    if ids:
        out["tool_calls"] = [call(id) for id in ids]
    return out


def result(id, content="<returncode>0</returncode>\n", **more):
    return {"role": "tool", "tool_call_id": id, "content": content, **more}


def user(content):
    return {"role": "user", "content": content}


START = [SYSTEM, TASK]
SONNET = "claude-sonnet-4-5-20250929"
CONVERSATIONS = {
    "first step": START,
    "first step, marked": [SYSTEM, user([text("task", cache_control=MARK)])],
    "marked for an hour": [SYSTEM, user([text("task", cache_control=HOUR)])],
    "marked instructions": [{"role": "system", "content": [text("s", cache_control=MARK)]}, TASK],
    "one call": [*START, said("I look.", "toolu_1"), result("toolu_1")],
    "one call, marked": [*START, said("I look.", "toolu_1"), result("toolu_1", [text("out")], cache_control=MARK)],
    "calls alone": [*START, said(None, "toolu_1", "toolu_2", "toolu_3"), result("toolu_1", ""), result("toolu_2"), result("toolu_3", [text("é")], cache_control=MARK)],
    "several steps": [*START, said("a", "t1"), result("t1"), said(None, "t2"), result("t2"), said("c", "t3"), result("t3", [text("o")], cache_control=MARK)],
    "after a format error": [*START, said("a", "t1"), result("t1"), user("No tool calls found."), user([text("Again.", cache_control=MARK)])],
    "text mode": [*START, said("THOUGHT\n\n```\nls\n```"), user("<output>"), said("more\n\n"), user([text("end", cache_control=MARK)])],
    "two answers in a row": [*START, said("a"), said("b"), user("c")],
    "thinking": [*START, said("a", "t1", thinking_blocks=[THOUGHT]), result("t1")],
    "thinking, redacted": [*START, said(None, "t1", thinking_blocks=[THOUGHT, HIDDEN]), result("t1")],
    "ids of another provider": [*START, said("a", "call:1.x/y"), result("call:1.x/y")],
    "images": [SYSTEM, user([text("see"), IMAGE, LINK, text("and?")])],
    "images in a result": [*START, said("a", "t1"), result("t1", [text("see"), IMAGE])],
    "a marked image": [SYSTEM, user([{**IMAGE, "cache_control": MARK}])],
    "two instructions": [SYSTEM, {"role": "system", "content": "More."}, TASK],
    "no instructions": [TASK],
}
STOCK = {"drop_params": True, "temperature": 0.0, "parallel_tool_calls": True}
CALLS = [(name, SONNET, {"drop_params": True}, messages, BASH) for name, messages in CONVERSATIONS.items()]
CALLS += [("stock, " + name, SONNET, STOCK, messages, BASH) for name, messages in CONVERSATIONS.items()]
CALLS += [("without tools, " + name, SONNET, {"drop_params": True, "temperature": 0.0}, CONVERSATIONS[name], None)
          for name in ["first step, marked", "text mode", "images"]]
KWARGS = [
    {}, {"max_tokens": 100}, {"max_completion_tokens": 100, "max_tokens": 7}, {"top_p": 0.5, "top_k": 3},
    {"temperature": 1}, {"temperature": 0, "top_p": 0.1}, {"stop": "END"}, {"stop": ["a", "b"]}, {"user": "u"},
    {"seed": 1, "n": 1, "logprobs": True, "frequency_penalty": 1, "presence_penalty": 1, "logit_bias": {}},
    {"tool_choice": "auto"}, {"tool_choice": "required"}, {"tool_choice": "none", "parallel_tool_calls": True},
    {"tool_choice": {"type": "function", "function": {"name": "bash"}}}, {"parallel_tool_calls": False},
    {"tool_choice": "required", "parallel_tool_calls": False}, {"timeout": 60, "num_retries": 0, "max_retries": 0},
    {"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"thinking": {"type": "disabled"}},
    {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 3000},
    {"thinking": {"type": "enabled", "budget_tokens": 9000, "display": "omitted"}}, {"thinking": {"type": "adaptive"}},
    *({"reasoning_effort": effort} for effort in ["none", "minimal", "low", "medium", "high", "max"]),
    {"metadata": {"user_id": "u"}}, {"verbosity": "low"}, {"response_format": {"type": "text"}},
]
MODELS = [SONNET, "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-opus-5-5", "claude-fable-5",
          "claude-opus-4-1", "claude-3-5-haiku-latest", "claude-opus-6"]
# If litellm does not know the model, it leaves out `thinking`; this adapter sends it.
CALLS += [(f"{model} {json.dumps(kwargs)}", model, {"drop_params": True, **kwargs}, [TASK], BASH)
          for model in MODELS for kwargs in KWARGS if not ("3-5" in model and "thinking" in kwargs)]


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cases = []
    for name, model, kwargs, messages, tools in CALLS:
        arrived.clear()
        try:
            litellm.completion(
                model=f"anthropic/{model}", messages=json.loads(json.dumps(messages)), tools=tools,
                api_base=f"http://127.0.0.1:{server.server_port}", api_key="k", _skip_mcp_handler=True, **kwargs)
        except Exception as error:
            print(f"left out: {name}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
            continue
        body = arrived[0]
        # The tools are the same in all cases, and the messages are the same in all cases about
        # parameters.
        body["tools"] = bool(body.pop("tools", None))
        case = {"model": model, "kwargs": kwargs, "tools": bool(tools)}
        if messages == [TASK]:
            del body["messages"]
        else:
            case.update(name=name, messages=messages)
        cases.append({**case, "body": body})
    print("[")
    print(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
    print("]")


main()
