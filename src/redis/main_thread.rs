//! State that only the server's main thread touches.

/// A value that lives as long as the module and is only reached from the server's main thread.
///
/// It is a plain static without a destructor: a thread-local one would keep the library mapped after MODULE UNLOAD.
pub struct MainThread<T>(T);

// SAFETY: the server calls commands, timers and events of a module on its main thread only, and the module starts no
// thread that holds a reference to such a value.
unsafe impl<T> Sync for MainThread<T> {}
// SAFETY: as above; the value is made on first use, on the main thread.
unsafe impl<T> Send for MainThread<T> {}

impl<T> MainThread<T> {
    pub const fn new(value: T) -> Self {
        MainThread(value)
    }
}

impl<T> std::ops::Deref for MainThread<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
