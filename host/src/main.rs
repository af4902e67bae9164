//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    mswea_host::cli::main()
}
