//! Another program, or a helper that breaks the protocol, ends the session with the reason.

use tokio::io::{DuplexStream, duplex};

use super::*;

/// A session with a fake helper that sends `said` and then only reads.
async fn fake(
    said: &[u8],
) -> (
    DuplexStream,
    DuplexStream,
    Result<HelperSession, HelperError>,
) {
    let (output, mut theirs) = duplex(1 << 16);
    let (input, listener) = duplex(1 << 16);
    theirs.write_all(said).await.unwrap();
    let limit = Duration::from_millis(300);
    let session = HelperSession::start(Box::new(output), Box::new(input), limit).await;
    (theirs, listener, session)
}

#[tokio::test]
async fn others_are_not_taken_for_the_helper() {
    for (said, wanted) in [
        (&b""[..], "the helper sent nothing within 0.3 s"),
        (
            b"mswea-he",
            "the program that answered is not the helper: `mswea-he`",
        ),
        (
            b"exec format error\r\n",
            "the program that answered is not the helper: `exec format error`",
        ),
        (
            b"\0\0\0\0\0\0",
            "the program that answered is not the helper: `\0\0\0\0\0\0`",
        ),
        (
            b"mswea-helper\x63\0\0\0",
            "the helper has version 99 of the protocol, and this host has version 4: let the host copy its own helper",
        ),
    ] {
        let (_theirs, _listener, session) = fake(said).await;
        assert_eq!(session.err().unwrap().to_string(), wanted);
    }
    let (output, theirs) = duplex(16);
    drop(theirs);
    let session = HelperSession::start(Box::new(output), Box::new(tokio::io::sink()), LONG).await;
    assert!(matches!(session.err(), Some(HelperError::Gone)));
}

#[tokio::test]
async fn a_helper_that_misbehaves_is_left() {
    let frame = |reply: HelperReply<'_>| reply.encode();
    let bytes = b"abc";
    let output = frame(HelperReply::Output { id: 1, bytes });
    let others = frame(HelperReply::Output { id: 2, bytes });
    for (said, text, wanted) in [
        (
            b"thread 'main' panicked".to_vec(),
            "",
            "sent an invalid message",
        ),
        (others, "", "sent an invalid message"),
        (
            b"\x05\0\0\0x\0\0\0\0".to_vec(),
            "",
            "sent an invalid message",
        ),
        (vec![0xff; 100], "", "sent an invalid message"),
        (
            [&output[..], &[0; 9]].concat(),
            "abc",
            "sent an invalid message",
        ),
        // No answer, and half of one.
        (
            output.clone(),
            "abc",
            "did not answer within 0.2 s after the request to kill",
        ),
    ] {
        let (mut theirs, _listener, session) = fake(&protocol::hello()).await;
        let mut session = session.unwrap();
        session.killing = Duration::from_millis(200);
        theirs.write_all(&said).await.unwrap();
        let (captured, end) = run(&mut session, "true", 0.3).await;
        let error = end.unwrap_err().to_string();
        assert_eq!(captured, text);
        assert!(error.contains(wanted), "{error}");
        let again = run(&mut session, "true", 1.0).await.1;
        assert!(matches!(again, Err(HelperError::Unusable)), "{again:?}");
    }
    // The part of a piece that has come counts.
    let (mut theirs, _listener, session) = fake(&protocol::hello()).await;
    theirs.write_all(&output[..output.len() - 1]).await.unwrap();
    drop(theirs);
    let (captured, end) = run(&mut session.unwrap(), "true", 1.0).await;
    assert_eq!(captured, "ab");
    assert!(matches!(end, Err(HelperError::Gone)), "{end:?}");
}

/// A helper that does not read the request has the same time limit.
#[tokio::test]
async fn a_helper_that_does_not_listen_is_left() {
    let (mut theirs, output) = duplex(1000);
    let (input, _nobody) = duplex(10);
    theirs.write_all(&protocol::hello()).await.unwrap();
    let session = HelperSession::start(Box::new(output), Box::new(input), LONG).await;
    let mut session = session.unwrap();
    session.killing = Duration::from_millis(100);
    let end = run(&mut session, "true", 0.1).await.1;
    assert!(matches!(end, Err(HelperError::Stuck(_))), "{end:?}");
}
