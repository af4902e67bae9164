//! Serves a host: one action after another, each as a fresh process or in the shell of this session.
//!
//! One thread waits for all events. Output is read only when all earlier output has been sent, so
//! that a host that does not read blocks the command and nothing else, and memory does not grow.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use mswea_helper::processes::{self, ACTION_VARIABLE, Children, ProcessTarget};
use mswea_helper::protocol::{
    self, HEAD, HelperReply, HelperRequest, LONGEST_REQUEST, Malformed, PIECE,
};

use crate::KILLING;
use crate::action::{BackgroundOutput, RunningAction};
use crate::input::{InputNews, ProgramInput};
use crate::living::ShellCommand;
use crate::shell::SharedShell;
use crate::spawn::{NotStarted, Starter};
use crate::sys::{self, BROKEN, POLLIN, POLLOUT, STDIN, STDOUT, watch};

/// How much of a request is read at once.
const READ: usize = 64 * 1024;

struct HostSession {
    starter: Starter,
    signals: OwnedFd,
    /// Received bytes that are no complete request yet.
    inbox: Vec<u8>,
    /// Bytes to be sent; the first `sent` of them have been.
    outbox: Vec<u8>,
    sent: usize,
    action: Option<(u32, RunningAction)>,
    shell: SharedShell,
    /// The action that the shell runs.
    asked: u32,
    leftovers: Vec<BackgroundOutput>,
    scratch: Vec<u8>,
}

/// Serves the host on stdin and stdout until the host is gone, and then ends all processes that
/// were started.
pub fn serve() -> io::Result<u8> {
    // Made before all signals are blocked, because commands must not inherit the blocked signals.
    let starter = Starter::new()?;
    sys::prepare();
    let signals = sys::hold_signals(&sys::signals([libc::SIGCHLD]))?;
    let _nonblocking = sys::Nonblocking::new()?;
    let mut session = HostSession {
        starter,
        signals,
        inbox: Vec::new(),
        outbox: protocol::hello().to_vec(),
        sent: 0,
        action: None,
        shell: SharedShell::default(),
        asked: 0,
        leftovers: Vec::new(),
        scratch: Vec::new(),
    };
    let result = session.run();
    session.end_all();
    result
}

fn busy() -> NotStarted {
    NotStarted::number("another action runs", libc::EBUSY)
}

impl HostSession {
    fn run(&mut self) -> io::Result<u8> {
        let mut watches = Vec::new();
        loop {
            self.send()?;
            if self.finish() {
                continue;
            }
            let limit = self.wait_for(&mut watches);
            sys::poll(&mut watches, limit)?;
            let [signals, host, sink, rest @ ..] = watches.as_slice() else {
                continue;
            };
            if sink.revents & BROKEN != 0 {
                return Ok(0);
            }
            if signals.revents != 0 {
                self.bury();
            }
            if host.revents != 0 && !self.receive()? {
                return Ok(0);
            }
            for watch in rest.iter().filter(|watch| watch.revents != 0) {
                self.read(watch.fd);
            }
        }
    }

    /// The descriptors to wait for, and the longest wait.
    fn wait_for(&mut self, watches: &mut Vec<sys::DescriptorWatch>) -> Option<Duration> {
        let now = Instant::now();
        let mut next = self
            .action
            .as_ref()
            .and_then(|(_, action)| action.settled());
        let full = !self.outbox.is_empty();
        let earliest = |one: Option<Instant>, then| Some(one.map_or(then, |one| one.min(then)));
        if let Some(then) = self.shell.due(now) {
            next = earliest(next, then);
        }
        watches.clear();
        watches.push(watch(self.signals.as_raw_fd(), POLLIN));
        watches.push(watch(STDIN, POLLIN));
        watches.push(watch(STDOUT, if full { POLLOUT } else { 0 }));
        if let Some((_, action)) = &self.action
            && let Some(fd) = action.output().filter(|_| !full)
        {
            watches.push(watch(fd, POLLIN));
        }
        let due = self.input().and_then(|(_, input)| input.due());
        watches.extend(due.map(|fd| watch(fd, POLLOUT)));
        watches.extend(self.shell.reports().map(|fd| watch(fd, POLLIN)));
        let of_shell = self.shell.output(now);
        let of_shell = of_shell.filter(|_| !(full && self.shell.is_busy()));
        for due in self.leftovers.iter().map(|it| it.due(now)).chain(of_shell) {
            match due {
                Ok(fd) => watches.push(watch(fd, POLLIN)),
                Err(then) => next = earliest(next, then),
            }
        }
        // An expired deadline takes effect only when there is room to send, so it is left out.
        let next = next.filter(|next| !full || *next > now);
        next.map(|next| next.saturating_duration_since(now))
    }

    /// Reaps dead children: the action's process, and orphans.
    fn bury(&mut self) {
        while sys::next_signal(self.signals.as_fd()).is_some() {}
        while let Some((pid, status)) = sys::bury() {
            if let Some((_, action)) = &mut self.action {
                action.buried(pid, status);
            }
            self.shell.buried(pid, status);
        }
    }

    /// Reads and performs the host's requests; returns whether the host is still there.
    fn receive(&mut self) -> io::Result<bool> {
        match sys::read(STDIN, &mut self.inbox, READ) {
            Ok(Some(0)) | Err(_) => return Ok(false),
            Ok(_) => {}
        }
        let mut done = 0;
        loop {
            let request = match protocol::frame(&self.inbox[done..], LONGEST_REQUEST) {
                Ok(None) => break,
                Ok(Some((content, length))) => {
                    done += length;
                    HelperRequest::decode(content)
                }
                Err(Malformed) => Err(Malformed),
            };
            let Ok(request) = request else {
                let why = "the input on stdin is not a request: does it come from mswea-host?";
                return Err(io::Error::other(why));
            };
            self.serve(request);
        }
        self.inbox.drain(..done);
        self.inbox.shrink_to(READ);
        Ok(true)
    }

    fn serve(&mut self, request: HelperRequest) {
        match request {
            HelperRequest::Kill { id } => {
                if let Some((running, action)) = &mut self.action
                    && *running == id
                {
                    action.kill();
                }
                if self.asked == id {
                    self.shell.interrupt();
                }
            }
            HelperRequest::Input { id, bytes } => {
                if let Some(input) = self.input_of(id) {
                    input.push(&bytes);
                    self.write_input();
                }
            }
            HelperRequest::Close { id } => {
                if let Some(input) = self.input_of(id) {
                    input.close();
                    self.write_input();
                }
            }
            HelperRequest::Resize { id, size } => {
                if let Some(terminal) = self.input_of(id).and_then(|it| it.as_terminal()) {
                    terminal.resize(size);
                }
            }
            HelperRequest::Signal { id, number } => match &self.action {
                Some((running, action)) if *running == id => action.signal(number),
                _ if self.asked == id => self.shell.signal(number),
                _ => {}
            },
            HelperRequest::Ask {
                id,
                argv,
                env,
                cwd,
                grace_ms,
                login,
                mark,
                command,
                terminal,
            } => {
                let asked = ShellCommand {
                    argv,
                    env,
                    cwd,
                    login,
                    command: String::from_utf8_lossy(&command).into_owned(),
                    mark: String::from_utf8_lossy(&mark).into_owned(),
                    grace: Duration::from_millis(grace_ms.into()),
                    terminal,
                };
                let started = match self.is_busy() {
                    false => self.shell.ask(&self.starter, asked),
                    true => Err(busy()),
                };
                self.leftovers.extend(self.shell.left_open());
                match started {
                    Ok(()) => self.asked = id,
                    Err(why) => self.post_failure(id, &why),
                }
            }
            HelperRequest::Run {
                id,
                argv,
                env,
                cwd,
                grace_ms,
                input,
            } => {
                let since = sys::ticks();
                let cwd = (!cwd.is_empty()).then_some(cwd.as_slice());
                let started = match self.is_busy() {
                    false => self.starter.start(argv, &env, cwd, input),
                    true => Err(busy()),
                };
                match started {
                    Ok(started) => {
                        let mark = env.iter().rev().find_map(|entry| {
                            entry
                                .strip_prefix(ACTION_VARIABLE.as_bytes())?
                                .strip_prefix(b"=")
                        });
                        let grace = Duration::from_millis(grace_ms.into());
                        let mark = mark.or_else(|| self.starter.var(ACTION_VARIABLE.as_bytes()));
                        self.action = Some((id, RunningAction::new(started, since, mark, grace)));
                    }
                    Err(why) => self.post_failure(id, &why),
                }
            }
        }
    }

    /// The input of the running action, if it has this number.
    fn input_of(&mut self, id: u32) -> Option<&mut ProgramInput> {
        match &mut self.action {
            Some((running, action)) if *running == id => Some(&mut action.input),
            _ if self.asked == id => self.shell.input(),
            _ => None,
        }
    }

    /// The input of the running action, and the action's number.
    fn input(&mut self) -> Option<(u32, &mut ProgramInput)> {
        match &mut self.action {
            Some((id, action)) => Some((*id, &mut action.input)),
            None => self.shell.input().map(|input| (self.asked, input)),
        }
    }

    /// Writes to the input as much as it takes now.
    fn write_input(&mut self) {
        let Some((id, input)) = self.input() else {
            return;
        };
        if let Some(InputNews {
            count,
            is_open,
            is_too_long,
        }) = input.write()
        {
            self.post(&HelperReply::Taken {
                id,
                count: count as u32,
                is_open,
                is_too_long,
            });
        }
    }

    fn is_busy(&self) -> bool {
        self.action.is_some() || self.shell.is_busy()
    }

    fn post_failure(&mut self, id: u32, NotStarted { errno, text }: &NotStarted) {
        let errno = *errno;
        self.post(&HelperReply::Failed { id, errno, text });
    }

    fn post(&mut self, reply: &HelperReply<'_>) {
        self.outbox.extend_from_slice(&reply.encode());
    }

    /// Reads the output of the action or of earlier ones.
    fn read(&mut self, fd: i32) {
        if self.input().and_then(|(_, input)| input.due()) == Some(fd) {
            return self.write_input();
        }
        // The outbox may have grown meanwhile.
        let at = self.outbox.len();
        self.outbox.resize(at + HEAD, 0);
        let id = match &mut self.action {
            Some((id, action)) if action.output() == Some(fd) => {
                action.read(&mut self.outbox, PIECE);
                Some(*id)
            }
            _ if self.shell.output(Instant::now()) == Some(Ok(fd)) => {
                self.shell.read(&mut self.outbox, PIECE);
                Some(self.asked)
            }
            _ => None,
        };
        let length = self.outbox.len() - at - HEAD;
        if length == 0 {
            self.outbox.truncate(at);
        }
        if let Some(id) = id {
            if length > 0 {
                let head = protocol::output_head(id, length);
                self.outbox[at..at + HEAD].copy_from_slice(&head);
            }
            return;
        }
        if self.shell.reports() == Some(fd) {
            return self.shell.hear();
        }
        let scratch = &mut self.scratch;
        self.leftovers.retain_mut(|leftover| {
            leftover.due(Instant::now()) != Ok(fd) || leftover.skip(scratch)
        });
    }

    /// Reports the action if it is over; returns whether it is.
    fn finish(&mut self) -> bool {
        let ended = match &self.action {
            Some((id, action)) => action.over().map(|end| (*id, end)),
            None => self.shell.over().map(|end| (self.asked, end)),
        };
        let Some((id, end)) = ended else {
            return false;
        };
        let action = self.action.take();
        self.leftovers
            .extend(action.and_then(|(_, action)| action.left_open()));
        self.leftovers.extend(self.shell.left_open());
        self.post(&HelperReply::Exited {
            id,
            status: end.status,
            killed: end.killed,
            left: end.left as u32,
            notes: &end.notes,
        });
        true
    }

    /// Sends as many bytes as the host accepts now.
    fn send(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match sys::write(STDOUT, &self.outbox[self.sent..])? {
                Some(count) => self.sent += count,
                None => return Ok(()),
            }
        }
        self.sent = 0;
        self.outbox.clear();
        Ok(())
    }

    /// Ends all processes that were started. Orphans are children of this process.
    fn end_all(&mut self) {
        self.shell.dismiss();
        if let Some((_, action)) = &mut self.action {
            action.kill();
        }
        let target = ProcessTarget {
            children: Children::All,
            ..ProcessTarget::default()
        };
        processes::kill_until_gone(&target, KILLING);
    }
}
