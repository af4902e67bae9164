//! The screen for the user who answers questions: shows what is typed, and what a command has found.

use std::sync::Arc;

use super::SharedScreen;
use super::screen::InputView;
use crate::cli::front::lock;
use mswea_core::Action;

/// A handle to the screen of a run.
#[derive(Clone)]
pub struct Desk(pub(super) Arc<SharedScreen>);

impl Desk {
    /// A user may type from now on; also tells the mode of the run.
    pub fn attend(&self, mode: &'static str) {
        lock(&self.0.screen).attend(mode);
    }

    /// Nobody types any more.
    pub fn leave(&self) {
        lock(&self.0.screen).leave();
    }

    /// Whether the last lines can be drawn anew.
    pub fn is_live(&self) -> bool {
        lock(&self.0.screen).is_live()
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        lock(&self.0.screen).columns()
    }

    /// Whether all that was printed has reached the terminal.
    pub fn is_written(&self) -> bool {
        lock(&self.0.screen).is_written()
    }

    /// Shows the text that is being typed.
    pub fn input(&self, view: InputView) {
        lock(&self.0.screen).input(view);
    }

    /// Prints what the user has typed, or is asked for.
    pub fn typed(&self, mark: &str, text: &str) {
        lock(&self.0.screen).typed(mark, text);
    }

    /// Prints a question for a terminal whose lines can't be drawn anew; the answer follows in its last
    /// line.
    pub fn ask_plainly(&self, hint: &str, mark: &str) {
        lock(&self.0.screen).ask_plainly(hint, mark);
    }

    /// Prints a text of the host.
    pub fn note(&self, text: &str) {
        lock(&self.0.screen).note(text);
    }

    /// Prints the commands that are about to run.
    pub fn propose(&self, actions: &[Action]) {
        lock(&self.0.screen).propose(actions);
    }

    /// These commands are about to run, and are on the screen.
    pub fn expect(&self, actions: &[Action]) {
        lock(&self.0.screen).expect(actions);
    }

    /// Prints a text, shortened as an output.
    pub fn excerpt(&self, text: &str) {
        lock(&self.0.screen).excerpt(text);
    }

    /// What the run has used: the account, and the share of the context.
    pub fn account(&self) -> (String, String) {
        let screen = lock(&self.0.screen);
        (screen.account(), screen.context_account())
    }

    /// How many tokens a request may have, if that is known.
    pub fn learn_window(&self, window: Option<u64>) {
        lock(&self.0.screen).learn_window(window);
    }

    /// Prints an output in full: the last one, or that with this number.
    pub fn expand(&self, number: Option<usize>) {
        lock(&self.0.screen).expand(number);
    }

    /// Gives the terminal to another program.
    pub fn release(&self) {
        lock(&self.0.screen).release();
    }

    /// Writes the last lines anew, after another program has used the terminal.
    pub fn redraw(&self) {
        lock(&self.0.screen).redraw();
    }

    /// The program is in the background, so the last lines are not drawn until [`Desk::redraw`].
    pub fn step_back(&self) {
        lock(&self.0.screen).step_back();
    }

    /// Clears the visible screen but for the last lines.
    pub fn clear(&self) {
        lock(&self.0.screen).clear();
    }

    /// Rings the terminal's bell.
    pub fn ring(&self) {
        lock(&self.0.screen).ring();
    }
}
