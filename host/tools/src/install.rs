//! Makes the shell text that installs bundles, and reads its output.

use crate::bundle::Bundle;
use crate::place::{ToolsPlace, quoted};

/// The beginning of a line that names a missing program.
const MISSING: &str = "mswea-missing ";

/// The words that bash executes itself, whether or not there are programs of that name.
const SHELL_WORDS: &str = "alias bg bind break builtin caller case cd command compgen complete compopt continue \
     coproc declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function \
     getopts hash help history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly \
     return select set shift shopt source suspend test then time times trap true type typeset ulimit umask unalias \
     unset until wait while .";

/// Makes the folders for the bundles.
pub fn room(place: &ToolsPlace, bundles: &[Bundle]) -> String {
    let folders: Vec<String> = bundles
        .iter()
        .map(|bundle| place.bundle(&bundle.name))
        .chain([place.program_folder()])
        .map(|folder| quoted(&folder))
        .collect();
    format!(
        "mkdir -p -- {} && rm -rf -- {} {}",
        quoted(&place.folder()),
        quoted(&place.patch_file()),
        folders.join(" ")
    )
}

/// Exports the variables, and creates the files of the registry and the state.
pub fn begin(place: &ToolsPlace, registry: &str) -> String {
    format!(
        "mswea_shell=1\n{}export MSWEA_TOOLS=1\n{} && printf '{{}}' > {}",
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
    let mut text = format!("export PATH={}:\"$PATH\"\n", quoted(&bin));
    if bundle.has_modules {
        let modules = quoted(&format!("{folder}/lib"));
        text.push_str(&format!(
            "export PYTHONPATH={modules}\"${{PYTHONPATH:+:$PYTHONPATH}}\"\n"
        ));
    }
    text.push_str(&runnable);
    if bundle.has_install {
        let (folder, script) = (quoted(&folder), quoted(&format!("{folder}/install.sh")));
        text.push_str(&format!(
            " || (exit 1) && mswea_dir=$PWD && cd -- {folder} && . {script}\nmswea_status=$?\ncd -- \
             \"$mswea_dir\"\n{runnable}\nunset mswea_dir\n(exit $mswea_status)"
        ));
    }
    text
}

/// Ends the installation: exports the variables again, since an `install.sh` may have changed them;
/// prints the missing programs; and writes the file from which a later shell gets the variables and
/// functions of this one.
pub fn finish(place: &ToolsPlace, bundles: &[Bundle]) -> String {
    // This shell variable is not exported, so a later shell does not have it.
    let mut text = format!(
        "[ -n \"${{mswea_shell-}}\" ] || printf '%s\\n' '{MISSING}shell'\nunset mswea_shell\n"
    );
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
        for name in commands
            .clone()
            .filter(|name| SHELL_WORDS.split(' ').any(|word| word == *name))
        {
            let line = format!("{MISSING}shadow {name} {}", bundle.name);
            text.push_str(&format!(
                "case \"$(type -t -- {name})\" in builtin|keyword) printf '%s\\n' {} ;; esac\n",
                quoted(&line)
            ));
        }
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
    // Variables may be secrets, so only the shell's user may read the file. A program that reads
    // the file prints marks of its own.
    text.push_str(&format!(
        "rm -f -- {file}; ( umask 077; unset MSWEA_RUN_ID MSWEA_ACTION; {{ export -p; declare -f; }} > {file} )"
    ));
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
        for (program, _) in &bundle.manifest.required_programs {
            let line = format!("{MISSING}program {program} {}", bundle.name);
            let there = format!("command -v -- {} >/dev/null 2>&1", quoted(program));
            text.push_str(&format!("{there} || printf '%s\\n' {}\n", quoted(&line)));
        }
    }
    text
}

/// The reason why bundles whose commands keep programs open can't be used.
pub fn no_programs(bundles: &[Bundle]) -> String {
    let asking = bundles.iter().find(|it| !it.manifest.sessions.is_empty());
    let name = asking.map_or("", |bundle| &bundle.name);
    format!(
        "the bundle `{name}` keeps programs open between commands, which a server of SWE-ReX can't: it reads their \
         output only while a request waits for it; use another environment, such as `remote` with \
         `mswea-host runtime serve` there, or leave out the bundle"
    )
}

/// A message about the first missing program in the output of [`missing`] or [`finish`].
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
        ["program", program, bundle] => {
            let found = bundles.iter().find(|it| it.name == bundle)?;
            let required = &found.manifest.required_programs;
            let (_, mark) = required.iter().find(|(name, _)| name == program)?;
            Some(format!(
                "{}:{}:{}: the bundle `{bundle}` needs the program `{program}`, which is not in the environment: use an \
                 image that has it, install it with `workspace.startup_commands`, or leave out the bundle",
                found.manifest.file.display(),
                mark.line + 1,
                mark.column + 1
            ))
        }
        ["program"] => Some(format!(
            "the first-party tools are a program for Linux on `{}`, which can't be started in the environment: use \
             an image of this architecture, or the folders of SWE-agent's own bundles",
            mswea_toolbox_bundle::ARCHITECTURE
        )),
        ["shell"] => {
            let scripts = bundles.iter().filter(|it| it.has_install);
            let scripts = scripts.map(|it| it.folder.join("install.sh").display().to_string());
            Some(format!(
                "{}: it ended the shell that it runs in, with its functions and the rest of the installation: \
                 `exit` and `exec PROGRAM` can't be used there (`return` ends the script)",
                scripts.collect::<Vec<_>>().join(" or ")
            ))
        }
        ["shadow", name, bundle] => {
            let found = bundles.iter().find(|it| it.name == bundle)?;
            let command = found.manifest.commands.iter().find(|it| it.name == name)?;
            Some(format!(
                "{}:{}:{}: the bundle `{bundle}` has the command `{name}`, and the shell runs a word of its own \
                 of this name instead: rename the command",
                found.manifest.file.display(),
                command.mark.line + 1,
                command.mark.column + 1
            ))
        }
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

/// Gives a shell that was started after the installation the variables and functions of the first
/// one. The shell stays in its directory.
pub fn revive(place: &ToolsPlace) -> String {
    let file = quoted(&place.shell_file());
    format!(
        "{{ [ -n \"${{MSWEA_TOOLS-}}\" ] || {{ mswea_dir=$(pwd -P); . {file}; cd -- \"$mswea_dir\"; \
         unset mswea_dir; export MSWEA_TOOLS=1; }}; }} >/dev/null 2>&1"
    )
}
