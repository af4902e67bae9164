//! The screen for a user who answers questions: shows the typed text, and the output of the user's
//! commands.

use std::sync::Arc;

use super::SharedScreen;
use super::screen::InputView;
use crate::cli::front::lock;
use mswea_core::Action;

/// A handle to the screen of a run.
#[derive(Clone)]
pub struct Desk(pub(super) Arc<SharedScreen>);

impl Desk {
    /// Enables typing; `mode` is the mode of the run.
    pub fn attend(&self, mode: &'static str) {
        lock(&self.0.screen).attend(mode);
    }

    /// Disables typing.
    pub fn leave(&self) {
        lock(&self.0.screen).leave();
    }

    /// Whether the last lines can be redrawn.
    pub fn is_live(&self) -> bool {
        lock(&self.0.screen).is_live()
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        lock(&self.0.screen).columns()
    }

    /// Whether all output has reached the terminal.
    pub fn is_written(&self) -> bool {
        lock(&self.0.screen).is_written()
    }

    /// Shows the text that is being typed.
    pub fn input(&self, view: InputView) {
        lock(&self.0.screen).input(view);
    }

    /// Prints a text that the user has typed, or a question.
    pub fn typed(&self, mark: &str, text: &str) {
        lock(&self.0.screen).typed(mark, text);
    }

    /// Prints a question on a terminal whose lines can't be redrawn; the answer is typed after its
    /// last line.
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

    /// Records that these commands are on the screen and about to run.
    pub fn expect(&self, actions: &[Action]) {
        lock(&self.0.screen).expect(actions);
    }

    /// Prints a text, shortened like an output.
    pub fn excerpt(&self, text: &str) {
        lock(&self.0.screen).excerpt(text);
    }

    /// The account of the run, and the used share of the context.
    pub fn account(&self) -> (String, String) {
        let screen = lock(&self.0.screen);
        (screen.account(), screen.context_account())
    }

    /// Sets how many tokens a request may have, if that is known.
    pub fn learn_window(&self, window: Option<u64>) {
        lock(&self.0.screen).learn_window(window);
    }

    /// Prints an output in full: the last one, or the one with this number.
    pub fn expand(&self, number: Option<usize>) {
        lock(&self.0.screen).expand(number);
    }

    /// Gives the terminal to another program.
    pub fn release(&self) {
        lock(&self.0.screen).release();
    }

    /// Redraws the last lines after another program has used the terminal.
    pub fn redraw(&self) {
        lock(&self.0.screen).redraw();
    }

    /// Stops drawing the last lines until [`Desk::redraw`], because the program is in the
    /// background.
    pub fn step_back(&self) {
        lock(&self.0.screen).step_back();
    }

    /// Clears the visible screen except for the last lines.
    pub fn clear(&self) {
        lock(&self.0.screen).clear();
    }

    /// Rings the terminal's bell.
    pub fn ring(&self) {
        lock(&self.0.screen).ring();
    }
}
