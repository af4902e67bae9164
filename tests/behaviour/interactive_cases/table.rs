//! The table of cases: what the model replies, what the user types, and what follows.

/// A reply that is not awaited: the user interrupts the query.
pub(super) const SLOW: &str = "(slow)";

pub(super) const ONE: &str = "echo 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'\necho 'one'";
const TWO: &str = "echo 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'\necho 'two'";
const THREE: &str = "echo 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'\necho 'three'";

const RUN: &str = "Enter: run this";
const TURN: &str = "your command";
const END: &str = "wants to finish";
const ASKED: &str = "interrupted · Enter";
const WAITS: &str = "waiting for the model";

/// The beginnings of the messages that the user's answers make.
pub(super) const OF_THE_USER: &[&str] = &[
    "Commands not executed.",
    "Interrupted by user:",
    "Switched to human mode.",
    "The user added a new task:",
    OWN,
];

/// One session of a user.
pub(super) struct InteractiveCase {
    /// The tests of mini-swe-agent, without `test_`.
    pub tests: &'static [&'static str],
    pub args: &'static [&'static str],
    /// The model's commands, one for each reply.
    pub commands: &'static [&'static str],
    /// What has to be on the screen, and what is typed then; `^C` is a key.
    pub script: &'static [(&'static str, &'static str)],
    /// How many queries the server has answered, or was asked.
    pub queries: u64,
    /// The submission; none: the run ends at a limit.
    pub submission: Option<&'static str>,
    /// The first lines of what the user's answers have told the model.
    pub told: &'static [&'static str],
    /// What has to be on the screen at the end.
    pub shown: &'static [&'static str],
}

/// A case without arguments whose first reply submits.
const CASE: InteractiveCase = InteractiveCase {
    tests: &[],
    args: &[],
    commands: &[ONE],
    script: &[],
    queries: 1,
    submission: Some("one\n"),
    told: &[],
    shown: &[],
};

const CAUGHT: &str = "Interrupted by user: Temporary interruption caught.";
const TO_HUMAN: &str = "Commands not executed. Switching to human mode";
const OWN: &str = "User command: ";

pub(super) const CASES: &[InteractiveCase] = &[
    // Enter agrees to the commands of a step, and Enter at the submission ends the run.
    InteractiveCase {
        tests: &[
            "successful_completion_with_confirmation",
            "confirm_exit_enabled_asks_for_confirmation",
            "continue_after_completion_without_new_task",
            "confirm_exit_config_field_defaults",
        ],
        script: &[(RUN, ""), (END, "")],
        ..CASE
    },
    // A text rejects the commands, and the model goes on with it.
    InteractiveCase {
        tests: &["action_rejection_and_recovery"],
        commands: &["echo 'first'", TWO],
        script: &[
            ("$ echo 'first'", "not this"),
            ("echo 'two'", ""),
            (END, ""),
        ],
        queries: 2,
        submission: Some("two\n"),
        told: &[
            "Commands not executed. The user rejected your commands with the following message: not this",
        ],
        ..CASE
    },
    // `/y` at the question agrees, and nothing is asked from then on.
    InteractiveCase {
        tests: &[
            "yolo_mode_activation",
            "confirmation_mode_switch_to_yolo_and_continue",
        ],
        script: &[(RUN, "/y"), (END, "")],
        shown: &["yolo mode"],
        ..CASE
    },
    // The help is shown, and the question is asked again.
    InteractiveCase {
        tests: &["help_command", "help_command_from_different_contexts"],
        script: &[(RUN, "/h"), ("/expand [N]", ""), (END, "")],
        shown: &["/y  run all commands without asking (yolo)"],
        ..CASE
    },
    // A regular expression of the config agrees, also to a command of two lines.
    InteractiveCase {
        tests: &["whitelisted_actions_skip_confirmation"],
        args: &["-c", "agent.whitelist_actions=[\"echo.*\"]"],
        script: &[(END, "")],
        ..CASE
    },
    InteractiveCase {
        tests: &["non_whitelisted_action_requires_confirmation"],
        args: &["-c", "agent.whitelist_actions=[\"ls.*\"]"],
        script: &[(RUN, ""), (END, "")],
        ..CASE
    },
    // An interrupted query: a text is for the model, Enter goes on.
    InteractiveCase {
        tests: &["interruption_handling_with_message"],
        commands: &[SLOW, ONE],
        script: &[(WAITS, "^C"), (ASKED, "be quick"), (RUN, ""), (END, "")],
        queries: 2,
        told: &["Interrupted by user: be quick"],
        ..CASE
    },
    InteractiveCase {
        tests: &["interruption_handling_empty_message"],
        commands: &[SLOW, ONE],
        script: &[(WAITS, "^C"), (ASKED, ""), (RUN, ""), (END, "")],
        queries: 2,
        told: &[CAUGHT],
        ..CASE
    },
    // A rejection, the help, and then another mode.
    InteractiveCase {
        tests: &["multiple_confirmations_and_commands"],
        commands: &["echo 'first'", TWO],
        script: &[
            ("$ echo 'first'", "not this"),
            ("echo 'two'", "/h"),
            ("/expand [N]", "/y"),
            (END, ""),
        ],
        queries: 2,
        submission: Some("two\n"),
        told: &[
            "Commands not executed. The user rejected your commands with the following message: not this",
        ],
        shown: &["yolo mode"],
        ..CASE
    },
    // In `human` the model is never asked, and a command of the user's can submit.
    InteractiveCase {
        tests: &["human_mode_basic_functionality"],
        args: &["--mode", "human"],
        script: &[
            (TURN, "echo by hand"),
            ("\n  by hand", "/m"),
            ("several lines", TWO),
            (END, ""),
        ],
        queries: 0,
        submission: Some("two\n"),
        told: &[OWN, OWN],
        ..CASE
    },
    InteractiveCase {
        tests: &["human_mode_switch_to_yolo"],
        args: &["--mode", "human"],
        script: &[(TURN, "/y"), (END, "")],
        shown: &["yolo mode"],
        ..CASE
    },
    InteractiveCase {
        tests: &["human_mode_switch_to_confirm"],
        args: &["--mode", "human"],
        script: &[(TURN, "/c"), (RUN, ""), (END, "")],
        shown: &["confirm mode"],
        ..CASE
    },
    // `/u` at the question rejects the commands, and the user goes on.
    InteractiveCase {
        tests: &[
            "confirmation_mode_switch_to_human_with_rejection",
            "all_mode_transitions_confirm_to_human",
        ],
        commands: &["echo 'first'", "echo 'never'"],
        script: &[(RUN, "/u"), (TURN, "/m"), ("several lines", TWO), (END, "")],
        submission: Some("two\n"),
        told: &[TO_HUMAN, OWN],
        shown: &["human mode"],
        ..CASE
    },
    // The mode is switched where an interrupted query is asked about.
    InteractiveCase {
        tests: &["mode_switch_during_keyboard_interrupt"],
        commands: &[SLOW, ONE],
        script: &[(WAITS, "^C"), (ASKED, "/y"), (END, "")],
        queries: 2,
        told: &[CAUGHT],
        shown: &["yolo mode"],
        ..CASE
    },
    InteractiveCase {
        tests: &["already_in_mode_behavior"],
        script: &[(RUN, "/c"), ("already in confirm mode", ""), (END, "")],
        ..CASE
    },
    InteractiveCase {
        tests: &["all_mode_transitions_yolo_to_others"],
        args: &["-y"],
        commands: &["echo 'first'", SLOW, TWO],
        script: &[(WAITS, "^C"), (ASKED, "/c"), (RUN, ""), (END, "")],
        queries: 3,
        submission: Some("two\n"),
        told: &[CAUGHT],
        shown: &["confirm mode"],
    },
    InteractiveCase {
        tests: &["help_command_from_human_mode"],
        args: &["--mode", "human"],
        script: &[
            (TURN, "/h"),
            ("/expand [N]", "/m"),
            ("several lines", TWO),
            (END, ""),
        ],
        queries: 0,
        submission: Some("two\n"),
        told: &[OWN],
        ..CASE
    },
    // From mode to mode, at each place where that can be typed.
    InteractiveCase {
        tests: &["complex_mode_switching_sequence"],
        commands: &["echo 'first'", SLOW, THREE],
        script: &[
            (RUN, "/y"),
            (WAITS, "^C"),
            (ASKED, "/u"),
            (TURN, "/c"),
            (RUN, ""),
            (END, ""),
        ],
        queries: 3,
        submission: Some("three\n"),
        told: &[CAUGHT],
        shown: &["yolo mode", "human mode", "confirm mode"],
        ..CASE
    },
    // At a limit new limits may be given, as often as one is reached.
    InteractiveCase {
        tests: &["limits_exceeded_with_user_continuation"],
        args: &["-y", "--step-limit", "10", "-l", "0.5"],
        commands: &["echo 'first'", "echo 'second'", THREE],
        script: &[
            ("new step limit", "10"),
            ("new cost limit", "5.0"),
            (END, ""),
        ],
        queries: 3,
        submission: Some("three\n"),
        shown: &["a limit is reached: steps 1 of 10, cost $0.60 of $0.50"],
        ..CASE
    },
    InteractiveCase {
        tests: &["limits_exceeded_multiple_times_with_continuation"],
        args: &["-y", "--step-limit", "1", "-l", "100"],
        commands: &["echo 'first'", "echo 'second'", THREE],
        script: &[
            ("steps 1 of 1", "2"),
            ("new cost limit", "100.0"),
            ("steps 2 of 2", "10"),
            ("new cost limit", "100.0"),
            (END, ""),
        ],
        queries: 3,
        submission: Some("three\n"),
        ..CASE
    },
    // A limit of time can't be raised, so nothing is asked.
    InteractiveCase {
        tests: &["time_exceeded_never_prompts"],
        args: &["-y", "--time-limit", "1"],
        commands: &["sleep 5", ONE],
        submission: None,
        shown: &["TimeExceeded"],
        ..CASE
    },
    // A new task at the submission, in the same conversation, as often as wanted.
    InteractiveCase {
        tests: &[
            "continue_after_completion_with_new_task",
            "confirm_exit_with_new_task_continues_execution",
        ],
        commands: &[ONE, TWO],
        script: &[
            ("echo 'one'", ""),
            (END, "one more thing"),
            ("echo 'two'", ""),
            (END, ""),
        ],
        queries: 2,
        submission: Some("two\n"),
        told: &["The user added a new task: one more thing"],
        ..CASE
    },
    InteractiveCase {
        tests: &["continue_after_completion_multiple_cycles"],
        commands: &[ONE, TWO, THREE],
        script: &[
            ("echo 'one'", ""),
            (END, "a second task"),
            ("echo 'two'", ""),
            (END, "a third task"),
            ("echo 'three'", ""),
            (END, ""),
        ],
        queries: 3,
        submission: Some("three\n"),
        told: &[
            "The user added a new task: a second task",
            "The user added a new task: a third task",
        ],
        ..CASE
    },
    InteractiveCase {
        tests: &["continue_after_completion_in_yolo_mode"],
        args: &["-y"],
        commands: &[ONE, TWO],
        script: &[(END, "a second task"), (END, "")],
        queries: 2,
        submission: Some("two\n"),
        told: &["The user added a new task: a second task"],
        ..CASE
    },
    // Without the question at a submission.
    InteractiveCase {
        tests: &[
            "confirm_exit_disabled_exits_immediately",
            "confirm_exit_config_field_can_be_set",
        ],
        args: &["-c", "agent.confirm_exit=false"],
        script: &[(RUN, "")],
        ..CASE
    },
    // At a submission: the help, then the user goes on, and submits.
    InteractiveCase {
        tests: &["submission_help_then_human_mode"],
        args: &["-y"],
        script: &[
            (END, "/h"),
            ("/expand [N]", "/u"),
            (TURN, "echo by hand"),
            ("\n  by hand", "/m"),
            ("several lines", TWO),
            (END, ""),
        ],
        submission: Some("two\n"),
        told: &["Switched to human mode.", OWN, OWN],
        shown: &["human mode"],
        ..CASE
    },
    InteractiveCase {
        tests: &["submission_enter_quits"],
        args: &["-y"],
        script: &[(END, "")],
        ..CASE
    },
];
