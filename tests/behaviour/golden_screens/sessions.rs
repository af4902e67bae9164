//! The table of sessions: what the model replies, what the user types, and which screens are compared.

use std::time::Duration;

use scripted_server::Turn;

use super::Session;
use crate::story::submit;

/// A part of a session.
pub(super) enum Step {
    /// Answers a question that is open below this text.
    Answer(&'static str, &'static str),
    /// Waits for this text.
    Until(&'static str),
    /// Types a text, without Enter.
    Type(&'static str),
    /// Presses keys, by tmux's names.
    Keys(&'static [&'static str]),
    /// Types a line while no question is open.
    Line(&'static str),
    /// Pastes so many lines.
    Paste(usize),
    /// Changes the size of the window.
    Resize(u16, u16),
    /// Makes a file in the folder of the commands.
    Touch(&'static str),
    /// Waits until the server was asked so often.
    Asked(u64),
    /// Compares the screen, once it has this text and has come to rest.
    Screen(&'static str, &'static str),
    /// Waits for the end with this exit code, and compares all lines.
    End(i32),
    /// Ends the program by SIGTERM from elsewhere.
    Terminate,
}

use Step::{Answer, Asked, End, Keys, Line, Paste, Resize, Screen, Terminate, Touch, Type, Until};

const NARROW: (u16, u16) = (40, 16);
const USUAL: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (120, 40);

/// A session with a task, outside of a repository.
const SESSION: Session = Session {
    name: "",
    sizes: &[USUAL],
    args: &[],
    env: &[],
    has_task: true,
    in_repository: false,
    turns: Vec::new,
    steps: &[],
};

fn replies(commands: &[&str]) -> Vec<Turn> {
    let turns = commands.iter().map(|command| Turn::commands(&[command]));
    turns.chain([Turn::commands(&[submit("done")])]).collect()
}

fn silence() -> Turn {
    Turn::text("late").with_delay(Duration::from_secs(60))
}

/// Deletes twelve lines.
const DELETE_ALL: &[&str] = &[
    "C-u", "BSpace", "C-u", "BSpace", "C-u", "BSpace", "C-u", "BSpace", "C-u", "BSpace", "C-u",
    "BSpace", "C-u", "BSpace", "C-u", "BSpace", "C-u", "BSpace", "C-u", "BSpace", "C-u", "BSpace",
    "C-u", "BSpace",
];

const INTERRUPT: Step = Keys(&["C-c"]);

pub(super) const SESSIONS: &[Session] = &[
    Session {
        name: "confirm",
        sizes: &[NARROW, USUAL, WIDE],
        turns: || {
            vec![
                Turn::commands(&["echo one"]).with_text(
                    "# Plan\nI **look** at `one`, and at everything else that is of interest here.",
                ),
                Turn::commands(&["echo two"]),
                Turn::commands(&["echo a", "echo b"]),
                Turn::commands(&[submit("done")]),
            ]
        },
        steps: &[
            Screen("a step waits", "Enter: run this"),
            Answer("$ echo one", "/h"),
            Screen("the help", "second one ends the run."),
            Answer("second one ends", "/c"),
            Answer("already in confirm mode", "/statsu"),
            Answer("no command /statsu", "/status"),
            Screen("the status", "context: "),
            Answer(
                "context: ",
                "no, look at two, because this is not what was asked for",
            ),
            Screen("a rejection, and the next step", "$ echo two"),
            Answer("$ echo two", ""),
            Screen("several commands", "run these 2"),
            Answer("run these 2", ""),
            Answer("$ echo COMPLETE", ""),
            Screen("a submission", "wants to finish"),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "yolo",
        sizes: &[USUAL, WIDE],
        args: &["-y"],
        turns: || {
            replies(&[
                "seq 1 60",
                "while [ ! -e go ]; do sleep 0.1; done; echo two",
                "true",
            ])
        },
        steps: &[
            Screen("a command runs, and a long output is folded", "running"),
            Type("a message for la"),
            Screen("a message is being typed", "> a message for la"),
            Keys(&["C-u"]),
            Paste(12),
            Screen("a long text does not hide what runs", "(12 lines)"),
            Keys(DELETE_ALL),
            Type("a message for la"),
            Until("> a message for la"),
            Keys(&["BSpace", "BSpace", "l", "a", "t", "e", "r", "Enter"]),
            Screen("a message waits", "before its next step"),
            Line("/status"),
            Screen("the status has it", "1 message waits"),
            Line("/undo"),
            Until("/undo works at a question"),
            Line("/m"),
            Until("several lines can be"),
            Line("/a"),
            Until("no command waits for an answer"),
            Touch("go"),
            Screen("the model is told", "told to the model"),
            Answer("wants to finish", "/expand 1"),
            Screen("an output in full", "\n  60\n"),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "human",
        sizes: &[NARROW, USUAL],
        args: &["--mode", "human"],
        turns: || replies(&["echo from the model"]),
        steps: &[
            Screen("the user's turn", "your command"),
            Answer("your command", "echo by hand"),
            Answer("\n  by hand", "/m"),
            Screen("several lines are asked for", "several lines"),
            Answer("several lines", "echo first\necho second"),
            Screen("they have run", "\n  second"),
            Answer("your command", "/c"),
            Screen("the model goes on", "$ echo from the model"),
            Answer("$ echo from the model", "/u"),
            Answer("human mode", "/y"),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "files",
        sizes: &[NARROW, USUAL],
        in_repository: true,
        turns: || replies(&["echo changed >kept.txt; echo more >new.txt", "sleep 60"]),
        steps: &[
            Answer("Enter: run this", "/undo"),
            Answer("no earlier state", ""),
            Answer("$ sleep 60", "/diff"),
            Screen("what has changed", "new file: new.txt"),
            Answer("new file: new.txt", "/undo"),
            Screen("what can be taken back", "take back these changes?"),
            Answer("M kept.txt", "no"),
            Answer("nothing was taken back", "/undo"),
            Answer("take back these changes?", ""),
            Screen("it is taken back", "taken back; the model"),
            Answer("taken back; the model", "enough"),
            Screen("the model is told", "$ echo COMPLETE"),
            Answer("$ echo COMPLETE", ""),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "approvals",
        sizes: &[NARROW, USUAL],
        env: &[("EDITOR", "sed -i s/fil2/other/")],
        turns: || replies(&["echo one", "ls; echo two", "echo three >file"]),
        steps: &[
            Answer("Enter: run this", "/a"),
            Screen("a beginning that can be edited", "in this run, always"),
            Keys(&["C-w", "BSpace", "Enter"]),
            Answer("$ ls; echo two", "/p"),
            Screen("a beginning for all runs", "in all runs, always"),
            Keys(&["Enter"]),
            Answer("$ echo three >file", "/a"),
            Screen("a redirection waits", "this can't be allowed always"),
            Answer("this can't be allowed always", "/e"),
            Screen("the command is edited", "$ echo three >file\n"),
            Keys(&["BSpace", "2", "Enter"]),
            Answer("Enter: run this", "/e 7"),
            Screen("it was edited", "there is no command 7"),
            Answer("there is no command 7", "/editor"),
            Until("$ echo three >other"),
            Answer("Enter: run this", ""),
            Answer("COMPLETE", ""),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "limits",
        sizes: &[NARROW, USUAL],
        args: &["--step-limit", "1", "-y", "--notify"],
        turns: || {
            let more = Turn::commands(&[submit("more")]);
            replies(&["echo one"]).into_iter().chain([more]).collect()
        },
        steps: &[
            Answer("new step limit", "many"),
            Screen("a limit is reached", "`many` is not a number"),
            Answer("`many` is not a number", "5"),
            Answer("new cost limit", ""),
            Answer("wants to finish", "and now this"),
            Screen("a new task", "The user added a new task"),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "models",
        sizes: &[WIDE],
        turns: || replies(&["echo one", "echo two", "echo three"]),
        steps: &[
            Answer("$ echo one", "/model"),
            Answer("the model is local/test", "/model openai/gpt-5"),
            Screen("a model without a key", "OPENAI_API_KEY"),
            Answer("OPENAI_API_KEY", "/model local/other"),
            Screen("another model goes on", "$ echo two"),
            Answer("$ echo two", "/fork"),
            Screen("a new run goes on", "$ echo three"),
            Answer("$ echo three", "/quit"),
            End(130),
        ],
        ..SESSION
    },
    Session {
        name: "interrupts",
        sizes: &[NARROW, USUAL],
        args: &["-y", "-c", "agent.salvage_command=sleep 300"],
        turns: || {
            vec![
                Turn {
                    chunk_delay_ms: 1200,
                    ..Turn::text("a reply that takes its time\n".repeat(8))
                },
                Turn::status(429).with_header("retry-after", "8"),
                silence(),
                Turn::commands(&["echo before; sleep 60", "echo never"])
                    .with_text("Now a command."),
                Turn::commands(&[submit("done")]),
                Turn::commands(&[submit("more")]),
            ]
        },
        steps: &[
            Until("a reply that takes its time"),
            INTERRUPT,
            Screen("a reply was arriving", "interrupted · Enter"),
            Answer("interrupted · Enter", ""),
            Screen("a countdown", "retry 1 of"),
            INTERRUPT,
            Screen("the countdown is over", "interrupted · Enter"),
            Answer("interrupted · Enter", "wait less"),
            Asked(3),
            Screen("no reply yet", "waiting for the model"),
            INTERRUPT,
            Answer("interrupted · Enter", ""),
            Until("sleep 60"),
            Until("running"),
            INTERRUPT,
            Screen("a command ran", "interrupted · Enter"),
            Answer("interrupted · Enter", ""),
            Until("wants to finish"),
            INTERRUPT,
            Screen("a question was open", "interrupted · Enter"),
            Answer("interrupted · Enter", ""),
            Answer("wants to finish", ""),
            Until("done"),
            INTERRUPT,
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "twice",
        turns: || vec![silence()],
        steps: &[
            Asked(1),
            Until("waiting for the model"),
            INTERRUPT,
            Until("interrupted · Enter"),
            INTERRUPT,
            End(130),
        ],
        ..SESSION
    },
    Session {
        name: "pastes",
        sizes: &[NARROW, USUAL],
        has_task: false,
        turns: || replies(&["echo one"]),
        steps: &[
            Screen("the task is asked for", "What is to be done?"),
            Paste(5000),
            Screen("a pasted task", "line 5000"),
            Keys(&["C-d"]),
            Answer("Enter: run this", "/m"),
            Until("several lines"),
            Paste(5000),
            Screen("a pasted answer", "line 5000"),
            Keys(&["C-d"]),
            Screen("it is shortened where it is shown", "$ echo COMPLETE"),
            Answer("$ echo COMPLETE", ""),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "resize",
        turns: || {
            replies(&[
                "while [ ! -e go ]; do sleep 0.1; done; echo one",
                "echo two",
            ])
        },
        steps: &[
            Until("Enter: run this"),
            Type("because it is not what was asked for"),
            Resize(30, 12),
            Screen("narrow", "asked for"),
            Resize(100, 30),
            Screen("wide", "> because it is not what was asked for"),
            Keys(&["C-u"]),
            Answer("Enter: run this", ""),
            Until("running"),
            Resize(40, 16),
            Touch("go"),
            Screen("narrow again, after a command", "$ echo two"),
            Answer("$ echo two", "/quit"),
            End(130),
        ],
        ..SESSION
    },
    Session {
        name: "jobs",
        args: &["-y"],
        turns: || {
            replies(&[
                "while [ ! -e go ]; do sleep 0.1; done; echo one",
                "echo two",
            ])
        },
        steps: &[
            Until("running"),
            Keys(&["C-z"]),
            Until("Stopped"),
            Line("bg"),
            Until("../host.sh &"),
            Line("echo the shell has the terminal"),
            Screen("in the background", "\nthe shell has the terminal"),
            Line("fg"),
            Until("fg\nsh ../host.sh"),
            Touch("go"),
            Answer("wants to finish", ""),
            Until("Submitted"),
            Until("shell>"),
            Screen("the terminal is the shell's again", "Submitted"),
        ],
        ..SESSION
    },
    Session {
        name: "stalled",
        args: &["-y"],
        turns: || replies(&["echo one; sleep 60"]),
        steps: &[
            Until("running"),
            Keys(&["C-s"]),
            Terminate,
            Keys(&["C-q"]),
            End(130),
        ],
        ..SESSION
    },
    Session {
        name: "plain",
        sizes: &[NARROW, USUAL],
        args: &["--plain"],
        turns: || replies(&["echo one", "echo two"]),
        steps: &[
            Answer("$ echo one", "no"),
            Answer("$ echo two", "/h"),
            Answer("second one ends the run.", "/y"),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
    Session {
        name: "policy",
        args: &["-y", "--plugin", "confirm"],
        turns: || replies(&["git push --force"]),
        steps: &[
            Screen("a policy asks in every mode", "`confirm` asks"),
            Answer("`confirm` asks", "never push"),
            Answer("wants to finish", ""),
            End(0),
        ],
        ..SESSION
    },
];
