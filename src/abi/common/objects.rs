//! From handles to objects, and the checks of arguments that many procedures share.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::common::constants::*;
use crate::abi::common::handle::{HandleKind, Table};
use crate::abi::common::types::*;
use crate::abi::point_to_point::persistent::Persistent;
use crate::abi::process;
use crate::base::error::{Error, Result};
use crate::data::datatype::Datatype;
use crate::data::op::Op;
use crate::engine::Message;
use crate::engine::buffered::SendBuffer;
use crate::engine::describe::OwnNames;
use crate::engine::matching::Envelope;
use crate::err;
use crate::identity::Context;
use crate::objects::communicator::Communicator;
use crate::objects::communicator::names::Names;
use crate::objects::errhandler::{Errhandler, Object, UserHandler};
use crate::objects::file::File;
use crate::objects::group::{Given, Group};
use crate::objects::info::Info;
use crate::objects::session::Session;
use crate::objects::window::Window;
use crate::system::rcu::Held;

/// Communicators; the predefined ones from Init to Finalize.
pub static COMMUNICATORS: Table<Communicator> = Table::new(HandleKind::Communicator);
/// Groups, except the empty one.
pub static GROUPS: Table<Group> = Table::new(HandleKind::Group);
/// Derived datatypes.
pub static DATATYPES: Table<Datatype> = Table::new(HandleKind::Datatype);
/// Operations of the user's.
pub static OPS: Table<Op> = Table::new(HandleKind::Op);
/// Info objects.
pub static INFOS: Table<Info> = Table::new(HandleKind::Info);
/// Error handlers of the user's.
pub static ERRHANDLERS: Table<UserHandler> = Table::new(HandleKind::Errhandler);
/// Sessions.
pub static SESSIONS: Table<Session> = Table::new(HandleKind::Session);
/// Windows.
pub static WINDOWS: Table<Window> = Table::new(HandleKind::Window);
/// Files.
pub static FILES: Table<File> = Table::new(HandleKind::File);
/// Messages that a matching probe has taken.
pub static MESSAGES: Table<TakenMessage> = Table::new(HandleKind::Message);

/// Persistent requests.
pub static PERSISTENT: Table<Persistent> = Table::new(HandleKind::Persistent);

/// A message that a matching probe has taken, until it is received.
pub struct TakenMessage {
    /// Of its communicator.
    pub context: Context,
    /// That of its communicator.
    pub session: u64,
    /// Its communicator and itself.
    pub taken: parking_lot::Mutex<Option<(Arc<Communicator>, Envelope, Message)>>,
}

#[cold]
fn invalid(class: crate::Class, what: &str, handle: usize, null: usize, null_name: &str) -> Error {
    if handle == null {
        Error::new(class, format!("{what} is {null_name}"))
    } else {
        Error::new(
            class,
            format!(
                "{what} {handle:#x} is not valid: it was freed, it came from a session that is finalized, or it never was \
                 one"
            ),
        )
    }
}

/// The error if there is no handle left.
#[cold]
pub fn too_many() -> Error {
    err!(
        Other,
        "there are too many objects of this kind at once (more than 1048576)"
    )
}

/// The communicator of a handle.
#[inline]
pub fn communicator(handle: MPI_Comm) -> Result<Arc<Communicator>> {
    COMMUNICATORS.get(handle).ok_or_else(|| no_communicator(handle))
}

/// The communicator of a handle, for local calls: also one that `MPI_Comm_idup` is still making.
pub fn early_communicator(handle: MPI_Comm) -> Result<Arc<Communicator>> {
    COMMUNICATORS
        .get_early(handle)
        .ok_or_else(|| no_communicator(handle))
}

/// The communicator of a handle, as long as the thread does not wait and calls no function of the user's: see [`Table::hold`].
#[inline(always)]
pub fn hold_communicator(handle: MPI_Comm) -> Result<Held<'static, Communicator>> {
    match COMMUNICATORS.hold(handle) {
        Some(found) => Ok(found),
        None => Err(no_communicator(handle)),
    }
}

#[cold]
fn no_communicator(handle: MPI_Comm) -> Error {
    match handle {
        MPI_COMM_WORLD => process::no_predefined_communicator("MPI_COMM_WORLD"),
        MPI_COMM_SELF => process::no_predefined_communicator("MPI_COMM_SELF"),
        _ if COMMUNICATORS.get_early(handle).is_some() => err!(
            Comm,
            "the communicator is still being made: until the request of MPI_Comm_idup has completed, it can be used in local calls only"
        ),
        _ => invalid(
            crate::Class::Comm,
            "the communicator",
            handle,
            MPI_COMM_NULL,
            "MPI_COMM_NULL",
        ),
    }
}

/// The communicator of a handle, which must not be an intercommunicator.
pub fn intracommunicator(handle: MPI_Comm, name: &str) -> Result<Arc<Communicator>> {
    let found = communicator(handle)?;
    match found.is_inter() {
        true => Err(err!(
            Comm,
            "{name} is an intercommunicator, but must be an intracommunicator"
        )),
        false => Ok(found),
    }
}

/// The communicator of a handle, which must be an intercommunicator.
pub fn intercommunicator(handle: MPI_Comm, name: &str) -> Result<Arc<Communicator>> {
    only_inter(communicator(handle)?, name)
}

/// The same for local calls: see [`early_communicator`].
pub fn early_intercommunicator(handle: MPI_Comm, name: &str) -> Result<Arc<Communicator>> {
    only_inter(early_communicator(handle)?, name)
}

fn only_inter(found: Arc<Communicator>, name: &str) -> Result<Arc<Communicator>> {
    match found.is_inter() {
        true => Ok(found),
        false => Err(err!(
            Comm,
            "{name} is an intracommunicator, but must be an intercommunicator"
        )),
    }
}

/// The communicator of a context id, for the error handler of a request that it belongs to.
#[cold]
pub fn communicator_of_context(context: Context) -> Option<Arc<Communicator>> {
    if context.is_none() {
        return None;
    }
    let id = context.communicator();
    let is_it = |communicator: &Communicator| communicator.context() == id;
    // The World Model may be over while a session goes on.
    let world = process::world().ok();
    let predefined = world.as_deref().map(|world| [&world.world, &world.alone]);
    let found = predefined
        .into_iter()
        .flatten()
        .find(|communicator| is_it(communicator));
    found.cloned().or_else(|| COMMUNICATORS.find(is_it))
}

/// Deletes the attributes of a communicator that will be freed. A delete callback's error belongs to that communicator.
pub fn delete_attributes(communicator: &Communicator, handle: MPI_Comm) -> Result<()> {
    let deleted = communicator.attributes().delete_all(handle);
    deleted.map_err(|error| Error {
        context: communicator.context(),
        ..error
    })
}

/// A handle for a new communicator; `None` makes `MPI_COMM_NULL`.
pub fn new_communicator(communicator: Option<Arc<Communicator>>) -> Result<MPI_Comm> {
    let Some(communicator) = communicator else {
        return Ok(MPI_COMM_NULL);
    };
    let handle = COMMUNICATORS.insert(communicator.clone()).ok_or_else(too_many)?;
    communicator.handle().store(handle, Ordering::Relaxed);
    note_connection(&communicator);
    Ok(handle)
}

/// The processes of a new communicator, or of that of a window or file, are connected from now on (section 11.10.4).
pub fn note_connection(communicator: &Communicator) {
    communicator.connects();
    if let Some(session) = session_of(communicator) {
        session.connect(communicator);
    }
}

/// They are no longer.
pub fn forget_connection(communicator: &Communicator) {
    communicator.instance().disconnect_by(communicator.context());
    if let Some(session) = session_of(communicator) {
        session.disconnect(communicator);
    }
}

/// The handle of a communicator.
pub fn handle_of_communicator(communicator: &Communicator) -> MPI_Comm {
    communicator.handle().load(Ordering::Relaxed)
}

/// The name of a communicator for messages.
pub fn name_of_communicator(communicator: &Communicator) -> String {
    let name = communicator.name().lock();
    match name.is_empty() {
        true => format!("communicator {:#x}", handle_of_communicator(communicator)),
        false => name.clone(),
    }
}

/// The same for all communicators, by context id.
pub fn names_of_communicators() -> OwnNames {
    let all = COMMUNICATORS.find_all(|_| true);
    let predefined = [MPI_COMM_WORLD, MPI_COMM_SELF]
        .into_iter()
        .filter_map(|handle| COMMUNICATORS.get(handle));
    let names: Names = all
        .into_iter()
        .chain(predefined)
        .map(|communicator| {
            (
                communicator.context().communicator(),
                name_of_communicator(&communicator),
            )
        })
        .chain(WINDOWS.find_all(|_| true).into_iter().map(|window| {
            let context = window.communicator().context();
            (context.communicator(), name_of_window(&window))
        }))
        .collect();
    Box::new(move |context, tag| names.called(context, tag))
}

/// Ends everything that was derived from a session (0: the World Model) when that ends, whether it was freed or not.
pub fn forget_session(number: u64) {
    // Dropped once the tables are free again.
    let requests = PERSISTENT.remove_all(|request| request.communicator().group().session() == number);
    let messages = MESSAGES.remove_all(|message| message.session == number);
    let communicators = COMMUNICATORS.remove_all(|communicator| communicator.group().session() == number);
    let groups = GROUPS.remove_all(|group| number != 0 && group.session() == number);
    let windows = WINDOWS.remove_all(|window| window.communicator().group().session() == number);
    // They are closed, but not deleted if they should be on close.
    let files = FILES.remove_all(|file| file.group().session() == number);
    for window in &windows {
        // Section 11.2.2: windows that the program has made are not freed for it, and it may still use their memory.
        window.exposed().leave();
        window.retire(true);
    }
    drop((requests, messages, communicators, groups, windows, files));
}

/// Detaches the buffers of a session's communicators (0: the World Model's): no further message is put there. Those that
/// are there still have to leave.
pub fn take_buffers(number: u64) -> Vec<Arc<SendBuffer>> {
    COMMUNICATORS
        .find_all(|communicator| communicator.group().session() == number)
        .iter()
        .filter_map(|communicator| communicator.attachment().take())
        .collect()
}

/// Detaches the buffer of a communicator, if it has one.
pub fn detach_buffer(communicator: &Communicator) -> Result<()> {
    let instance = communicator.instance();
    instance
        .detach(communicator.attachment(), communicator.context())
        .1
}

/// The session of a handle.
pub fn session(handle: MPI_Session) -> Result<Arc<Session>> {
    match SESSIONS.get(handle) {
        Some(found) => Ok(found),
        None => Err(invalid(
            crate::Class::Session,
            "the session",
            handle,
            MPI_SESSION_NULL,
            "MPI_SESSION_NULL",
        )),
    }
}

/// A handle for a new session.
pub fn new_session(session: Arc<Session>) -> Result<MPI_Session> {
    SESSIONS.insert(session).ok_or_else(too_many)
}

/// The session that a communicator was derived from; `None`: the World Model.
pub fn session_of(communicator: &Communicator) -> Option<Arc<Session>> {
    let number = communicator.group().session();
    (number != 0).then(|| SESSIONS.find(|session| session.number() == number))?
}

/// The window of a handle.
pub fn window(handle: MPI_Win) -> Result<Arc<Window>> {
    match WINDOWS.get(handle) {
        Some(found) => Ok(found),
        None => Err(invalid(
            crate::Class::Win,
            "the window",
            handle,
            MPI_WIN_NULL,
            "MPI_WIN_NULL",
        )),
    }
}

/// The window of a context id, likewise for errors of its requests.
#[cold]
pub fn window_of_context(context: Context) -> Option<Arc<Window>> {
    if context.is_none() {
        return None;
    }
    let id = context.communicator();
    WINDOWS.find(|window| window.communicator().context() == id)
}

/// The name of a window for messages.
pub fn name_of_window(window: &Window) -> String {
    let name = window.name().lock();
    match name.is_empty() {
        true => format!("window {:#x}", window.handle().load(Ordering::Relaxed)),
        false => name.clone(),
    }
}

/// The file of a handle.
pub fn file(handle: MPI_File) -> Result<Arc<File>> {
    match FILES.get(handle) {
        Some(found) => Ok(found),
        None => Err(invalid(
            crate::Class::File,
            "the file",
            handle,
            MPI_FILE_NULL,
            "MPI_FILE_NULL",
        )),
    }
}

/// The group of a handle.
pub fn group(handle: MPI_Group) -> Result<Arc<Group>> {
    if handle == MPI_GROUP_EMPTY {
        return Ok(Group::empty());
    }
    GROUPS.get(handle).ok_or_else(|| no_group(handle))
}

#[cold]
fn no_group(handle: MPI_Group) -> Error {
    invalid(
        crate::Class::Group,
        "the group",
        handle,
        MPI_GROUP_NULL,
        "MPI_GROUP_NULL",
    )
}

/// The handle of a group, which is valid until it was freed as often as it was given out: programs ask a communicator or a window for its
/// group again and again, and some never free it.
pub fn new_group(group: Arc<Group>) -> Result<MPI_Group> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    let mut given = group.given();
    // The end of a session ends handles that were not freed.
    let is_its = |found: Held<'_, Group>| std::ptr::eq(&*found, &*group);
    if given.times == 0 || !GROUPS.hold(given.handle).is_some_and(is_its) {
        let handle = GROUPS.insert(group.clone()).ok_or_else(too_many)?;
        *given = Given { handle, times: 0 };
    }
    given.times += 1;
    Ok(given.handle)
}

/// Frees the handle of a group once.
pub fn free_group(handle: MPI_Group) -> Result<()> {
    let group = group(handle)?;
    if handle == MPI_GROUP_EMPTY {
        return Ok(());
    }
    let mut given = group.given();
    if given.times == 0 || given.handle != handle {
        // Another thread has freed it meanwhile.
        return Err(no_group(handle));
    }
    given.times -= 1;
    if given.times == 0 {
        GROUPS.remove(handle);
    }
    Ok(())
}

/// A datatype or operation: predefined ones are never counted.
pub enum Found<T: 'static> {
    /// Predefined.
    Static(&'static Arc<T>),
    /// The user's.
    Users(Arc<T>),
}

impl<T> Deref for Found<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        match self {
            Found::Static(object) => object,
            Found::Users(object) => object,
        }
    }
}

/// The datatype of a handle, committed or not.
#[inline]
pub fn datatype(handle: MPI_Datatype) -> Result<Found<Datatype>> {
    if let Some(found) = Datatype::predefined(handle) {
        return Ok(Found::Static(found));
    }
    match DATATYPES.get(handle) {
        Some(found) => Ok(Found::Users(found)),
        None => Err(no_datatype(handle)),
    }
}

#[cold]
fn no_datatype(handle: MPI_Datatype) -> Error {
    match Datatype::unsupported(handle) {
        Some(name) => err!(
            Type,
            "the Fortran compiler does not have {name}, as MPI_Abi_set_fortran_info was told"
        ),
        None => invalid(
            crate::Class::Type,
            "the datatype",
            handle,
            MPI_DATATYPE_NULL,
            "MPI_DATATYPE_NULL",
        ),
    }
}

/// The datatype of a handle, for communication.
#[inline(always)]
pub fn committed(handle: MPI_Datatype) -> Result<Found<Datatype>> {
    match Datatype::predefined(handle) {
        Some(found) => Ok(Found::Static(found)),
        None => committed_by_user(handle),
    }
}

fn committed_by_user(handle: MPI_Datatype) -> Result<Found<Datatype>> {
    let datatype = datatype(handle)?;
    if datatype.is_committed() {
        return Ok(datatype);
    }
    Err(err!(
        Type,
        "the datatype {handle:#x} has not been committed (MPI_Type_commit)"
    ))
}

/// A handle for a new datatype.
pub fn new_datatype(datatype: Arc<Datatype>) -> Result<MPI_Datatype> {
    let handle = DATATYPES.insert(datatype.clone()).ok_or_else(too_many)?;
    datatype.set_handle(handle);
    Ok(handle)
}

/// The operation of a handle.
#[inline]
pub fn op(handle: MPI_Op) -> Result<Found<Op>> {
    if let Some(found) = Op::predefined(handle) {
        return Ok(Found::Static(found));
    }
    match OPS.get(handle) {
        Some(found) => Ok(Found::Users(found)),
        None => Err(invalid(
            crate::Class::Op,
            "the operation",
            handle,
            MPI_OP_NULL,
            "MPI_OP_NULL",
        )),
    }
}

/// A handle for a new operation.
pub fn new_op(op: Arc<Op>) -> Result<MPI_Op> {
    let handle = OPS.insert(op.clone()).ok_or_else(too_many)?;
    op.set_handle(handle);
    Ok(handle)
}

/// The info object of a handle; `MPI_INFO_NULL` is none.
pub fn optional_info(handle: MPI_Info) -> Result<Option<Arc<Info>>> {
    if handle == MPI_INFO_NULL {
        return Ok(None);
    }
    info(handle).map(Some)
}

/// The info object of a handle.
pub fn info(handle: MPI_Info) -> Result<Arc<Info>> {
    if handle == MPI_INFO_ENV {
        return Ok(crate::abi::info::environment());
    }
    match INFOS.get(handle) {
        Some(found) => Ok(found),
        None => Err(invalid(
            crate::Class::Info,
            "the info object",
            handle,
            MPI_INFO_NULL,
            "MPI_INFO_NULL",
        )),
    }
}

/// A handle for a new info object.
pub fn new_info(info: Info) -> Result<MPI_Info> {
    INFOS.insert(Arc::new(info)).ok_or_else(too_many)
}

/// The error handler of a handle, for an object of a kind.
pub fn errhandler(handle: MPI_Errhandler, object: Object) -> Result<Errhandler> {
    Ok(match handle {
        MPI_ERRORS_ARE_FATAL => Errhandler::AreFatal,
        MPI_ERRORS_ABORT => Errhandler::Abort,
        MPI_ERRORS_RETURN => Errhandler::Return,
        _ => match ERRHANDLERS.get(handle) {
            Some(handler) if handler.object == object => Errhandler::User(handler),
            Some(handler) => {
                return Err(err!(
                    Errhandler,
                    "the error handler was made for a {:?}, not for a {object:?}",
                    handler.object
                ));
            }
            None => {
                return Err(invalid(
                    crate::Class::Errhandler,
                    "the error handler",
                    handle,
                    MPI_ERRHANDLER_NULL,
                    "MPI_ERRHANDLER_NULL",
                ));
            }
        },
    })
}

/// A handle for a new error handler, or one more reference to an old one.
pub fn handle_of_errhandler(handler: &Errhandler) -> Result<MPI_Errhandler> {
    Ok(match handler {
        Errhandler::AreFatal => MPI_ERRORS_ARE_FATAL,
        Errhandler::Abort => MPI_ERRORS_ABORT,
        Errhandler::Return => MPI_ERRORS_RETURN,
        Errhandler::User(handler) => {
            if handler.references.fetch_add(1, Ordering::Relaxed) == 0 {
                let handle = ERRHANDLERS.insert(handler.clone()).ok_or_else(too_many)?;
                handler.handle.store(handle, Ordering::Relaxed);
            }
            handler.handle.load(Ordering::Relaxed)
        }
    })
}

/// A handle for a message that was taken.
pub fn new_message(message: TakenMessage) -> Result<MPI_Message> {
    MESSAGES.insert(Arc::new(message)).ok_or_else(too_many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_of_a_group_is_valid_until_it_was_freed_as_often_as_it_was_given() {
        let group = Group::first(3);
        let first = new_group(group.clone()).expect("a handle");
        for _ in 0..3 {
            assert_eq!(new_group(group.clone()).expect("the same"), first);
        }
        for left in (0..4).rev() {
            assert_eq!(GROUPS.get(first).expect("it is valid").given().times, left + 1);
            free_group(first).expect("it is valid");
        }
        assert_eq!(free_group(first).unwrap_err().class, crate::Class::Group);
        let second = new_group(group.clone()).expect("a handle");
        assert_ne!(first, second);
        // As at the end of a session.
        GROUPS.remove(second);
        let third = new_group(group.clone()).expect("a handle");
        assert_eq!((third != second, group.given().times), (true, 1));
        free_group(third).expect("it is valid");
    }

    /// What one thread is given no other one frees.
    #[test]
    fn threads_ask_for_a_group_and_free_it() {
        let group = Group::first(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 10 } else { 1000 } {
                        let handle = new_group(group.clone()).expect("a handle");
                        assert!(Arc::ptr_eq(&super::group(handle).expect("it is valid"), &group));
                        free_group(handle).expect("it is valid");
                    }
                });
            }
        });
        assert_eq!(group.given().times, 0);
    }
}
