//! Error handlers (MPI 5.0 section 9.3): what happens to an error of an object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// What an object does with its errors.
#[derive(Clone, Default)]
pub enum Errhandler {
    /// End the job (`MPI_ERRORS_ARE_FATAL`).
    #[default]
    AreFatal,
    /// End the processes of the object (`MPI_ERRORS_ABORT`).
    Abort,
    /// Return the code (`MPI_ERRORS_RETURN`).
    Return,
    /// Call a function of the user's.
    User(Arc<UserHandler>),
}

/// A function of the user's. It lives as long as a handle or an object uses it.
pub struct UserHandler {
    function: usize,
    /// The kind of object for which it was made.
    pub object: Object,
    /// The binding's handle, while the user holds references to it.
    pub handle: AtomicUsize,
    /// How many references the user holds.
    pub references: AtomicU32,
}

impl UserHandler {
    /// For objects of a kind.
    ///
    /// # Safety
    /// `function` is the address of an error handler function of the user's for such objects (MPI 5.0 section 9.3), in the form that the
    /// binding calls. As long as the result exists, it may be called from any thread, with the handle of such an object and a code.
    pub unsafe fn new(function: usize, object: Object) -> UserHandler {
        UserHandler {
            function,
            object,
            handle: AtomicUsize::new(0),
            references: AtomicU32::new(0),
        }
    }

    /// The function's address, which the bindings know how to call.
    pub fn function(&self) -> usize {
        self.function
    }
}

/// Kinds of objects that have error handlers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// A communicator.
    Communicator,
    /// A window.
    Window,
    /// A file.
    File,
    /// A session.
    Session,
}
