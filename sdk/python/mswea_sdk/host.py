"""The host's functions: a log, and templates.

In unit tests, `log` keeps the lines for `testing.take_log`, and `render` calls the function that
`testing.set_render` has set.
"""

from typing import Any, Callable, Literal, Optional

from .errors import PluginError
from .extra import dump_object
from .json_text import clean

Level = Literal["trace", "debug", "info", "warn", "error"]

LEVELS = ("trace", "debug", "info", "warn", "error")

_kept: list[tuple[str, str]] = []
_render: Optional[Callable[[str, dict[str, Any]], str]] = None


def log(level: Level, text: str) -> None:
    """Writes one line to the host's log, under the plugin's name. Never fails."""
    text = clean(str(text))
    level = level if level in LEVELS else "info"
    _send_log(level, text)


def render(template: str, vars: dict[str, Any]) -> str:
    """Renders a Jinja template in the run's environment. `vars` replace variables of the run with
    the same name (`task`, `cwd`, `n_model_calls`, ...). If the template can't be rendered, raises a
    `PluginError` with the code `template`: do not catch it if the template is in the config."""
    return _send_render(clean(template), dump_object(vars, "vars"))


def _send_log(level: str, text: str) -> None:
    _kept.append((level, text))


def _send_render(template: str, vars: str) -> str:
    if _render is None:
        raise PluginError(
            "internal",
            "there is no host outside of a component; call `mswea_sdk.testing.set_render` first",
        )
    import json

    return _render(template, json.loads(vars))
