//! Collects the output of a process while it runs.

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread;

/// What was read from a pipe until now.
pub struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
}

impl Printed {
    pub fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let reader = thread::spawn({
            let bytes = Arc::clone(&bytes);
            move || {
                let mut block = [0; 8192];
                while let Ok(count @ 1..) = pipe.read(&mut block) {
                    bytes.lock().unwrap().extend_from_slice(&block[..count]);
                }
            }
        });
        Self { bytes, reader }
    }

    pub fn is_whole(&self) -> bool {
        self.reader.is_finished()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}
