//! From handles to objects, and the checks of arguments that many procedures share.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::constants::*;
use super::handle::{Held, Kind, Table};
use super::persistent::Persistent;
use super::process;
use super::types::*;
use crate::communicator::Communicator;
use crate::communicator::group::{Group, processes};
use crate::communicator::names::Names;
use crate::datatype::Datatype;
use crate::engine::Message;
use crate::engine::buffered::SendBuffer;
use crate::engine::describe::OwnNames;
use crate::engine::matching::Envelope;
use crate::engine::memory::Memory;
use crate::err;
use crate::errhandler::{Errhandler, Object, UserHandler};
use crate::error::{Error, Result};
use crate::file::File;
use crate::info::Info;
use crate::op::Op;
use crate::session::Session;
use crate::window::Window;

/// Communicators; the predefined ones from Init to Finalize.
pub static COMMUNICATORS: Table<Communicator> = Table::new(Kind::Communicator);
/// Groups but the empty one.
pub static GROUPS: Table<Group> = Table::new(Kind::Group);
/// Derived datatypes.
pub static DATATYPES: Table<Datatype> = Table::new(Kind::Datatype);
/// Operations of the user's.
pub static OPS: Table<Op> = Table::new(Kind::Op);
/// Info objects.
pub static INFOS: Table<Info> = Table::new(Kind::Info);
/// Error handlers of the user's.
pub static ERRHANDLERS: Table<UserHandler> = Table::new(Kind::Errhandler);
/// Sessions.
pub static SESSIONS: Table<Session> = Table::new(Kind::Session);
/// Windows.
pub static WINDOWS: Table<Window> = Table::new(Kind::Window);
/// Files.
pub static FILES: Table<File> = Table::new(Kind::File);
/// Messages that a matching probe has taken.
pub static MESSAGES: Table<TakenMessage> = Table::new(Kind::Message);

/// Persistent requests.
pub static PERSISTENT: Table<Persistent> = Table::new(Kind::Persistent);

/// A message that a matching probe has taken, until it is received.
pub struct TakenMessage {
    /// Where it was.
    pub communicator: Arc<Communicator>,
    /// The message.
    pub message: parking_lot::Mutex<Option<(Envelope, Message)>>,
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

/// Says that there is no handle left.
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

/// The communicator of a handle, for as long as nobody waits and no function of the user's is called: see [`Table::hold`].
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
            "the communicator is still being made: until the request of MPI_Comm_idup has completed it serves for local calls only"
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
pub fn communicator_of_context(context: u64) -> Option<Arc<Communicator>> {
    if context == 0 {
        return None;
    }
    let id = Communicator::context_id(context);
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

/// Deletes the attributes of a communicator that is to go. A delete callback's error is one of that communicator.
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
    if let Some(session) = session_of(&communicator) {
        session.connect(&communicator);
    }
    Ok(handle)
}

/// The handle of a communicator.
pub fn handle_of_communicator(communicator: &Communicator) -> MPI_Comm {
    communicator.handle().load(Ordering::Relaxed)
}

/// What to call a communicator in messages.
pub fn name_of_communicator(communicator: &Communicator) -> String {
    let name = communicator.name().lock();
    match name.is_empty() {
        true => format!("communicator {:#x}", handle_of_communicator(communicator)),
        false => name.clone(),
    }
}

/// The same of all that there are, by context id.
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
                Communicator::context_id(communicator.context()),
                name_of_communicator(&communicator),
            )
        })
        .collect();
    Box::new(move |context, tag| names.called(context, tag))
}

/// At the end of a session (0: of the World Model) what was derived from it is gone, whether it was freed or not.
pub fn forget_session(number: u64) {
    // Dropped once the tables are free again.
    let requests = PERSISTENT.remove_all(|request| request.communicator().group().session() == number);
    let messages = MESSAGES.remove_all(|message| message.communicator.group().session() == number);
    let communicators = COMMUNICATORS.remove_all(|communicator| communicator.group().session() == number);
    let groups = GROUPS.remove_all(|group| number != 0 && group.session() == number);
    let windows = WINDOWS.remove_all(|window| window.communicator().group().session() == number);
    // They are closed, but not deleted if they should be on close.
    let files = FILES.remove_all(|file| file.group().session() == number);
    for window in &windows {
        // Section 11.2.2: what the program has made is not freed for it, and it may still look at that memory.
        window.exposed().leave();
    }
    drop((requests, messages, communicators, groups, windows, files));
}

/// Takes the buffers of a session's communicators (0: the World Model's) away: no message goes there any more. Those that
/// are there have still to leave.
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

/// What to call a window in messages.
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
    match GROUPS.get(handle) {
        Some(found) => Ok(found),
        None => Err(invalid(
            crate::Class::Group,
            "the group",
            handle,
            MPI_GROUP_NULL,
            "MPI_GROUP_NULL",
        )),
    }
}

/// A handle for a new group.
pub fn new_group(group: Arc<Group>) -> Result<MPI_Group> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    GROUPS.insert(group).ok_or_else(too_many)
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
        None => Err(invalid(
            crate::Class::Type,
            "the datatype",
            handle,
            MPI_DATATYPE_NULL,
            "MPI_DATATYPE_NULL",
        )),
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
        return Ok(super::info::environment());
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

/// The integers that counts, displacements and sizes come as.
pub trait Integer: Copy {
    /// Whether only the `_c` procedures take it.
    const LARGE: bool;

    /// As all of them are inside.
    fn wide(self) -> i64;
}

impl Integer for c_int {
    const LARGE: bool = false;

    #[inline]
    fn wide(self) -> i64 {
        self.into()
    }
}

impl Integer for MPI_Aint {
    const LARGE: bool = false;

    #[inline]
    fn wide(self) -> i64 {
        self as i64
    }
}

impl Integer for MPI_Count {
    const LARGE: bool = true;

    #[inline]
    fn wide(self) -> i64 {
        self
    }
}

/// A count argument.
#[inline]
pub fn count(value: impl Into<i64>, name: &str) -> Result<u64> {
    let value = value.into();
    u64::try_from(value).map_err(|_| negative(value, name))
}

#[cold]
fn negative(value: i64, name: &str) -> Error {
    err!(Count, "{name} is {value}, but must not be negative")
}

/// A buffer argument: `count` elements of `datatype` at `address`.
#[inline(always)]
pub fn memory(address: *const c_void, count: u64, datatype: &Arc<Datatype>, name: &str) -> Result<Memory> {
    let memory = Memory::new(address.cast_mut().cast::<u8>(), count, datatype);
    match memory {
        Memory::Flat { address, len } if address.is_null() && len != 0 => Err(null_buffer(name, count)),
        Memory::Flat { len, .. } if len <= isize::MAX as usize => Ok(memory),
        Memory::Typed { .. } if count <= isize::MAX as u64 / datatype.size() => Ok(memory),
        _ => Err(endless_buffer(name, count, datatype)),
    }
}

#[cold]
fn endless_buffer(name: &str, count: u64, datatype: &Datatype) -> Error {
    err!(
        Count,
        "{name} is of {count} elements of {}, which is {} bytes long: that does not fit in 63 bits",
        datatype.describe(),
        datatype.size()
    )
}

#[cold]
fn null_buffer(name: &str, count: u64) -> Error {
    err!(Buffer, "{name} is a null pointer, but the count is {count}")
}

/// A rank argument that names a process of the communicator, of an intercommunicator in the remote group.
#[inline]
pub fn rank(value: c_int, communicator: &Communicator, name: &str) -> Result<u32> {
    if value >= 0 && (value as u32) < communicator.peers().size() {
        return Ok(value as u32);
    }
    Err(outside(value, communicator, name))
}

#[cold]
fn outside(value: c_int, communicator: &Communicator, name: &str) -> Error {
    let whom = match communicator.is_inter() {
        true => "the remote group of ",
        false => "",
    };
    err!(
        Rank,
        "{name} {value} is outside {whom}{} of {}",
        name_of_communicator(communicator),
        processes(communicator.peers().size())
    )
}

/// The root argument of a collective operation.
#[inline]
pub fn root(value: c_int, communicator: &Communicator) -> Result<u32> {
    rank(value, communicator, "root").map_err(|error| Error {
        class: crate::Class::Root,
        ..error
    })
}

/// A tag to send with.
#[inline]
pub fn tag(value: c_int) -> Result<i32> {
    if value >= 0 {
        return Ok(value);
    }
    Err(bad_tag(value))
}

#[cold]
fn bad_tag(value: c_int) -> Error {
    err!(
        Tag,
        "tag {value} is outside 0 to {} (MPI_TAG_UB)",
        crate::communicator::TAG_UB
    )
}

/// A tag to receive with; `None` is `MPI_ANY_TAG`.
#[inline]
pub fn any_tag(value: c_int) -> Result<Option<i32>> {
    if value == MPI_ANY_TAG {
        Ok(None)
    } else {
        tag(value).map(Some)
    }
}

/// A pointer argument that a result goes to in the end, looked at before anything is started or taken.
#[inline]
pub fn present<T>(to: *const T, name: &str) -> Result<()> {
    match to.is_null() {
        true => Err(null_argument(name)),
        false => Ok(()),
    }
}

/// Writes a result where the user wants it.
///
/// # Safety
/// The pointer is null or valid for writing.
#[inline]
pub unsafe fn give<T>(to: *mut T, value: T, name: &str) -> Result<()> {
    if to.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Writes a count as `int` or as `MPI_Count`; `MPI_UNDEFINED` where it does not fit.
///
/// # Safety
/// The pointer is null or valid for writing.
pub unsafe fn give_count<T: TryFrom<i64> + From<i16>>(to: *mut T, value: i64, name: &str) -> Result<()> {
    let value = T::try_from(value).unwrap_or_else(|_| T::from(MPI_UNDEFINED as i16));
    // SAFETY: the caller's promise.
    unsafe { give(to, value, name) }
}

#[cold]
fn null_argument(name: &str) -> Error {
    err!(Arg, "{name} is a null pointer")
}

/// Reads through a pointer argument.
///
/// # Safety
/// The pointer is null or valid for reading.
#[inline]
pub unsafe fn read<T: Copy>(from: *const T, name: &str) -> Result<T> {
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { from.read() })
}

/// An array argument.
///
/// # Safety
/// The pointer is null or valid for `len` elements, for as long as the slice is used.
#[inline]
pub unsafe fn array<'a, T>(from: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(from, len) })
}

/// An array argument that is written to.
///
/// # Safety
/// The pointer is null or valid for `len` elements, for as long as the slice is used, and nobody else uses it.
#[inline]
pub unsafe fn array_mut<'a, T>(from: *mut T, len: usize, name: &str) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(from, len) })
}

/// A string argument, which must be text.
///
/// # Safety
/// The pointer is null or to a string that ends with a zero byte.
pub unsafe fn text<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    if from.is_null() {
        return Err(null_argument(name));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| err!(Arg, "{name} is not valid UTF-8: {text:?}"))
}

/// The name that an object is given.
///
/// # Safety
/// As for [`text`].
pub unsafe fn object_name<'a>(from: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let given = unsafe { text(from, name) }?;
    if given.len() < MPI_MAX_OBJECT_NAME as usize {
        return Ok(given);
    }
    Err(err!(
        Arg,
        "{name} has {} bytes, more than MPI_MAX_OBJECT_NAME ({MPI_MAX_OBJECT_NAME}) has room for",
        given.len()
    ))
}

/// Copies a text with its zero byte into a buffer of `room` bytes, shortened to fit; tells its length.
///
/// # Safety
/// The pointers are null or valid for writing so much.
pub unsafe fn give_text(to: *mut c_char, room: usize, len: *mut c_int, text: &str, name: &str) -> Result<()> {
    if to.is_null() {
        return Err(null_argument(name));
    }
    let mut end = text.len().min(room - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end + 1` bytes fit into the room.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), end);
        to.add(end).write(0);
        give(len, end as c_int, "resultlen")
    }
}
