"""{{name}}: a simple adapter for servers of chat completions, without streaming.

It sends nothing itself: it returns requests, and decodes responses.
"""

from mswea_sdk import (
    Descriptor,
    HttpRequest,
    Message,
    ModelError,
    Reply,
    Secret,
    SimpleAdapter,
    ToolCall,
    Usage,
    dump_json,
    export,
    parse_json,
)

# The error class for a status; the host retries `rate-limited` and `overloaded`.
CLASSES = {
    400: "bad-request",
    401: "authentication",
    403: "permission",
    404: "not-found",
    429: "rate-limited",
}


class {{pascal_name}}(SimpleAdapter):
    descriptor = Descriptor(
        name="{{name}}",
        version="0.1.0",
        summary="Chat completions, without streaming",
        config_schema={
            "type": "object",
            "properties": {
                "model": {"type": "string", "description": "Name of the model"},
                "base_url": {
                    "type": "string",
                    "default": "http://127.0.0.1:8000/v1",
                    "description": "The API's base URL",
                },
                "api_key": {
                    "type": ["string", "null"],
                    "default": "OPENAI_API_KEY",
                    "description": "NAME of the secret; empty for servers that need none",
                },
            },
            "required": ["model"],
            "additionalProperties": False,
        },
        hosts=["127.0.0.1:8000"],
        secrets=["OPENAI_API_KEY"],
    )

    def configure(self, config):
        self.model = config["model"]
        self.url = config["base_url"].rstrip("/") + "/chat/completions"
        self.api_key = config["api_key"]

    def send(self, history, tools):
        headers = [("content-type", "application/json")]
        if self.api_key:
            # The host fills in the key; a plugin never gets one.
            headers.append(("authorization", Secret(self.api_key, "Bearer ")))
        body = {"model": self.model, "messages": [to_wire(message) for message in history]}
        if tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in tools
            ]
        return HttpRequest("POST", self.url, headers, dump_json(body).encode())

    def receive(self, response):
        text = response.body.decode(errors="replace")
        if response.status != 200:
            class_ = "overloaded" if response.status >= 500 else "bad-request"
            class_ = CLASSES.get(response.status, class_)
            raise ModelError(class_, f"the server answered {response.status}: {text[:500]}")
        try:
            answer = parse_json(text)
            choice = answer["choices"][0]
            message = from_wire(choice["message"])
            used = answer.get("usage") or {}
            usage = Usage(
                input_tokens=used.get("prompt_tokens", 0),
                output_tokens=used.get("completion_tokens", 0),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelError(
                "malformed-response", f"the answer is no chat completion ({error!r}): {text[:500]}"
            ) from None
        return Reply(
            message,
            finish_reason=choice.get("finish_reason") or "",
            usage=usage,
            model=answer.get("model") or self.model,
            response=text,
        )


def to_wire(message):
    wire = {"role": message.role, "content": message.text}
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def from_wire(wire):
    calls = [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in wire.get("tool_calls") or []
    ]
    return Message("assistant", wire.get("content") or "", calls)


export({{pascal_name}})
