//! Replaces the library for unwinding, in the program that is copied into containers.
//!
//! Nothing unwinds there (`panic = "abort"`), and the tables for unwinding are left out
//! (`host/ship.ld`), so a backtrace would be empty in any case. Without these definitions, that
//! library and the parts of std that name the functions of a backtrace would be linked, and double
//! the program's size. The message of a panic is still printed.

use std::ffi::{c_int, c_void};
use std::ptr;

/// `_URC_END_OF_STACK`: there are no frames.
const END: c_int = 5;

/// Finds no frame.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Backtrace(_each: *const c_void, _argument: *mut c_void) -> c_int {
    END
}

/// Functions about a frame, which std refers to but never calls, because there is no frame.
macro_rules! of_no_frame {
    ($($name:ident),*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name(_frame: *mut c_void) -> *mut c_void {
            ptr::null_mut()
        })*
    };
}

of_no_frame!(
    _Unwind_GetIP,
    _Unwind_GetIPInfo,
    _Unwind_GetCFA,
    _Unwind_FindEnclosingFunction,
    _Unwind_GetDataRelBase,
    _Unwind_GetTextRelBase,
    _Unwind_GetRegionStart,
    _Unwind_GetLanguageSpecificData,
    _Unwind_SetGR,
    _Unwind_SetIP
);

/// Would continue a panic; a panic has ended the program before.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume(_exception: *mut c_void) -> ! {
    std::process::abort()
}
