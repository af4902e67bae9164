"""Records what litellm sends, parameter by parameter: the source of the tables in
`src/chat/params.rs`, `src/responses/params.rs` and `plugins/models/gemini/src/params.rs`.

    pip install litellm==1.106.0 mini-swe-agent==2.4.6
    python record_litellm.py chat|responses|gemini

One line per model and parameter: the model, whether `drop_params` was set, the parameter, and the
keys of the body beside the model and the messages (or the exception that litellm raised).
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import litellm

SENT = []
ANSWERS = {
    "chat": {
        "id": "x", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "responses": {
        "id": "r", "object": "response", "created_at": 1, "status": "completed", "error": None,
        "model": "m", "output": [], "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": [], "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    },
    "gemini": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]},
                        "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "m", "responseId": "r",
    },
}
MODELS = {
    "chat": ["openai/gpt-5", "openai/gpt-5.1", "openai/o3", "openai/gpt-4.1", "openai/my-local"],
    "responses": ["openai/gpt-5", "openai/gpt-5.1", "openai/gpt-4.1", "openai/my-local"],
    "gemini": ["gemini/gemini-2.5-pro", "gemini/gemini-2.5-flash", "gemini/gemini-3-pro-preview"],
}
PARAMETERS = {
    "temperature": [0.0, 1], "top_p": [0.5], "top_k": [5], "seed": [1], "n": [2], "stop": ["x"],
    "max_tokens": [77], "max_completion_tokens": [99], "max_output_tokens": [5, 99],
    "reasoning_effort": ["none", "minimal", "low", "medium", "high", "xhigh"],
    "reasoning": [{"effort": "low"}], "thinking": [{"type": "enabled", "budget_tokens": 5}],
    "verbosity": ["low"], "text": [{"verbosity": "low"}],
    "response_format": [{"type": "json_object"}], "logprobs": [True], "top_logprobs": [2],
    "frequency_penalty": [1], "presence_penalty": [1], "logit_bias": [{"1": 1}],
    "tool_choice": ["required"], "parallel_tool_calls": [False], "max_tool_calls": [3],
    "modalities": [["text"]], "prediction": [{"a": 1}], "web_search_options": [{}],
    "user": ["u"], "metadata": [{"a": "b"}], "store": [True], "service_tier": ["flex"],
    "truncation": ["auto"], "prompt_cache_key": ["k"], "prompt_cache_retention": ["24h"],
    "safety_identifier": ["s"], "instructions": ["I"], "previous_response_id": ["p"],
    "background": [False], "include": [["reasoning.encrypted_content"]], "prompt": [{"id": "x"}],
    "stream_options": [{"include_usage": True}], "safety_settings": [[{"category": "a"}]],
    "thinkingConfig": [{"thinkingBudget": 3}], "generationConfig": [{"topK": 3}],
    "extra_body": [{"foo": 1}], "timeout": [5], "zzz": [3],
}
NOT_SHOWN = {"model", "messages", "input", "contents"}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        SENT.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        body = json.dumps(ANSWERS[sys.argv[1]]).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    api = sys.argv[1]
    litellm.suppress_debug_info = True
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}" + ("" if api == "gemini" else "/v1")
    turn = [{"role": "user", "content": "U"}]
    for model in MODELS[api]:
        for drop_params in (True, False):
            for name, values in PARAMETERS.items():
                for value in values:
                    kwargs = {"api_base": base, "api_key": "k", "num_retries": 0, name: value}
                    if drop_params:
                        kwargs["drop_params"] = True
                    SENT.clear()
                    try:
                        if api == "responses":
                            litellm.responses(model=model, input=turn, tools=[], **kwargs)
                        else:
                            litellm.completion(model=model, messages=turn, **kwargs)
                        sent = {k: v for k, v in SENT[-1].items() if k not in NOT_SHOWN}
                        outcome = json.dumps(sent)
                    except Exception as error:  # noqa: BLE001
                        outcome = type(error).__name__
                    print(model, drop_params, json.dumps({name: value}), outcome)


main()
