use std::sync::mpsc;

use super::*;
use crate::cli::front::testing::{Broken, Buffer};
use mswea_core::StopSource;

/// Takes no data until it is released, then all data.
struct Stalled(mpsc::Receiver<()>, Buffer);

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stalled(spool: Spool) -> (Outlet, mpsc::Sender<()>, Buffer) {
    let (go, wait) = mpsc::channel();
    let buffer = Buffer::default();
    let writer: StreamWriter = Box::new(Stalled(wait, buffer.clone()));
    let streams = [(writer, (|count| format!("<{count}>")) as _)];
    let [outlet] = Outlet::start(streams, spool).unwrap();
    (outlet, go, buffer)
}

/// A writer whose writes fail.
fn no_spool() -> Spool {
    Spool::new(Some("/nowhere".into()))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn a_full_queue_goes_on_in_a_file_and_leaves_no_event_out() {
    let (outlet, go, buffer) = stalled(Spool::default());
    let mut expected = String::new();
    for number in 0..400 {
        let piece = format!("{number} {}\n", "x".repeat(10_000));
        outlet.push(&piece, Worth::Usual);
        outlet.push("spare", Worth::Spare);
        expected.push_str(&piece);
    }
    outlet.push("data\n", Worth::Data);
    assert!(lock(&outlet.queue.state).held <= ROOM);
    drop(go);
    assert!(block_on(
        outlet.drained(Some(Duration::from_secs(60)), &Stop::never())
    ));
    let text = buffer.text().replace("spare", "");
    assert!(text == expected + "data\n", "{} bytes", text.len());
    // From here on, pieces stay in memory.
    outlet.push("more", Worth::Usual);
    assert!(lock(&outlet.queue.state).spool.is_empty());
}

#[test]
fn without_a_file_a_full_queue_says_what_it_left_out_and_keeps_the_data() {
    let (outlet, go, buffer) = stalled(no_spool());
    let large = "x".repeat(ROOM - 2);
    outlet.push("a\n", Worth::Usual);
    outlet.push(&large, Worth::Usual);
    for _ in 0..3 {
        outlet.push("lost", Worth::Usual);
        outlet.push("spare", Worth::Spare);
    }
    outlet.push("data\n", Worth::Data);
    assert!(!outlet.is_empty());
    drop(go);
    assert!(block_on(
        outlet.drained(Some(Duration::from_secs(60)), &Stop::never())
    ));
    assert_eq!(buffer.text(), format!("a\n{large}<3>data\n"));

    // The last piece may be among those that are left out.
    let (outlet, go, buffer) = stalled(no_spool());
    // The thread takes the first piece out of the queue, sooner or later.
    outlet.push("a\n", Worth::Usual);
    outlet.push(&large, Worth::Usual);
    outlet.push("lost", Worth::Usual);
    drop(go);
    outlet.settle(Duration::from_secs(60));
    assert_eq!(buffer.text(), format!("a\n{large}<1>"));
}

#[test]
fn a_reader_that_stands_still_is_given_up_and_a_signal_ends_the_wait() {
    let (outlet, _go, _) = stalled(Spool::default());
    outlet.push("a", Worth::Data);
    let never = Stop::never();
    let waited = block_on(outlet.drained(Some(Duration::from_millis(50)), &never));
    assert!(!waited);
    let (source, stop) = StopSource::new();
    // Only the piece that comes now is left out.
    source.stop();
    let ended = block_on(async {
        let waiting = outlet.drained(None, &stop);
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
        assert!(early.is_err());
        source.stop();
        waiting.await
    });
    assert!(!ended);
    outlet.settle(Duration::from_millis(50));
}

#[test]
fn errors_are_kept_and_a_closed_pipe_is_none() {
    for (kind, told) in [
        (ErrorKind::StorageFull, true),
        (ErrorKind::BrokenPipe, false),
    ] {
        let writer: StreamWriter = Box::new(Broken(kind));
        let [mut outlet] = Outlet::start([(writer, lost_words as _)], Spool::default()).unwrap();
        for _ in 0..3 {
            outlet.put("text", Worth::Data).unwrap();
            outlet.settle(Duration::from_secs(60));
        }
        assert_eq!(outlet.take_error().is_some(), told, "{kind}");
        assert!(outlet.take_error().is_none());
    }
}

#[test]
fn streams_of_one_queue_keep_their_order() {
    let buffer = Buffer::default();
    let writer = || Box::new(buffer.clone()) as StreamWriter;
    let streams = [(writer(), lost_words as _), (writer(), lost_words as _)];
    let [one, two] = Outlet::start(streams, Spool::default()).unwrap();
    for number in 0..100 {
        let outlet = if number % 3 == 0 { &one } else { &two };
        outlet.push(&format!("{number} "), Worth::Usual);
    }
    one.settle(Duration::from_secs(60));
    two.settle(Duration::from_secs(60));
    let expected: String = (0..100).map(|number| format!("{number} ")).collect();
    assert_eq!(buffer.text(), expected);
}
