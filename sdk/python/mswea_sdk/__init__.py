"""Write plugins for mswea-host in Python.

Derive a class from the class of a kind, give it a `descriptor`, and `export` it::

    class Dollar(Parser):
        descriptor = Descriptor("dollar", "0.1.0", "Runs the lines that begin with `$ `")

        def parse(self, reply):
            ...

    export(Dollar)

Only the module `app` needs a component, so `python -m unittest` can test a plugin.
"""

from . import host
from .errors import ModelError, PluginError
from .export import export
from .json_text import dump_json, parse_json
from .kinds import (
    Adapter,
    Descriptor,
    Formatter,
    Parser,
    Plugin,
    Policy,
    Processor,
    SimpleAdapter,
    SimpleProcessor,
)
from .types import (
    Action,
    Allow,
    Ask,
    Change,
    ContentPart,
    Delta,
    Deny,
    HttpRequest,
    Image,
    Message,
    Opaque,
    Output,
    Problem,
    Query,
    Reasoning,
    Reply,
    Request,
    Response,
    Rewrite,
    Secret,
    Text,
    Tool,
    ToolCall,
    Usage,
    Verdict,
)

__all__ = [
    "Action",
    "Adapter",
    "Allow",
    "Ask",
    "Change",
    "ContentPart",
    "Delta",
    "Deny",
    "Descriptor",
    "Formatter",
    "HttpRequest",
    "Image",
    "Message",
    "ModelError",
    "Opaque",
    "Output",
    "Parser",
    "Plugin",
    "PluginError",
    "Policy",
    "Problem",
    "Processor",
    "Query",
    "Reasoning",
    "Reply",
    "Request",
    "Response",
    "Rewrite",
    "Secret",
    "SimpleAdapter",
    "SimpleProcessor",
    "Text",
    "Tool",
    "ToolCall",
    "Usage",
    "Verdict",
    "dump_json",
    "export",
    "host",
    "parse_json",
]
