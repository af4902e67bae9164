//! The kinds of plugins, recognised by a component's exports.

/// A role that a plugin can take.
pub use mswea_core::RoleKind;

/// The contract's package.
pub const PACKAGE: &str = "mswea:plugin";

/// The version of the contract that this host implements. Plugins of the same 0.x line fit.
pub const VERSION: (u32, u32, u32) = (0, 1, 0);

/// An interface's name as a component has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName {
    /// The interface, without package and version.
    pub interface: String,
    /// The version, if it could be parsed.
    pub version: Option<(u32, u32, u32)>,
}

/// Parses `mswea:plugin/action-parser@0.1.0`; `None` for other packages.
pub fn named(name: &str) -> Option<InterfaceName> {
    let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    let (interface, version) = match rest.split_once('@') {
        Some((interface, version)) => (interface, parse_version(version)),
        None => (rest, None),
    };
    Some(InterfaceName {
        interface: interface.to_owned(),
        version,
    })
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let core = text.split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(str::parse::<u32>);
    let version = (
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    );
    numbers.next().is_none().then_some(version)
}

/// Whether a plugin of this version can be loaded: all of one `0.x`, and from 1 on all of one major
/// version.
pub fn compatible(version: (u32, u32, u32)) -> bool {
    if VERSION.0 == 0 {
        version.0 == 0 && version.1 == VERSION.1
    } else {
        version.0 == VERSION.0
    }
}

/// A version as text.
pub fn show(version: (u32, u32, u32)) -> String {
    format!("{}.{}.{}", version.0, version.1, version.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names() {
        let table = [
            (
                "mswea:plugin/action-parser@0.1.0",
                Some(("action-parser", Some((0, 1, 0)))),
            ),
            (
                "mswea:plugin/action-parser@0.2.7-rc.1",
                Some(("action-parser", Some((0, 2, 7)))),
            ),
            ("mswea:plugin/plugin", Some(("plugin", None))),
            ("mswea:plugin/plugin@x", Some(("plugin", None))),
            ("wasi:cli/run@0.2.6", None),
            ("mswea:pluginx/plugin@0.1.0", None),
        ];
        for (name, expected) in table {
            let found = named(name);
            let found = found.as_ref().map(|n| (n.interface.as_str(), n.version));
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn versions() {
        assert!(compatible((0, 1, 0)) && compatible((0, 1, 9)));
        assert!(!compatible((0, 2, 0)) && !compatible((1, 0, 0)) && !compatible((0, 0, 9)));
    }
}
