//! Who uses the instance of a process, and when it is closed.
//!
//! At the end of the World Model an instance is closed, and the next one has the next *incarnation*, unless a process of
//! the job has had a session: that process may open another session at any time, and then finds its peers in the same
//! incarnation only if none of them has closed its instance. All processes decide that together, but meanwhile another
//! thread may open the first session of all. So they ask twice ([`Communicator::finalize_world`]):
//!
//! 1. with a vote that makes nobody wait: sessions may be opened and closed meanwhile. When it is over, all processes
//!    have called `MPI_Finalize`;
//! 2. if no process has had a session by then, with a vote in which each process gives its final answer ([`Users::last_word`]).
//!    A first session that is initialized after it has to wait ([`Users::may_come`]) until the vote is over, and gets the next
//!    incarnation if this one was closed.
//!
//! With that wait, `MPI_Session_init` is still local: it waits for no call of another process, because all are inside
//! `MPI_Finalize` and stay there until the vote is over. A wait in the first vote would be for calls of `MPI_Finalize`,
//! which may themselves wait for that session.
//!
//! [`Communicator::finalize_world`]: crate::objects::communicator::Communicator::finalize_world

/// The record of users. After [`Users::leave`] and [`Users::go_on`], the owner of its lock lets waiting sessions try
/// again.
#[derive(Debug)]
pub struct Users {
    /// The World Model and the sessions that are initialized and not finalized.
    count: u32,
    /// Whether there has been a session in this incarnation.
    had_sessions: bool,
    /// How often an instance was closed before.
    incarnation: u32,
    /// The final answer was that there has been no session; the result of the vote is not known yet.
    undecided: bool,
}

/// A user of the instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User {
    /// The World Model.
    World,
    /// A session.
    Session,
}

/// What becomes of the instance when a user has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Others still use it.
    GoesOn,
    /// It rests: peers can still send to it, and the next session finds it unchanged.
    Rests,
    /// It is closed.
    Closes,
}

impl Users {
    /// No users.
    pub const fn new() -> Users {
        Users {
            count: 0,
            had_sessions: false,
            incarnation: 0,
            undecided: false,
        }
    }

    /// Whether a session may be initialized now.
    pub fn may_come(&self) -> bool {
        !self.undecided
    }

    /// Adds a user, which gets an instance of [`Users::incarnation`].
    pub fn come(&mut self, user: User) {
        debug_assert!(self.may_come());
        self.count += 1;
        self.had_sessions |= user == User::Session;
    }

    /// The number of users.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How often an instance was closed before.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Whether there has been a session in this incarnation.
    pub fn had_sessions(&self) -> bool {
        self.had_sessions
    }

    /// The same as the final answer in the vote on closing the instance: if there has been none, none may be initialized until
    /// [`Users::leave`] or [`Users::go_on`].
    pub fn last_word(&mut self) -> bool {
        self.undecided = !self.had_sessions;
        self.had_sessions
    }

    /// The vote decided not to close: the instance stays.
    pub fn go_on(&mut self) {
        self.undecided = false;
    }

    /// Removes a user. `close`: it is the World Model, and by the final answers no process of the job has had a session.
    pub fn leave(&mut self, close: bool) -> Then {
        self.undecided = false;
        self.count -= 1;
        match (self.count, close) {
            (0, true) => {
                self.incarnation += 1;
                Then::Closes
            }
            (0, false) => Then::Rests,
            _ => Then::GoesOn,
        }
    }
}

impl Default for Users {
    fn default() -> Users {
        Users::new()
    }
}
