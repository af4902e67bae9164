//! The config files of mini-swe-agent's package, which its users name without a folder.

use super::presets;

/// A config file of the package.
pub(super) struct OfMini {
    name: &'static str,
    /// Its folder below the package's folder of configs.
    folder: &'static str,
    /// The preset here that corresponds to it.
    pub(super) preset: Option<&'static str>,
}

const fn of_mini(name: &'static str, folder: &'static str, preset: Option<&'static str>) -> OfMini {
    OfMini {
        name,
        folder,
        preset,
    }
}

const OF_MINI: &[OfMini] = &[
    of_mini("mini", "", Some(presets::DEFAULT)),
    of_mini("mini_textbased", "", Some(presets::TEXT)),
    of_mini("default", "", Some(presets::DEFAULT_YAML)),
    of_mini("swebench", "benchmarks/", Some(presets::SWEBENCH)),
    of_mini(
        "swebench_backticks",
        "benchmarks/",
        Some(presets::SWEBENCH_BACKTICKS),
    ),
    of_mini("swebench_xml", "benchmarks/", Some(presets::SWEBENCH_XML)),
    of_mini("programbench", "benchmarks/", Some(presets::PROGRAMBENCH)),
    // Its environment is not supported here.
    of_mini("swebench_modal", "benchmarks/", None),
];

/// The names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    OF_MINI.iter().map(|of_mini| of_mini.name)
}

impl OfMini {
    /// The file of this name; none if there is no such file.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        let stem = name.strip_suffix(".yaml").unwrap_or(name);
        let stem = ["benchmarks/", "extra/"]
            .iter()
            .find_map(|folder| stem.strip_prefix(folder))
            .unwrap_or(stem);
        OF_MINI.iter().find(|known| known.name == stem)
    }

    /// The message that a preset was taken in its place, and how to use the file itself.
    pub(super) fn notice(&self, asked: &str) -> String {
        format!(
            "`{asked}` is a preset with the same meaning and with other prompts; for mini-swe-agent's prompts: {}",
            self.copying()
        )
    }

    /// The command that copies the file here. The package is in `lib` of the environment whose
    /// `bin` holds mini-swe-agent's program; this covers activated environments and the links of
    /// pipx and uv.
    pub(super) fn copying(&self) -> String {
        let Self { name, folder, .. } = self;
        format!(
            "`find \"$(dirname \"$(realpath \"$(command -v mini)\")\")/..\" -path \
             '*/minisweagent/config/{folder}{name}.yaml' -exec cp {{}} . \\;`, then \
             `-c ./{name}.yaml`"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::process::Command;
    use std::{env, fs};

    use super::*;

    /// Makes a Python environment with the package in it.
    fn environment(root: &Path) {
        let packages = root.join("lib/python3.12/site-packages/minisweagent/config/benchmarks");
        fs::create_dir_all(&packages).unwrap();
        fs::write(packages.join("swebench.yaml"), "swebench").unwrap();
        fs::write(packages.join("../mini.yaml"), "mini").unwrap();
        fs::create_dir_all(root.join("bin")).unwrap();
        let program = root.join("bin/mini");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
    }

    #[test]
    fn the_command_copies_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        // An activated environment, and one that a link in another folder leads to, as pipx
        // (`~/.local/bin/mini`) and uv make it.
        let venv = home.join("my project/.venv");
        environment(&venv);
        environment(&home.join(".local/share/uv/tools/mini-swe-agent"));
        let linked = home.join(".local/bin");
        fs::create_dir_all(&linked).unwrap();
        let target = "../share/uv/tools/mini-swe-agent/bin/mini";
        symlink(target, linked.join("mini")).unwrap();
        for (index, bin) in [venv.join("bin"), linked].into_iter().enumerate() {
            let work = home.join(format!("work{index}"));
            fs::create_dir(&work).unwrap();
            let path = env::var_os("PATH").unwrap_or_default();
            let path = env::join_paths([bin].into_iter().chain(env::split_paths(&path))).unwrap();
            for name in ["swebench", "mini"] {
                let told = OfMini::find(name).unwrap().notice("-c x");
                let command = told.split('`').nth(3).unwrap();
                let output = Command::new("sh")
                    .args(["-c", command])
                    .current_dir(&work)
                    .env("PATH", &path)
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{command}\n{output:?}");
                let copied = fs::read_to_string(work.join(format!("{name}.yaml")));
                assert_eq!(copied.unwrap(), name, "{command}\n{output:?}");
            }
        }
    }

    #[test]
    fn every_preset_is_one() {
        for of_mini in OF_MINI {
            let Some(preset) = of_mini.preset else {
                continue;
            };
            let known = presets::NAMES.contains(&preset) || preset == presets::DEFAULT_YAML;
            assert!(known, "{preset}");
        }
        assert!(OfMini::find("text").is_none());
    }
}
