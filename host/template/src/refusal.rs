//! The error for operations that Python does not have.

use minijinja::{Error, ErrorKind};

/// The error for an operation that Python does not have.
pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}
