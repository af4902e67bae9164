//! Tests of the frames.

use super::*;

fn run() -> HelperRequest {
    HelperRequest::Run {
        id: 7,
        argv: vec![b"bash".to_vec(), b"".to_vec(), b"\xff\0".to_vec()],
        env: vec![b"A=b".to_vec()],
        cwd: b"/x".to_vec(),
        grace_ms: 200,
        input: ActionInput::Pipe,
    }
}

fn ask() -> HelperRequest {
    HelperRequest::Ask {
        id: 8,
        argv: vec![b"bash".to_vec(), b"-i".to_vec()],
        env: Vec::new(),
        cwd: b"/x".to_vec(),
        grace_ms: 200,
        login: true,
        mark: b"r.1".to_vec(),
        command: b"echo \xff".to_vec(),
        terminal: None,
    }
}

fn requests() -> Vec<HelperRequest> {
    let size = TerminalSize {
        rows: 7,
        columns: 65535,
    };
    let (mut in_terminal, mut asked_in_terminal) = (run(), ask());
    if let HelperRequest::Run { input, .. } = &mut in_terminal {
        *input = ActionInput::Terminal(size);
    }
    if let HelperRequest::Ask { terminal, .. } = &mut asked_in_terminal {
        *terminal = Some(size);
    }
    vec![
        run(),
        in_terminal,
        ask(),
        asked_in_terminal,
        HelperRequest::Kill { id: 9 },
        HelperRequest::Input {
            id: 1,
            bytes: b"x\xff\0\n".to_vec(),
        },
        HelperRequest::Close { id: 2 },
        HelperRequest::Signal { id: 3, number: -1 },
        HelperRequest::Resize { id: 4, size },
    ]
}

fn replies() -> [HelperReply<'static>; 5] {
    [
        HelperReply::Taken {
            id: 6,
            count: 1 << 20,
            is_open: false,
            is_too_long: true,
        },
        HelperReply::Output {
            id: 1,
            bytes: b"\xffabc",
        },
        HelperReply::Output { id: 1, bytes: b"" },
        HelperReply::Exited {
            id: u32::MAX,
            status: -1,
            killed: true,
            left: 3,
            notes: "a\nb",
        },
        HelperReply::Failed {
            id: 0,
            errno: 2,
            text: "é",
        },
    ]
}

fn content(bytes: &[u8]) -> &[u8] {
    let (content, length) = frame(bytes, LONGEST_REQUEST).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    content
}

#[test]
fn what_is_written_is_read() {
    for request in requests() {
        let bytes = request.encode().unwrap();
        assert_eq!(HelperRequest::decode(content(&bytes)), Ok(request));
    }
    for reply in replies() {
        assert_eq!(HelperReply::decode(content(&reply.encode())), Ok(reply));
    }
    assert_eq!(version(&hello()), Some(VERSION));
}

#[test]
fn cut_or_altered_frames_are_refused_without_a_panic() {
    let requests = requests();
    let frames = requests
        .iter()
        .map(|request| request.encode().unwrap())
        .chain(replies().map(|reply| reply.encode()));
    for bytes in frames {
        for end in 0..bytes.len() {
            assert_eq!(frame(&bytes[..end], LONGEST_REQUEST), Ok(None));
            let cut = &bytes[LENGTH..end.max(LENGTH)];
            assert_eq!(HelperRequest::decode(cut), Err(Malformed));
            if bytes[LENGTH] != OUTPUT || end < HEAD {
                assert_eq!(HelperReply::decode(cut), Err(Malformed));
            }
        }
        let longer = [content(&bytes), b"x"].concat();
        assert_eq!(HelperRequest::decode(&longer), Err(Malformed));
        for at in LENGTH..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut altered = bytes.clone();
                altered[at] = value;
                let _ = HelperRequest::decode(content(&altered));
                let _ = HelperReply::decode(content(&altered));
            }
        }
    }
}

#[test]
fn lengths_have_limits() {
    for (length, wanted) in [
        (0, Err(Malformed)),
        (4, Err(Malformed)),
        (5, Ok(None)),
        (100, Ok(None)),
        (101, Err(Malformed)),
        (u32::MAX, Err(Malformed)),
    ] {
        assert_eq!(frame(&u32::to_le_bytes(length), 100), wanted, "{length}");
    }
    let long = HelperRequest::Run {
        id: 1,
        argv: vec![vec![b'x'; LONGEST_REQUEST]],
        env: Vec::new(),
        cwd: Vec::new(),
        grace_ms: 0,
        input: ActionInput::Empty,
    };
    assert_eq!(long.encode(), None);
}

#[test]
fn only_a_hello_is_one() {
    for (bytes, may, wanted) in [
        (&b""[..], true, None),
        (b"mswea", true, None),
        (b"mswea-helper\x02\0\0", true, None),
        (b"mswea-helper\x02\0\0\0", true, Some(2)),
        (b"OCI runtime exec failed", false, None),
        (b"mswea-host: \x02\0\0\0", false, None),
    ] {
        assert_eq!((may_be_hello(bytes), version(bytes)), (may, wanted));
    }
}

#[test]
fn output_that_was_cut_off_is_found() {
    let bytes = HelperReply::Output {
        id: 5,
        bytes: b"abc",
    }
    .encode();
    assert_eq!(cut_off(&bytes[..bytes.len() - 1], 5), b"ab");
    assert_eq!(cut_off(&bytes[..HEAD], 5), b"");
    assert_eq!(cut_off(&bytes[..HEAD - 1], 5), b"");
    assert_eq!(cut_off(&bytes, 6), b"");
    let other = HelperReply::Exited {
        id: 5,
        status: 0,
        killed: false,
        left: 0,
        notes: "",
    };
    assert_eq!(cut_off(&other.encode(), 5), b"");
}
