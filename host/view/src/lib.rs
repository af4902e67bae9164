//! The page of `mswea-host view`: recorded runs in a browser on this machine, also while they go on.
//!
//! `server` accepts the connections, `door` checks the requests, `routes` answers them. `places`
//! finds the files of runs, `card` has the data of a run in the list (`journal_card`,
//! `foreign_card`), `table` keeps the list; `opened` keeps the runs that are read completely. The
//! files of the page are in `page/`, and embedded in the program. `waiting` lists the instances
//! that a batch has not begun. `blanked` knows the files of secrets that runs name. `reader` is for
//! the inspector at a terminal, which parses only the shown parts of a trajectory (`indexed`,
//! `elements`).
//!
//! Only `notes` writes a file, and no request names one: a run is named by an id that the server
//! has made. A request that was sent to the model is reconstructed by the host (`sent`), which has
//! the plugins.

mod answers;
mod blanked;
mod card;
mod compare;
mod door;
mod elements;
mod foreign_card;
mod indexed;
mod journal_card;
mod notes;
mod opened;
mod page;
mod places;
mod reader;
mod routes;
mod search;
mod sent;
mod server;
mod settings;
mod steps;
mod table;
mod tally;
mod waiting;

pub use reader::{PageFigures, PageLine, RunLine, RunList, RunReader};
pub use sent::SentRequest;
pub use server::ViewServer;
pub use settings::{SecretsIn, SentOf, ViewError, ViewRoots, ViewSettings};
