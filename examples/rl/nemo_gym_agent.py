"""mswea-host as a service for NeMo Gym's `remote_agent`: POST /v1/responses runs one episode.

Gym makes the task, verifies and gives the reward. What the agent has run itself is in the answer as pairs of a call
and its output; the ids of the tokens are on the first item of each turn, as Gym's own model servers put them.
An episode without a result is `incomplete`; a fault of the infrastructure is the status 502, and Gym's failure.
A request without a task is the status 400.
"""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import rollout


def text_of(content):
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


def output_of(episode):
    """The items of the Responses API."""
    turns = iter(episode.turns)
    items = []
    for number, step in enumerate(episode.steps):
        if not step.get("llm_call_count"):
            continue
        first = len(items)
        if step["message"] or not step.get("tool_calls"):
            items.append(message(f"msg_{number}", text_of(step["message"])))
        results = (step.get("observation") or {}).get("results", [])
        outputs = {it.get("source_call_id"): text_of(it.get("content")) for it in results}
        for call in step.get("tool_calls", []):
            name, call_id = call["function_name"], call["tool_call_id"]
            arguments = json.dumps(call["arguments"])
            items.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments})
            # Without an output, Gym would take it for a call of its own tools.
            output = outputs.get(call_id, "not executed")
            items.append({"type": "function_call_output", "call_id": call_id, "output": output})
        turn = next(turns)
        items[first]["prompt_token_ids"] = turn.prompt
        items[first]["generation_token_ids"] = turn.reply
        items[first]["generation_log_probs"] = turn.logprobs
    items.append(message("msg_end", episode.submission))
    return items


def message(item_id, text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}


def answer(episode, request):
    metrics = [step["metrics"] for step in episode.steps if "metrics" in step]
    read, written, cached = (
        sum(it.get(name, 0) for it in metrics) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
    )
    is_whole = episode.kind == "complete"
    return {
        "id": f"resp_{episode.session}",
        "object": "response",
        "created_at": int(time.time()),
        "model": request.get("model") or "policy",
        "status": "completed" if is_whole else "incomplete",
        "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
        "output": output_of(episode),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {"exit_status": episode.status, "kind": episode.kind},
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        },
    }


def serve(it):
    class Service(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                request = json.loads(self.rfile.read(max(0, int(self.headers["content-length"]))))
                asked = request["input"]
                task = asked if isinstance(asked, str) else text_of(asked[-1]["content"])
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                self.reply(400, {"error": f"the request has no `input` with a message: {error!r}"})
                return
            names = ("temperature", "top_p")
            parameters = {name: request[name] for name in names if request.get(name) is not None}
            limits = dict(seconds=it.seconds, kill_after=it.kill_after, step_limit=it.step_limit)
            folder = Path(it.folder) / uuid4().hex
            try:
                episode = rollout.run(task, it.model, it.base_url, folder, parameters=parameters, **limits)
                is_fault = episode.kind == "error"
                status, body = (502, {"error": episode.status}) if is_fault else (200, answer(episode, request))
            except (OSError, ValueError) as error:
                status, body = 502, {"error": str(error)}
            self.reply(status, body)

        def reply(self, status, body):
            body = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", it.port), Service)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    parser = rollout.arguments(__doc__)
    parser.add_argument("--port", type=int, default=0)
    serve(parser.parse_args())
