"""Which class the component is made of."""

from typing import Optional, TypeVar

from .kinds import Descriptor, Plugin

P = TypeVar("P", bound=type[Plugin])

exported: Optional[type[Plugin]] = None

# Whether the author's module is imported when the component is first asked, not when it is built;
# see `dev.py`.
late = False


def export(plugin: P) -> P:
    """Makes the component of this class; a last line, or a decorator. It may be of several kinds:
    derive it from all of them."""
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
