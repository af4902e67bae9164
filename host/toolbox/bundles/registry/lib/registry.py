"""The registry for bundles in Python: `from registry import registry`.

The values are in a JSON file, whose path `SWE_AGENT_ENV_FILE` has; `_read_env` and `_write_env` use it, too.
"""

import json
import os
from pathlib import Path


class EnvRegistry:
    """A dictionary in a file: a command can't change the variables of the shell that starts it."""

    def __init__(self, env_file=None):
        self._given = env_file

    @property
    def env_file(self):
        path = self._given or os.environ.get("SWE_AGENT_ENV_FILE", "/root/.swe-agent-env")
        path = Path(path)
        if not path.exists():
            path.write_text("{}", encoding="utf-8")
        return path

    def _values(self):
        return json.loads(self.env_file.read_text(encoding="utf-8"))

    def __getitem__(self, key):
        return self._values()[key]

    def __setitem__(self, key, value):
        values = self._values()
        values[key] = value
        self.env_file.write_text(json.dumps(values), encoding="utf-8")

    def get(self, key, default_value=None, fallback_to_env=True):
        """The value, else the variable of this name, else the default."""
        values = self._values()
        if key in values:
            return values[key]
        return os.environ.get(key, default_value) if fallback_to_env else default_value

    def get_if_none(self, value, key, default_value=None):
        """`value`, or that of the registry if it is None."""
        return self.get(key, default_value) if value is None else value


registry = EnvRegistry()
