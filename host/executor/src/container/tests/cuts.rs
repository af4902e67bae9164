//! The connection of a process's output, cut after each of its bytes.

use std::sync::atomic::AtomicUsize;

use tokio::net::{TcpListener, UnixStream};
use tokio::time::Instant as Deadline;

use super::*;
use crate::capture::Capture;
use crate::container::api::Api;
use crate::container::attend::{Attended, ExecEnd};
use mswea_core::Stop;

/// The end of the head of the daemon's answer, after which the output begins.
const HEAD: &[u8] = b"\r\n\r\n";

/// A way to docker's daemon. The output of a process is cut after `bytes`.
async fn cutting(bytes: Arc<AtomicUsize>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((outside, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let inside = UnixStream::connect("/var/run/docker.sock").await.unwrap();
                let (mut from_client, mut to_client) = outside.into_split();
                let (mut from_daemon, mut to_daemon) = inside.into_split();
                let sent = tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_daemon).await;
                });
                let (mut piece, mut left) = ([0; 4096], None);
                let mut head = Vec::new();
                while let Ok(count @ 1..) = from_daemon.read(&mut piece).await {
                    let mut passed = &piece[..count];
                    if !head.is_empty() || passed.starts_with(b"HTTP/1.1 101") && left.is_none() {
                        head.extend_from_slice(passed);
                        let Some(end) = head.windows(4).position(|at| at == HEAD) else {
                            continue;
                        };
                        to_client.write_all(&head[..end + 4]).await.unwrap();
                        passed = &passed[count - (head.len() - end - 4)..];
                        head.clear();
                        left = Some(bytes.load(Ordering::Relaxed));
                    }
                    let allowed = left.map_or(passed.len(), |left| left.min(passed.len()));
                    if to_client.write_all(&passed[..allowed]).await.is_err() {
                        break;
                    }
                    if let Some(left) = &mut left {
                        *left -= allowed;
                        if *left == 0 {
                            break;
                        }
                    }
                }
                sent.abort();
            });
        }
    });
    Address::Tcp(address)
}

#[tokio::test]
async fn an_output_that_is_cut_anywhere_is_told() {
    let test = "an_output_that_is_cut_anywhere_is_told";
    let Some((_, docker)) = engines(test).await.into_iter().next() else {
        return;
    };
    let spec = spec("docker by its API", &["--rm", "--network=none"]);
    let id = docker.run(&spec).await.unwrap();
    let bytes = Arc::new(AtomicUsize::new(usize::MAX));
    let daemon = Daemon::open(cutting(bytes.clone()).await, LIMIT);
    let engine = Api::new(Arc::new(daemon.await.unwrap()), None);
    // Two pieces, each with a head of eight bytes.
    let script = bash("echo abc; sleep 0.05; echo def >&2; exec sleep 500");
    let mut attended = Vec::new();
    for after in 0..=24 {
        bytes.store(after, Ordering::Relaxed);
        let exec = engine.exec(&id, &script).await.unwrap();
        attended.push((after, Attended::new(exec)));
    }
    let began = Instant::now();
    let all = attended
        .into_iter()
        .map(|(after, mut attended)| async move {
            let mut capture = Capture::new(100);
            let until = Deadline::now() + LIMIT;
            let end = attended.attend(&mut capture, until, &Stop::never()).await;
            (after, end, capture.finish(false).text)
        });
    for (after, end, text) in together(all).await {
        // The daemon gives a process whose client is gone before it starts this code.
        if let (0, ExecEnd::Exited(126)) = (after, &end) {
            continue;
        }
        let ExecEnd::Failed(error) = end else {
            panic!("{after}: {end:?}");
        };
        assert!(
            error.message.contains("in the middle of the output"),
            "{error}"
        );
        let kept = after.saturating_sub(8).min(4) + after.saturating_sub(20);
        assert_eq!(text, &"abc\ndef\n"[..kept], "{after}");
    }
    assert!(began.elapsed() < Duration::from_secs(15));
    docker.remove(&id, LIMIT).await.unwrap();
}

/// Runs all at once.
async fn together<T: Send + 'static>(
    all: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}
