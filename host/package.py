#!/usr/bin/env python3
"""Makes packages of the shipped binary: a wheel, a Debian package, and an image for docker and podman.

    host/package.py BINARY FOLDER

BINARY is what host/ship.sh has made. The same binary gives the same bytes, on any machine and in any
folder. Needs Python 3.9 and nothing else. Prints the files.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

NAME = "mswea-host"
SUMMARY = "A coding agent whose parts are WebAssembly plugins"
LICENSE = Path(__file__).resolve().parent.parent / "LICENSE"
# By the machine of the ELF header: Python's, Debian's and docker's name.
MACHINES = {62: ("x86_64", "amd64", "amd64"), 183: ("aarch64", "arm64", "arm64")}
# The least time that a zip file can have; the other formats take it, too.
TIME = 315532800


def fail(words):
    sys.exit(f"package.py: {words}")


def output_of(program, *arguments):
    try:
        return subprocess.run([program, *arguments], check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"`{program} {' '.join(arguments)}` does not run on this machine: {error}")


def packed(data):
    """Gzip without a name and with a fixed time."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=TIME) as file:
        file.write(data)
    return out.getvalue()


def archive(files):
    """A tar file of (path, content, mode), with the folders above them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        made = set()
        for path, content, mode in files:
            for folder in [str(it) for it in reversed(Path(path).parents)][1:]:
                if folder not in made:
                    made.add(folder)
                    entry = tarfile.TarInfo(f"./{folder}")
                    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, TIME
                    tar.addfile(entry)
            entry = tarfile.TarInfo(f"./{path}")
            entry.size, entry.mode, entry.mtime = len(content), mode, TIME
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def wheel(folder, binary, version, machine):
    """Of PEP 427: the binary is a script, which installers put into the folder of programs."""
    base = f"{NAME.replace('-', '_')}-{version}"
    # The binary is static: it needs neither glibc nor musl.
    tag = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    tags = "".join(f"Tag: py3-none-{it}\n" for it in tag.split("-")[2].split("."))
    metadata = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\nSummary: {SUMMARY}\nLicense: MIT\n"
    files = [
        (f"{base}.data/scripts/{NAME}", binary, 0o755),
        (f"{base}.dist-info/METADATA", metadata.encode(), 0o644),
        (f"{base}.dist-info/WHEEL",
         f"Wheel-Version: 1.0\nGenerator: package.py\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
        (f"{base}.dist-info/licenses/LICENSE", LICENSE.read_bytes(), 0o644),
    ]
    record = f"{base}.dist-info/RECORD"
    lines = []
    for path, content, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    files.append((record, "".join([*lines, f"{record},,\n"]).encode(), 0o644))
    place = folder / f"{base}-{tag}.whl"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path, content, mode in files:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            file.writestr(entry, content)
    return place


def debian(folder, program, binary, version, machine):
    """With the manual page and the completions, as Debian has them."""
    complete = {
        "bash": f"usr/share/bash-completion/completions/{NAME}",
        "zsh": f"usr/share/zsh/vendor-completions/_{NAME}",
        "fish": f"usr/share/fish/vendor_completions.d/{NAME}.fish",
    }
    files = [
        (f"usr/bin/{NAME}", binary, 0o755),
        (f"usr/share/doc/{NAME}/copyright", LICENSE.read_bytes(), 0o644),
        (f"usr/share/man/man1/{NAME}.1.gz", packed(output_of(program, "man")), 0o644),
        *[(path, output_of(program, "completions", shell), 0o644) for shell, path in complete.items()],
    ]
    size = sum(len(content) for _, content, _ in files) // 1024 + 1
    control = (
        f"Package: {NAME}\nVersion: {version}\nArchitecture: {machine}\nMaintainer: the {NAME} team <{NAME}@localhost>\n"
        f"Installed-Size: {size}\nRecommends: bash, git\nSection: devel\nPriority: optional\nDescription: {SUMMARY}\n"
    )
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, content, _ in files)
    controls = [("control", control.encode(), 0o644), ("md5sums", sums.encode(), 0o644)]
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", packed(archive(controls))),
        ("data.tar.gz", packed(archive(files))),
    ]
    out = b"!<arch>\n"
    for name, content in members:
        out += f"{name:<16}{TIME:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        out += content + b"\n" * (len(content) % 2)
    place = folder / f"{NAME}_{version}_{machine}.deb"
    place.write_bytes(out)
    return place


def image(folder, binary, version, machine):
    """For `docker load` and `podman load`: one file, which is the entry point."""
    layer = archive([(NAME, binary, 0o755)])
    layer_digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({
        "architecture": machine,
        "os": "linux",
        "created": "1980-01-01T00:00:00Z",
        "config": {"Entrypoint": [f"/{NAME}"], "WorkingDir": "/", "Labels": {
            "org.opencontainers.image.title": NAME, "org.opencontainers.image.version": version,
            "org.opencontainers.image.description": SUMMARY}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": "1980-01-01T00:00:00Z", "created_by": "host/package.py"}],
    }, sort_keys=True).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [f"{NAME}:{version}"], "Layers": [f"{layer_digest}/layer.tar"]}]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in [
            (config_name, config),
            (f"{layer_digest}/layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ]:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(content), 0o644, TIME
            tar.addfile(entry, io.BytesIO(content))
    place = folder / f"{NAME}-{version}-image-{machine}.tar.gz"
    place.write_bytes(packed(out.getvalue()))
    return place


def main():
    if len(sys.argv) != 3:
        fail("usage: host/package.py BINARY FOLDER")
    program, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    try:
        binary = program.read_bytes()
    except OSError as error:
        fail(f"can't read `{program}`: {error.strerror}; `host/ship.sh` makes it")
    if binary[:4] != b"\x7fELF":
        fail(f"`{program}` is no program for Linux; `host/ship.sh` makes one")
    machine = int.from_bytes(binary[18:20], "little")
    if machine not in MACHINES:
        fail(f"`{program}` is for a machine that has no name here (ELF machine {machine})")
    python, deb, docker = MACHINES[machine]
    version = output_of(program, "--version").decode().split()[-1]
    folder.mkdir(parents=True, exist_ok=True)
    for place in [
        wheel(folder, binary, version, python),
        debian(folder, program, binary, version, deb),
        image(folder, binary, version, docker),
    ]:
        print(f"{place} ({os.path.getsize(place) / 1e6:.1f} MB)")


main()
