//! The classes of environments: their names, their defaults, and which keys apply to which.

/// The place where commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvironmentKind {
    /// On this machine, without isolation.
    Local,
    /// In a container of docker, podman or a compatible program.
    Container,
    /// In a sandbox folder that apptainer or singularity makes from an image.
    Singularity,
    /// In a bubblewrap sandbox on this machine.
    Bubblewrap,
    /// On another machine, through `mswea-host runtime serve` there.
    Remote,
    /// At a place that a program reaches, such as `ssh HOST`.
    Command,
    /// Through a server of SWE-ReX.
    Swerex,
}

/// A class of the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvironmentClass {
    /// Its name.
    pub name: &'static str,
    /// The place where its commands run.
    pub kind: EnvironmentKind,
    /// The program that it needs.
    pub executable: Option<&'static str>,
    /// The environment variable that names another program, as in mini-swe-agent.
    pub variable: Option<&'static str>,
}

const fn class(
    name: &'static str,
    kind: EnvironmentKind,
    executable: Option<&'static str>,
    variable: Option<&'static str>,
) -> EnvironmentClass {
    EnvironmentClass {
        name,
        kind,
        executable,
        variable,
    }
}

const CLASSES: &[EnvironmentClass] = &[
    class(NAMES[0], EnvironmentKind::Local, None, None),
    class(
        NAMES[1],
        EnvironmentKind::Container,
        Some("docker"),
        Some("MSWEA_DOCKER_EXECUTABLE"),
    ),
    class(NAMES[2], EnvironmentKind::Container, Some("podman"), None),
    class(
        NAMES[3],
        EnvironmentKind::Singularity,
        Some("singularity"),
        Some("MSWEA_SINGULARITY_EXECUTABLE"),
    ),
    class(
        NAMES[4],
        EnvironmentKind::Singularity,
        Some("apptainer"),
        None,
    ),
    class(
        NAMES[5],
        EnvironmentKind::Bubblewrap,
        Some("bwrap"),
        Some("MSWEA_BUBBLEWRAP_EXECUTABLE"),
    ),
    class(NAMES[6], EnvironmentKind::Remote, None, None),
    class(NAMES[7], EnvironmentKind::Command, None, None),
    class(NAMES[8], EnvironmentKind::Swerex, None, None),
];

/// The names that a config may use. The last ones are mini-swe-agent's classes that this host does
/// not have; they are refused after all layers are merged, because a later layer may replace them.
pub const NAMES: &[&str] = &[
    "local",
    "docker",
    "podman",
    "singularity",
    "apptainer",
    "bubblewrap",
    "remote",
    "command",
    "swerex",
    "swerex_docker",
    "swerex_modal",
    "contree",
];

/// The class of a name; none for the names that this host does not have.
pub fn find(name: &str) -> Option<&'static EnvironmentClass> {
    CLASSES.iter().find(|class| class.name == name)
}

/// The remedy for a class that this host does not have.
pub fn hint(name: &str) -> String {
    match name {
        "swerex_docker" => {
            "write `docker`: it needs no server in the image; `swerex` uses a server of \
                            SWE-ReX that runs already"
                .to_owned()
        }
        _ => "run mswea-host where the commands should run, for example in the container, with \
              `-c environment.environment_class=local`"
            .to_owned(),
    }
}

/// The kinds in which the shell of a session may have a terminal or none.
const CHOOSING: &[EnvironmentKind] = &[
    EnvironmentKind::Local,
    EnvironmentKind::Container,
    EnvironmentKind::Bubblewrap,
    EnvironmentKind::Singularity,
    EnvironmentKind::Remote,
    EnvironmentKind::Command,
];

/// The kinds that are a server.
const SERVERS: &[EnvironmentKind] = &[EnvironmentKind::Remote, EnvironmentKind::Swerex];

/// Keys of `[environment]` that apply to some kinds only.
const SPECIAL: &[(&str, &[EnvironmentKind])] = &[
    (
        "image",
        &[
            EnvironmentKind::Container,
            EnvironmentKind::Singularity,
            EnvironmentKind::Bubblewrap,
        ],
    ),
    (
        "forward_env",
        &[EnvironmentKind::Container, EnvironmentKind::Singularity],
    ),
    (
        "executable",
        &[
            EnvironmentKind::Container,
            EnvironmentKind::Singularity,
            EnvironmentKind::Bubblewrap,
        ],
    ),
    ("run_args", &[EnvironmentKind::Container]),
    ("container_timeout", &[EnvironmentKind::Container]),
    ("pull_timeout", &[EnvironmentKind::Container]),
    ("start_timeout", &[EnvironmentKind::Container]),
    ("transport", &[EnvironmentKind::Container]),
    ("fast_path", &[EnvironmentKind::Container]),
    ("keep_container", &[EnvironmentKind::Container]),
    ("user", &[EnvironmentKind::Container]),
    ("network", &[EnvironmentKind::Container]),
    ("mounts", &[EnvironmentKind::Container]),
    ("memory", &[EnvironmentKind::Container]),
    ("cpus", &[EnvironmentKind::Container]),
    ("platform", &[EnvironmentKind::Container]),
    ("sandbox_build_retries", &[EnvironmentKind::Singularity]),
    (
        "build_timeout",
        &[EnvironmentKind::Singularity, EnvironmentKind::Bubblewrap],
    ),
    ("global_args", &[EnvironmentKind::Singularity]),
    ("exec_args", &[EnvironmentKind::Singularity]),
    ("wrapper_args", &[EnvironmentKind::Bubblewrap]),
    ("url", SERVERS),
    ("token_file", SERVERS),
    ("token_env", SERVERS),
    ("ca_file", SERVERS),
    ("reconnect_seconds", &[EnvironmentKind::Remote]),
    ("connect", &[EnvironmentKind::Command]),
    ("connect_timeout", &[EnvironmentKind::Command]),
    ("pty", CHOOSING),
    ("sandbox", &[EnvironmentKind::Local]),
    ("sandbox_network", &[EnvironmentKind::Local]),
    ("sandbox_sockets", &[EnvironmentKind::Local]),
    ("writable", &[EnvironmentKind::Local]),
    (
        "interpreter",
        &[
            EnvironmentKind::Local,
            EnvironmentKind::Container,
            EnvironmentKind::Bubblewrap,
            EnvironmentKind::Remote,
            EnvironmentKind::Command,
            EnvironmentKind::Swerex,
        ],
    ),
    (
        "env_allow",
        &[
            EnvironmentKind::Local,
            EnvironmentKind::Command,
            EnvironmentKind::Bubblewrap,
            EnvironmentKind::Singularity,
        ],
    ),
];

/// The classes to which a key of `[environment]` applies; none if it applies to all.
pub fn classes_of(key: &str) -> Option<Vec<&'static str>> {
    let (_, kinds) = SPECIAL.iter().find(|(name, _)| *name == key)?;
    let names = CLASSES.iter().filter(|class| kinds.contains(&class.kind));
    Some(names.map(|class| class.name).collect())
}

impl EnvironmentKind {
    /// The interpreter of commands if the config sets none.
    pub fn interpreter(self) -> &'static [&'static str] {
        match self {
            Self::Container => &["bash", "-lc"],
            Self::Singularity | Self::Bubblewrap | Self::Remote | Self::Command | Self::Swerex => {
                &["bash", "-c"]
            }
            Self::Local => &["/bin/sh", "-c"],
        }
    }

    /// The working directory of commands if the config sets none.
    pub fn cwd(self, has_image: bool) -> &'static str {
        match self {
            Self::Container | Self::Singularity => "/",
            Self::Bubblewrap if has_image => "/",
            Self::Local | Self::Bubblewrap | Self::Remote | Self::Command | Self::Swerex => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::KEYS;
    use super::*;

    #[test]
    fn every_special_key_is_a_key_and_every_class_is_named() {
        for (name, kinds) in SPECIAL {
            let path = format!("environment.{name}");
            assert!(KEYS.iter().any(|key| key.path == path), "{name}");
            assert!(!kinds.is_empty());
        }
        for class in CLASSES {
            assert!(NAMES.contains(&class.name));
        }
        assert_eq!(classes_of("wrapper_args"), Some(vec!["bubblewrap"]));
        assert_eq!(classes_of("cwd"), None);
        assert!(find("contree").is_none());
    }
}
