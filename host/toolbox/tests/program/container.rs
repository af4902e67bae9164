//! The tools in an image without Python and without bash.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const IMAGE: &str = "mswea-test/nobash";

/// Makes the image; without an engine there is none.
fn image() -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tooling/images.sh");
    let made = Command::new("sh").arg(script).stdin(Stdio::null()).output();
    made.is_ok_and(|made| made.status.success())
}

/// An archive of the program and the bundles, as a host installs them.
fn archive() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: String, bytes: &[u8], mode| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, bytes).unwrap();
    };
    let mode = mswea_toolbox_bundle::EXECUTABLE;
    add(
        mswea_toolbox_bundle::PROGRAM_PATH.to_owned(),
        &mswea_toolbox_bundle::bytes(),
        mode,
    );
    for name in mswea_toolbox_bundle::names() {
        for file in mswea_toolbox_bundle::bundle(name).unwrap().files {
            add(format!("{name}/{}", file.path), &file.bytes, file.mode);
        }
    }
    archive.into_inner().unwrap()
}

const SCRIPT: &str = r"
mkdir -p /root/tools && cd /root/tools && tar -x
export PATH=/root/tools/windowed/bin:/root/tools/windowed_edit_linting/bin:/root/tools/search/bin:$PATH
export PATH=/root/tools/edit_anthropic/bin:/root/tools/filemap/bin:/root/tools/submit/bin:$PATH
cd /testbed
! command -v python3 && ! command -v bash && ! command -v git || exit 9
create a.py
edit 1:1 << 'end_of_edit'
def f(x):
    return x
end_of_edit
edit 2:2 << 'end_of_edit'
    return (x
end_of_edit
echo code=$?
search_dir 'return x'
find_file '*.py'
str_replace_editor str_replace /testbed/a.py --old_str 'return x' --new_str 'return -x'
str_replace_editor undo_edit /testbed/a.py
filemap a.py
printf '#!/bin/sh\ntrue\n' >s.sh
open s.sh
edit 2:2 << 'end_of_edit'
if true; then
end_of_edit
echo code=$?
_state
cat /root/state.json; echo
submit
wc -c /root/model.patch
";

#[test]
fn they_work_without_python_and_bash() {
    if !image() {
        eprintln!("SKIPPED: no docker daemon");
        return;
    }
    let mut docker = Command::new("docker");
    docker.args([
        "run",
        "--rm",
        "-i",
        "--network=none",
        IMAGE,
        "/bin/sh",
        "-c",
        SCRIPT,
    ]);
    docker
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = docker.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&archive()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut rest = text.as_str();
    // In this order.
    for part in [
        "[File: a.py (0 lines total)]",
        "[File: /testbed/a.py (2 lines total)]\n1:def f(x):\n2:    return x\n",
        "\nERRORS:\n- E999 SyntaxError: ",
        "code=1\n",
        "/testbed/a.py (1 matches)\n",
        "\n/testbed/a.py\n",
        "     2\t    return -x\n",
        "     2\t    return x\n",
        "     1 def f(x):\n     2     return x\n",
        "ERRORS:\n- shell: ",
        "code=1\n",
        "\"open_file\":\"/testbed/s.sh\"",
        "\n<<SWE_AGENT_SUBMISSION>>\n0 /root/model.patch",
    ] {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part:?} is missing in {text}"));
        rest = &rest[at + part.len()..];
    }
}
