"""Sets the class of which the component is made."""

from typing import Optional, TypeVar

from .kinds import Descriptor, Plugin

P = TypeVar("P", bound=type[Plugin])

exported: Optional[type[Plugin]] = None

# Whether the author's module is imported at the first call, and not when the component is built;
# see `dev.py`.
late = False


def export(plugin: P) -> P:
    """Makes the component of this class. Call it in the last line, or use it as a decorator. A
    class of several kinds derives from the classes of all of them."""
    global exported
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        raise TypeError(
            f"`export` takes a class that derives from a kind (Parser, Formatter, ...), not {plugin!r}"
        )
    if not isinstance(getattr(plugin, "descriptor", None), Descriptor):
        raise TypeError(
            f"`{plugin.__name__}` has no descriptor; write `descriptor = Descriptor(name, version, "
            "summary)` into the class"
        )
    exported = plugin
    return plugin
