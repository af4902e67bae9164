//! The sources of a batch's instances: files of JSON, JSON lines, CSV and parquet, and data sets of
//! the Hugging Face Hub, which are fetched into a cache.
//!
//! [`split_files`] finds the files of a data set; [`rows`] reads a file.

mod budget;
mod download;
mod error;
mod file_rows;
mod hub;
mod listing;
mod named;
mod parquet_rows;
mod redirects;

pub use budget::RowBudget;
pub use error::DatasetError;
pub use file_rows::rows;
pub use hub::Hub;
pub use named::{DatasetAt, full_name, locate, split_files};
pub use parquet_rows::{PARQUET_SUBCOMMAND, parquet_in_processes, parquet_process};
