//! The shell text that installs bundles, and the reading of what it prints.

use crate::bundle::Bundle;
use crate::place::{ToolsPlace, quoted};

/// Begins a line that names something that is missing.
const MISSING: &str = "mswea-missing ";

/// Makes room for the bundles.
pub fn room(place: &ToolsPlace, bundles: &[Bundle]) -> String {
    let folders: Vec<String> = bundles
        .iter()
        .map(|bundle| place.bundle(&bundle.name))
        .chain([place.program_folder()])
        .map(|folder| quoted(&folder))
        .collect();
    format!(
        "mkdir -p -- {} && rm -rf -- {} {}",
        quoted(&format!("{}/tools", place.root)),
        quoted(&place.patch_file()),
        folders.join(" ")
    )
}

/// Exports the variables, and makes the files of registry and state.
pub fn begin(place: &ToolsPlace, registry: &str) -> String {
    format!(
        "{}export MSWEA_TOOLS=1\n{} && printf '{{}}' > {}",
        place.exports(),
        write_registry(place, registry),
        quoted(&place.state_file())
    )
}

/// Writes the registry.
pub fn write_registry(place: &ToolsPlace, registry: &str) -> String {
    format!(
        "printf '%s' {} > {}",
        quoted(registry),
        quoted(&place.registry_file())
    )
}

/// Installs one bundle.
pub fn bundle(place: &ToolsPlace, bundle: &Bundle) -> String {
    let folder = place.bundle(&bundle.name);
    let bin = format!("{folder}/bin");
    let programs: Vec<String> = bundle
        .programs
        .iter()
        .map(|program| quoted(&format!("{bin}/{program}")))
        .collect();
    let runnable = match programs.is_empty() {
        true => "true".to_owned(),
        false => format!("chmod a+x -- {}", programs.join(" ")),
    };
    let mut text = format!("export PATH={}:\"$PATH\"\n{runnable}", quoted(&bin));
    if bundle.has_install {
        let (folder, script) = (quoted(&folder), quoted(&format!("{folder}/install.sh")));
        text.push_str(&format!(
            " || (exit 1) && mswea_dir=$PWD && cd -- {folder} && . {script}\nmswea_status=$?\ncd -- \
             \"$mswea_dir\"\n{runnable}\nunset mswea_dir\n(exit $mswea_status)"
        ));
    }
    text
}

/// Ends the installation: the variables once more, since an `install.sh` may have changed them; what is
/// missing; and the file from which a later shell gets the variables and functions of this one.
pub fn finish(place: &ToolsPlace, bundles: &[Bundle]) -> String {
    let mut text = String::new();
    for (name, value) in &place.variables {
        text.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    text.push_str(&missing(bundles));
    if bundles.iter().any(|bundle| bundle.is_first_party) {
        text.push_str(&format!(
            "case \"$({} 2>/dev/null)\" in *mswea-toolbox*) ;; *) printf '%s\\n' '{MISSING}program';; esac\n",
            quoted(&place.program())
        ));
    }
    for bundle in bundles {
        let commands = bundle.manifest.commands.iter();
        let commands = commands.map(|command| command.name.as_str());
        let state = bundle.manifest.state_command.as_ref();
        let state = state.and_then(|(command, _)| command.split_whitespace().next());
        for name in commands.chain(state) {
            let line = format!("{MISSING}command {name} {}", bundle.name);
            text.push_str(&format!(
                "command -v -- {} >/dev/null 2>&1 || printf '%s\\n' {}\n",
                quoted(name),
                quoted(&line)
            ));
        }
    }
    let file = quoted(&place.shell_file());
    text.push_str(&format!("{{ export -p; declare -f; }} > {file}"));
    text
}

/// Looks for the interpreters that the programs of the bundles need.
pub fn missing(bundles: &[Bundle]) -> String {
    let mut text = String::new();
    for bundle in bundles {
        for (interpreter, program) in &bundle.interpreters {
            let there = match interpreter.starts_with('/') {
                true => format!("[ -x {} ]", quoted(interpreter)),
                false => format!("command -v -- {} >/dev/null 2>&1", quoted(interpreter)),
            };
            let line = format!(
                "{MISSING}interpreter {interpreter} {} {program}",
                bundle.name
            );
            text.push_str(&format!("{there} || printf '%s\\n' {}\n", quoted(&line)));
        }
    }
    text
}

/// The first thing that the output of [`missing`] or [`finish`] names, as a message.
pub fn complaint(output: &str, bundles: &[Bundle]) -> Option<String> {
    let words = output
        .lines()
        .find_map(|line| line.trim_end().strip_prefix(MISSING))?;
    let words: Vec<&str> = words.split(' ').collect();
    match words[..] {
        ["interpreter", interpreter, bundle, program] => Some(format!(
            "the bundle `{bundle}` needs `{interpreter}`, which the first line of its `bin/{program}` names and \
             which is not in the environment: use an image that has it, install it with \
             `workspace.startup_commands`, or leave out the bundle"
        )),
        ["program"] => Some(format!(
            "the first-party tools are a program for Linux on `{}`, which can't be started in the environment: use \
             an image of this architecture, or the folders of SWE-agent's own bundles",
            mswea_toolbox_bundle::ARCHITECTURE
        )),
        ["command", name, bundle] => {
            let found = bundles.iter().find(|it| it.name == bundle)?;
            let mark = found.manifest.commands.iter().find(|it| it.name == name);
            let mark = mark.map(|command| command.mark);
            let mark = mark.or_else(|| Some(found.manifest.state_command.as_ref()?.1))?;
            let file = found.manifest.file.display();
            Some(format!(
                "{file}:{}:{}: the bundle `{bundle}` has the command `{name}`, and after the installation no \
                 program of this name is found: put it into `bin/`",
                mark.line + 1,
                mark.column + 1
            ))
        }
        _ => None,
    }
}

/// Gives a shell that has begun after the installation the variables and functions of the first one;
/// it stays in its directory.
pub fn revive(place: &ToolsPlace) -> String {
    let file = quoted(&place.shell_file());
    format!(
        "{{ [ -n \"${{MSWEA_TOOLS-}}\" ] || {{ mswea_dir=$(pwd -P); . {file}; cd -- \"$mswea_dir\"; \
         unset mswea_dir; export MSWEA_TOOLS=1; }}; }} >/dev/null 2>&1"
    )
}
