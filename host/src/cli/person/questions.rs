//! The questions, one function each: the displayed text, and the effects of the answers.

use super::commands::SlashCommand;
use super::console::{Held, Prompt, Typed};
use super::work_tree::RememberedFiles;
use super::{Attendant, approval, history, outside};
use mswea_core::{Action, Answer, PersonMode, SpentOfLimits};

/// The mark before an answer.
const MARK: &str = "> ";

/// The input at a prompt.
enum Entered {
    Text(String),
    /// The mode was changed.
    Switched(PersonMode),
    /// A command that this question handles.
    Own(SlashCommand),
    /// The input has ended.
    Gone,
}

impl Attendant {
    /// Asks until there is an input that the question has to handle.
    async fn entered(&self, held: &Held<'_>, hint: &str) -> Entered {
        let mut is_multiline = false;
        loop {
            let prompt = Prompt {
                hint: match is_multiline {
                    true => "several lines: Esc Enter or Ctrl-D sends them".to_owned(),
                    false => hint.to_owned(),
                },
                mark: MARK,
                is_multiline,
                ..Prompt::default()
            };
            let Typed::Text(text) = held.ask(prompt).await else {
                return Entered::Gone;
            };
            if is_multiline {
                return Entered::Text(text);
            }
            match SlashCommand::of(&text) {
                None => return Entered::Text(text),
                Some(SlashCommand::Mode(mode)) => {
                    if self.seat.switch(mode) {
                        return Entered::Switched(mode);
                    }
                }
                Some(SlashCommand::Multiline) => is_multiline = true,
                Some(
                    own @ (SlashCommand::Always { .. }
                    | SlashCommand::Edit { .. }
                    | SlashCommand::Quit
                    | SlashCommand::Model(_)
                    | SlashCommand::Fork
                    | SlashCommand::Unknown(_)),
                ) => return Entered::Own(own),
                Some(SlashCommand::Undo) => self.undo(held).await,
                Some(command) => self.seat.obey(&command),
            }
        }
    }

    /// Undoes the changes of the last commands in files, if the user agrees after seeing them.
    async fn undo(&self, held: &Held<'_>) {
        let desk = &self.seat.desk;
        let tree = match &self.seat.work_tree {
            Ok(tree) => tree,
            Err(why) => return desk.note(why),
        };
        let changes = match RememberedFiles::found(&self.seat.run(tree.look()).await) {
            Ok(changes) => changes,
            Err(why) => return desk.note(&why),
        };
        desk.note(&changes.named());
        for path in &changes.nested {
            desk.note(&format!(
                "{path} is a repository of its own, which stays as it is"
            ));
        }
        if changes.has_moved {
            desk.note(
                "the current commit is another one since: it stays, and with it what is committed",
            );
        }
        let prompt = Prompt {
            hint: "take back these changes? Enter: yes · any text: no".to_owned(),
            mark: MARK,
            ..Prompt::default()
        };
        match held.ask(prompt).await {
            Typed::Text(text) if text.trim().is_empty() => {}
            _ => return desk.note("nothing was taken back"),
        }
        match RememberedFiles::is_back(&self.seat.run(tree.take_back(&changes)).await) {
            Ok(()) => {
                self.seat.tell(format!(
                    "The user has taken back changes of files that your last commands have made. These files are \
                     as they were before:\n{}",
                    changes.named()
                ));
                desk.note("taken back; the model is told before its next step");
            }
            Err(why) => desk.note(&why),
        }
    }

    /// Handles a command that the question does not handle.
    async fn other(&self, command: &SlashCommand) {
        let ends = match command {
            SlashCommand::Model(name) => self.seat.switch_model(name),
            SlashCommand::Fork => self.seat.fork(),
            command => {
                self.seat.obey(command);
                *command == SlashCommand::Quit
            }
        };
        if ends {
            // The run ends, which withdraws the question.
            std::future::pending::<()>().await;
        }
    }

    pub(super) async fn actions(&self, held: &Held<'_>, actions: &[Action]) -> Option<Answer> {
        self.seat.desk.propose(actions);
        let mut commands: Vec<String> = actions.iter().map(|it| it.command.clone()).collect();
        loop {
            let what = match actions.len() {
                1 => "run this".to_owned(),
                count => format!("run these {count} commands"),
            };
            let hint = format!("Enter: {what} · text: reject · /h: help · /a: always · /e: edit");
            match self.entered(held, &hint).await {
                Entered::Gone => return None,
                Entered::Text(text) if text.trim().is_empty() => {
                    return Some(agreed(actions, commands));
                }
                Entered::Text(reason) => return Some(Answer::No { reason }),
                Entered::Switched(PersonMode::Yolo) => return Some(agreed(actions, commands)),
                Entered::Switched(PersonMode::Human) => return Some(Answer::TakeOver),
                Entered::Switched(PersonMode::Confirm) => {}
                Entered::Own(SlashCommand::Always { is_kept }) => {
                    if self.always(held, &commands, is_kept).await {
                        return Some(agreed(actions, commands));
                    }
                }
                Entered::Own(SlashCommand::Edit { which, outside }) => {
                    let at = which.wrapping_sub(1);
                    match commands.get(at) {
                        None => self.seat.desk.note(&format!("there is no command {which}")),
                        Some(command) => {
                            if let Some(edited) = self.edited(held, command, outside).await {
                                commands[at] = edited;
                                let actions = with(actions, &commands);
                                // A command that was edited here is already above.
                                match outside || actions.len() > 1 {
                                    true => self.seat.desk.propose(&actions),
                                    false => self.seat.desk.expect(&actions),
                                }
                            }
                        }
                    }
                }
                Entered::Own(command) => self.other(&command).await,
            }
        }
    }

    pub(super) async fn policy(
        &self,
        held: &Held<'_>,
        policy: &str,
        action: &Action,
        reason: &str,
    ) -> Option<Answer> {
        self.seat.desk.propose(std::slice::from_ref(action));
        self.seat.desk.note(&format!("`{policy}` asks: {reason}"));
        let mut command = action.command.clone();
        loop {
            let hint = "Enter: run this · text: reject · /h: help · /e: edit";
            let agreed = match self.entered(held, hint).await {
                Entered::Gone => return None,
                Entered::Text(text) if text.trim().is_empty() => true,
                Entered::Text(reason) => return Some(Answer::No { reason }),
                // The policy's question is asked in every mode.
                Entered::Switched(_) => false,
                Entered::Own(SlashCommand::Edit { outside, .. }) => {
                    if let Some(edited) = self.edited(held, &command, outside).await {
                        command = edited;
                        self.seat.desk.propose(&[Action {
                            command: command.clone(),
                            ..action.clone()
                        }]);
                    }
                    false
                }
                Entered::Own(command) => {
                    self.other(&command).await;
                    false
                }
            };
            if agreed && command == action.command {
                return Some(Answer::Yes);
            }
            if agreed {
                return Some(Answer::Edit { command });
            }
        }
    }

    /// Asks for a prefix that is always allowed, in this run or in all runs. Returns whether the
    /// commands may run after that.
    async fn always(&self, held: &Held<'_>, commands: &[String], is_kept: bool) -> bool {
        let desk = &self.seat.desk;
        let file = approval::file().filter(|_| is_kept);
        if is_kept && file.is_none() {
            desk.note("there is no place for the approvals: set `HOME`");
            return false;
        }
        if let Some(file) = &file {
            desk.note(&format!("this adds a line to {}", file.display()));
        }
        let which = if is_kept {
            "in all runs"
        } else {
            "in this run"
        };
        let commands = || commands.iter().map(String::as_str);
        while !commands().all(|command| self.approval().covers(command)) {
            let Some(proposal) = self.approval().proposal(commands()) else {
                desk.note(
                    "this can't be allowed always: only commands that are joined with `&&`, `;` and `|`, \
                     without substitutions, redirections and the like, and without words that the approvals deny",
                );
                return false;
            };
            let prompt = Prompt {
                hint: format!("{which}, always run commands that begin with (empty: none):"),
                mark: MARK,
                initial: proposal,
                ..Prompt::default()
            };
            let Typed::Text(prefix) = held.ask(prompt).await else {
                return false;
            };
            if prefix.trim().is_empty() {
                return false;
            }
            if !self.approval().approve(&prefix) {
                desk.note("this is not the beginning of one plain command");
                continue;
            }
            let Some(file) = &file else { continue };
            match approval::keep(file, &prefix) {
                Ok(()) => desk.note(&format!("`{}` is in {}", prefix.trim(), file.display())),
                Err(error) => desk.note(&format!(
                    "it holds in this run only: can't write `{}`: {error}",
                    file.display()
                )),
            }
        }
        true
    }

    /// The command as the user has changed it; none if it is unchanged.
    async fn edited(&self, held: &Held<'_>, command: &str, outside: bool) -> Option<String> {
        let edited = match outside {
            true => {
                let (desk, command) = (self.seat.desk.clone(), command.to_owned());
                let editing = tokio::task::spawn_blocking(move || outside::edit(&desk, &command));
                match editing.await {
                    Ok(Ok(edited)) => edited,
                    Ok(Err(why)) => {
                        self.seat.desk.note(&why);
                        return None;
                    }
                    Err(_) => return None,
                }
            }
            false => {
                let prompt = Prompt {
                    hint: "the command (Enter: done; empty: as it was)".to_owned(),
                    mark: "$ ",
                    initial: command.to_owned(),
                    ..Prompt::default()
                };
                match held.ask(prompt).await {
                    Typed::Text(text) => text,
                    Typed::Eof => return None,
                }
            }
        };
        (!edited.trim().is_empty() && edited != command).then_some(edited)
    }

    pub(super) async fn turn(&self, held: &Held<'_>) -> Option<Answer> {
        loop {
            let hint = "your command · /c or /y: the model goes on · /h: help";
            match self.entered(held, hint).await {
                Entered::Gone => return None,
                Entered::Switched(PersonMode::Human) => {}
                Entered::Switched(_) => return Some(Answer::Yes),
                Entered::Text(text) if text.trim().is_empty() => {}
                Entered::Text(command) => {
                    let action = Action {
                        command: command.clone(),
                        ..Action::default()
                    };
                    self.seat.desk.expect(&[action]);
                    return Some(Answer::Act { command });
                }
                // A file below the root may have such a name.
                Entered::Own(SlashCommand::Unknown(name)) => {
                    let command = format!("/{name}");
                    return Some(Answer::Act { command });
                }
                Entered::Own(command) => self.other(&command).await,
            }
        }
    }

    pub(super) async fn interrupted(&self, held: &Held<'_>) -> Option<Answer> {
        loop {
            let hint =
                "interrupted · Enter: go on · Ctrl-C: end · text: tell the model · /u: your turn";
            match self.entered(held, hint).await {
                Entered::Gone => return None,
                Entered::Own(SlashCommand::Quit) => {
                    return Some(Answer::No {
                        reason: String::new(),
                    });
                }
                Entered::Switched(_) => return Some(Answer::Yes),
                Entered::Text(text) if text.trim().is_empty() => return Some(Answer::Yes),
                Entered::Text(text) => return Some(Answer::Say { text }),
                Entered::Own(command) => self.other(&command).await,
            }
        }
    }

    pub(super) async fn submission(&self, held: &Held<'_>, submission: &str) -> Option<Answer> {
        self.seat.desk.excerpt(submission);
        loop {
            let hint = "the agent wants to finish · Enter: end · text: a new task · /u: your turn";
            match self.entered(held, hint).await {
                Entered::Gone => return None,
                Entered::Switched(PersonMode::Human) => return Some(Answer::TakeOver),
                Entered::Switched(_) => {}
                Entered::Text(text) if text.trim().is_empty() => return Some(Answer::Yes),
                Entered::Text(text) => {
                    history::add(&text);
                    return Some(Answer::Say { text });
                }
                Entered::Own(SlashCommand::Fork) => {
                    let why =
                        "a new run needs something to do: give the new task first, then /fork";
                    self.seat.desk.note(why);
                }
                Entered::Own(command) => self.other(&command).await,
            }
        }
    }

    pub(super) async fn limit(&self, held: &Held<'_>, account: SpentOfLimits) -> Option<Answer> {
        let SpentOfLimits {
            queries,
            query_limit,
            cost,
            cost_limit,
        } = account;
        self.seat.desk.note(&format!(
            "a limit is reached: steps {queries} of {}, cost ${cost:.2} of {}",
            shown_limit(query_limit > 0, &query_limit.to_string()),
            shown_limit(cost_limit > 0.0, &format!("${cost_limit:.2}")),
        ));
        let steps = self
            .number(held, "new step limit (0: none; Enter: as it is)")
            .await?;
        let dollars = self
            .number(held, "new cost limit in dollars (0: none; Enter: as it is)")
            .await?;
        // Limits that are switched off stay so.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float is limited to the range"
        )]
        let steps = match steps {
            Some(steps) if query_limit > 0 && steps > 0.0 => steps as i64 - query_limit,
            Some(_) if query_limit > 0 => i64::MAX,
            _ => 0,
        };
        let cost = match dollars {
            Some(dollars) if cost_limit > 0.0 && dollars > 0.0 => dollars - cost_limit,
            Some(_) if cost_limit > 0.0 => f64::MAX,
            _ => 0.0,
        };
        Some(Answer::Raise { steps, cost })
    }

    /// A number that is not negative; none for an empty answer. `None` if the input has ended.
    async fn number(&self, held: &Held<'_>, hint: &str) -> Option<Option<f64>> {
        loop {
            let prompt = Prompt {
                hint: hint.to_owned(),
                mark: MARK,
                ..Prompt::default()
            };
            let Typed::Text(text) = held.ask(prompt).await else {
                return None;
            };
            match text.trim() {
                "" => return Some(None),
                text => match text.trim_start_matches('$').parse::<f64>() {
                    Ok(number) if number >= 0.0 && number.is_finite() => return Some(Some(number)),
                    _ => self
                        .seat
                        .desk
                        .note(&format!("`{text}` is not a number: write one, such as 20")),
                },
            }
        }
    }
}

fn shown_limit(is_set: bool, limit: &str) -> String {
    match is_set {
        true => limit.to_owned(),
        false => "no limit".to_owned(),
    }
}

/// The answer that the actions run, with these commands in place of their own.
fn agreed(actions: &[Action], commands: Vec<String>) -> Answer {
    let same = actions.iter().zip(&commands);
    match same
        .into_iter()
        .all(|(action, command)| action.command == *command)
    {
        true => Answer::Yes,
        false => Answer::EditAll { commands },
    }
}

fn with(actions: &[Action], commands: &[String]) -> Vec<Action> {
    let actions = actions.iter().zip(commands);
    let edited = actions.map(|(action, command)| Action {
        command: command.clone(),
        ..action.clone()
    });
    edited.collect()
}
