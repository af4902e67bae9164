//! The page of `mswea-host view`: recorded runs in a browser on this machine, also while they go on.
//!
//! `server` has the connections, `door` who may ask, `routes` what is asked. `places` finds the files of
//! runs, `card` is what a list shows of one (`journal_card`, `foreign_card` with `foreign_head` and `foreign_value`; `config_name` names its settings), `table` keeps the list; `opened` has the runs that are read
//! whole. The files of the page are in `page/`, and inside of the program. `waiting` reads what a batch has
//! not begun. `blanked` knows the files of secrets that runs name. `reader` is for the inspector at a
//! terminal, which parses of a trajectory (`indexed`, `elements`) only what it shows.
//!
//! Only `notes` writes a file, and no request names one: a run is named by an id that the server
//! has made. A request that was sent to the model is reconstructed by the host (`sent`), which has
//! the plugins.

mod answers;
mod blanked;
mod card;
mod compare;
mod config_name;
mod door;
mod elements;
mod foreign_card;
mod foreign_head;
mod foreign_value;
mod indexed;
mod journal_card;
mod notes;
mod opened;
mod page;
mod paged;
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
