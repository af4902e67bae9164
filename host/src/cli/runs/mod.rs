//! `runs`: lists, shows, repairs and removes recorded runs.

mod age;
mod card;
mod find;
mod list;
mod remove;
mod repair;
mod show;

pub(super) use find::one as find_one;
pub use list::list;
pub use remove::remove;
pub use repair::repair;
pub use show::show;

/// The journals of this user's runs.
pub(super) fn journals() -> Vec<std::path::PathBuf> {
    find::all().into_iter().map(|place| place.journal).collect()
}
