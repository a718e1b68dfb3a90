//! Chapter 6: collective operations. Each is declared once, with its blocking, its nonblocking and its persistent procedure, and
//! its arguments are checked in one place; the three differ only in their [`How`].
//!
//! - `data`: barrier, broadcast, gathers, scatters, all-to-all
//! - `reduction`: reductions and scans
//! - `fast_path`: short blocking ones between processes that share memory; `short`: persistent ones
//! - `neighbour`: operations among neighbours in a topology (section 8.6)
//!
//! What does not belong here: the algorithms (`objects::collective`).

mod data;
mod fast_path;
mod neighbour;
mod op;
mod reduction;
mod short;

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::sync::Arc;

use crate::abi::common::arguments;
use crate::abi::common::arguments::{Integer, array, count, give};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{self, Found, committed};
use crate::abi::common::types::*;
use crate::abi::point_to_point::persistent::Persistent;
use crate::abi::point_to_point::request;
use crate::base::error::{Error, Result};
use crate::data::datatype::Datatype;
use crate::engine::mismatch::Operation;
use crate::engine::request::Outcome;
use crate::err;
use crate::objects::collective::{self, Blocked, Buffer, Refused, Root, VBuffer, WBuffer};
use crate::objects::communicator::{Collective, Communicator};
use short::Short;

/// Makes the future of an operation of its messages. A persistent request keeps it and makes the future anew of a clone at each start:
/// it holds checked arguments, of which clones are cheap.
trait Make<F>: FnOnce(Collective) -> F + Clone + Send + Sync + 'static {}

impl<F, M: FnOnce(Collective) -> F + Clone + Send + Sync + 'static> Make<F> for M {}

/// How an operation is run.
trait How: Sized {
    /// Whether it is run to its end at once, for which there is the fast path.
    const BLOCKS: bool;

    /// The operation.
    fn operation(&mut self) -> &mut Operation;

    /// An operation whose messages are distinguished from those of another root. (On an intercommunicator a root has another number in each group.)
    #[inline]
    fn of_root(mut self, root: Root, comm: &Communicator) -> Self {
        if let Root::Rank(rank) = root
            && !comm.is_inter()
        {
            let operation = self.operation();
            *operation = operation.of_root(rank);
        }
        self
    }

    /// Runs or starts the operation that `make` makes of its messages, or keeps `make` for every start. What is to be looked at when
    /// the operation runs, such as the contents of buffers, belongs into the future.
    ///
    /// # Safety
    /// What the operation describes stays valid until it has ended; where it is kept, whenever it is active.
    unsafe fn run<F>(self, comm: &Arc<Communicator>, make: impl Make<F>) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static;

    /// The same. Where it is kept and all processes share memory for it, each start does what `short` says, if it says something.
    ///
    /// # Safety
    /// As for [`How::run`].
    #[inline(always)]
    unsafe fn run_or<F, S>(
        self,
        comm: &Arc<Communicator>,
        make: impl Make<F>,
        _short: impl FnOnce() -> Option<S>,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
        S: Short,
    {
        // SAFETY: the caller's promise.
        unsafe { self.run(comm, make) }
    }
}

/// Run it to its end.
struct Blocking(Operation);

impl How for Blocking {
    const BLOCKS: bool = true;

    fn operation(&mut self) -> &mut Operation {
        &mut self.0
    }

    #[inline]
    unsafe fn run<F>(self, comm: &Arc<Communicator>, make: impl Make<F>) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let operation = comm.step(self.0, false);
        let (operation, _use) = collective::shared::prepare(operation)?;
        comm.instance().block_on(make(operation))
    }
}

/// Start it beside the caller, with a request that is written there.
struct Nonblocking(Operation, *mut MPI_Request);

impl How for Nonblocking {
    const BLOCKS: bool = false;

    fn operation(&mut self) -> &mut Operation {
        &mut self.0
    }

    unsafe fn run<F>(self, comm: &Arc<Communicator>, make: impl Make<F>) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        if self.1.is_null() {
            return Err(err!(Arg, "request is a null pointer"));
        }
        let operation = comm.step(self.0, true);
        let tag = operation.tag();
        let operation = make(operation);
        let id = comm.instance().spawn(Box::pin(async move {
            operation.await?;
            Ok(Outcome::EMPTY)
        }));
        comm.instance().engine().set_collective(id, comm.context(), tag);
        // SAFETY: a handle of the user's.
        unsafe { give(self.1, request::handle_of(comm.instance(), id)?, "request") }
    }
}

/// Keep it in a persistent request that is written there, after the info object of the procedure.
struct Persistently(Operation, MPI_Info, *mut MPI_Request);

impl How for Persistently {
    const BLOCKS: bool = false;

    fn operation(&mut self) -> &mut Operation {
        &mut self.0
    }

    unsafe fn run<F>(self, comm: &Arc<Communicator>, make: impl Make<F>) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        // SAFETY: the caller's promise.
        unsafe { self.run_or(comm, make, || None::<short::Never>) }
    }

    unsafe fn run_or<F, S>(
        self,
        comm: &Arc<Communicator>,
        make: impl Make<F>,
        short: impl FnOnce() -> Option<S>,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
        S: Short,
    {
        // There is no hint yet.
        objects::optional_info(self.1)?;
        if self.2.is_null() {
            return Err(err!(Arg, "request is a null pointer"));
        }
        let operation = collective::shared::prepare_persistent(comm.persistent_step(self.0));
        let operation = comm.instance().block_on(operation)?;
        let short = match operation.has_own_area_whole() {
            true => short(),
            false => None,
        };
        let persistent = match short {
            Some(short) => {
                // SAFETY: the future alone gets it.
                let operation =
                    unsafe { collective::persistent_in_area(operation, move |area| short.begin(area)) };
                Persistent::new(comm, move || operation.start())
            }
            None => {
                let operation = collective::persistent(operation, make);
                Persistent::new(comm, move || operation.start())
            }
        };
        // SAFETY: a handle of the user's.
        unsafe { persistent.of_collective().give(self.2) }
    }
}

/// ```text
/// collectives! {
///     /// Section 6.4.
///     large fn MPI_Bcast, fn MPI_Ibcast, fn MPI_Bcast_init(buffer: *mut c_void, …, comm: MPI_Comm) comm(comm) = bcast;
/// }
/// ```
/// The function takes the arguments and a [`How`]. The nonblocking procedure has a request behind the arguments, the persistent one an
/// info object and a request.
macro_rules! collectives {
    ($($(#[$meta:meta])* $width:ident fn $blocking:ident, fn $nonblocking:ident, fn $persistent:ident
        ($($arg:ident: $type:ty),* $(,)?) comm($comm:ident) = $run:path;)+) => {
        mpi! {
            $(
                $(#[$meta])*
                $width fn $blocking($($arg: $type),*) comm($comm) {
                    const NAMED: $crate::engine::mismatch::Operation =
                        $crate::engine::mismatch::Operation::named(stringify!($blocking));
                    // SAFETY: the arguments are as the standard asks for.
                    unsafe { $run($($arg),*, $crate::abi::collective::Blocking(NAMED)) }
                }

                $(#[$meta])*
                $width fn $nonblocking($($arg: $type),*, request: *mut MPI_Request) comm($comm) {
                    const NAMED: $crate::engine::mismatch::Operation =
                        $crate::engine::mismatch::Operation::named(stringify!($blocking));
                    // SAFETY: the arguments are as the standard asks for, until the request has ended.
                    unsafe { $run($($arg),*, $crate::abi::collective::Nonblocking(NAMED, request)) }
                }

                $(#[$meta])*
                $width fn $persistent($($arg: $type),*, info: MPI_Info, request: *mut MPI_Request) comm($comm) {
                    const NAMED: $crate::engine::mismatch::Operation =
                        $crate::engine::mismatch::Operation::named(stringify!($blocking));
                    // SAFETY: the arguments are as the standard asks for, whenever the request is active.
                    unsafe { $run($($arg),*, $crate::abi::collective::Persistently(NAMED, info, request)) }
                }
            )+
        }
    };
}
use collectives;

/// An object that an operation holds while it runs.
fn hold<T>(found: Found<T>) -> Arc<T> {
    match found {
        Found::Static(object) => object.clone(),
        Found::Users(object) => object,
    }
}

fn in_place(buffer: *const c_void) -> bool {
    buffer == MPI_IN_PLACE
}

/// Whether the result replaces the operand, which is not possible on an intercommunicator.
fn operand_in_place(buffer: *const c_void, name: &str, comm: &Communicator) -> Result<bool> {
    if comm.is_inter() {
        placed(buffer, name)?;
    }
    Ok(in_place(buffer))
}

/// The part of this process in an operation with a root.
struct Part {
    root: Root,
    /// It is the root.
    at_root: bool,
    /// It sends to the root or receives from it; on an intracommunicator the root does, too.
    beside: bool,
}

/// This process's part by its root argument; `None` where the root is another process of its group of an
/// intercommunicator, and no other argument matters.
fn part(root: c_int, comm: &Communicator) -> Result<Option<Part>> {
    Ok(match root {
        MPI_PROC_NULL if comm.is_inter() => None,
        MPI_ROOT if comm.is_inter() => Some(Part {
            root: Root::Here,
            at_root: true,
            beside: false,
        }),
        _ => {
            let root = arguments::root(root, comm)?;
            Some(Part {
                root: Root::Rank(root),
                at_root: !comm.is_inter() && comm.rank() == root,
                beside: true,
            })
        }
    })
}

/// What a process does that takes no part in an operation.
async fn nothing(_: Collective) -> Result<()> {
    Ok(())
}

/// What this process sends, made separate from where it receives, with the error to return where they overlap. There may
/// be nothing to send or to receive.
///
/// # Safety
/// As for [`collective::apart`].
unsafe fn apart<S: Blocked>(
    send: Option<S>,
    receive: Option<&impl Blocked>,
) -> Result<(Option<S>, Option<Refused>)> {
    match (send, receive) {
        (Some(send), Some(receive)) => {
            // SAFETY: the caller's promise.
            let (send, refused) = unsafe { collective::apart(send, receive) }?;
            Ok((Some(send), refused))
        }
        (send, _) => Ok((send, None)),
    }
}

/// A buffer that can't be `MPI_IN_PLACE`.
fn placed(buffer: *const c_void, name: &str) -> Result<*const c_void> {
    match in_place(buffer) {
        true => Err(err!(Buffer, "{name} can't be MPI_IN_PLACE here")),
        false => Ok(buffer),
    }
}

/// The names of a block's arguments: buffer, count or counts, displacements.
#[derive(Clone, Copy)]
struct Names {
    buffer: &'static str,
    count: &'static str,
    counts: &'static str,
    displs: &'static str,
    types: &'static str,
}

impl Names {
    /// Where only one side has displacements, their argument has no letter in front.
    const fn with_displs(self) -> Names {
        Names {
            displs: "displs",
            ..self
        }
    }
}

const BUFFER: Names = Names {
    buffer: "buffer",
    count: "count",
    counts: "counts",
    displs: "displs",
    types: "types",
};
const SEND: Names = Names {
    buffer: "sendbuf",
    count: "sendcount",
    counts: "sendcounts",
    displs: "sdispls",
    types: "sendtypes",
};
const RECEIVE: Names = Names {
    buffer: "recvbuf",
    count: "recvcount",
    counts: "recvcounts",
    displs: "rdispls",
    types: "recvtypes",
};

/// Checks `count` elements for each of `blocks` ranks, and that there is a buffer for them.
fn elements(
    buffer: *const c_void,
    count_: i64,
    datatype: &Arc<Datatype>,
    blocks: u32,
    name: &str,
    count_name: &str,
) -> Result<u64> {
    let number = count(count_, count_name)?;
    let bytes = number
        .checked_mul(blocks.into())
        .and_then(|number| number.checked_mul(datatype.size()))
        .and_then(|bytes| isize::try_from(bytes).ok());
    if bytes.is_none() {
        return Err(err!(
            Count,
            "{count_name} is {number}: with {} bytes each, that is more than the address space holds",
            datatype.size()
        ));
    }
    arguments::memory(placed(buffer, name)?, number, datatype, name)?;
    Ok(number)
}

/// The same number of elements for each of `blocks` ranks.
///
/// # Safety
/// Where there is no error: as for [`Buffer::new`], of the user's buffer (section 6.12).
unsafe fn buffer(
    at: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    blocks: u32,
    names: Names,
) -> Result<Buffer> {
    let datatype = committed(datatype).map_err(|error| about(names.buffer, error))?;
    let count = elements(at, count, &datatype, blocks, names.buffer, names.count)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { Buffer::new(at.cast_mut().cast(), count, blocks, hold(datatype)) })
}

/// Adds to which of two buffers a datatype belongs.
#[cold]
fn about(buffer: &str, error: Error) -> Error {
    Error::new(error.class, format!("{error} (of {buffer})"))
}

/// The counts for `size` ranks.
///
/// # Safety
/// The pointer is null or valid for `size` counts.
unsafe fn counts<C: Integer>(from: *const C, size: u32, name: &str) -> Result<Arc<[u64]>> {
    // SAFETY: the caller's array is null or has that many elements.
    let counts = unsafe { array(from, size as usize, name) }?;
    counts
        .iter()
        .enumerate()
        .map(|(rank, count)| {
            u64::try_from(count.wide()).map_err(|_| {
                err!(
                    Count,
                    "{name}[{rank}] is {}, but must not be negative",
                    count.wide()
                )
            })
        })
        .collect()
}

/// The displacements for `size` ranks.
///
/// # Safety
/// The pointer is null or valid for `size` displacements.
unsafe fn displacements<D: Integer>(from: *const D, size: u32, name: &str) -> Result<Arc<[i64]>> {
    // SAFETY: the caller's array is null or has that many elements.
    let displacements = unsafe { array(from, size as usize, name) }?;
    Ok(displacements
        .iter()
        .map(|displacement| displacement.wide())
        .collect())
}

/// A separate number of elements for each of `size` ranks.
///
/// # Safety
/// The arrays are null or valid for `size` entries. Where there is no error: as for [`VBuffer::new`], of the user's buffer (section 6.12).
unsafe fn vbuffer<C: Integer, D: Integer>(
    at: *const c_void,
    counts: *const C,
    displs: *const D,
    datatype: MPI_Datatype,
    size: u32,
    names: Names,
) -> Result<VBuffer> {
    let datatype = committed(datatype).map_err(|error| about(names.buffer, error))?;
    // SAFETY: the caller's arrays have that many elements.
    let (counts, displs) = unsafe {
        (
            self::counts(counts, size, names.counts)?,
            displacements(displs, size, names.displs)?,
        )
    };
    placed(at, names.buffer)?;
    for (rank, (&count, &displ)) in counts.iter().zip(&*displs).enumerate() {
        if count > 0 && displ == 0 {
            let name = format_args!("{}[{rank}]", names.counts).to_string();
            elements(at, count as i64, &datatype, 1, names.buffer, &name)?;
        }
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { VBuffer::new(at.cast_mut().cast(), counts, displs, hold(datatype)) })
}

/// A separate number of elements and datatype for each of `size` ranks. The datatype of no elements is not
/// checked. The buffer may be `MPI_BOTTOM`, with addresses as displacements.
///
/// # Safety
/// As for [`vbuffer`].
unsafe fn wbuffer<C: Integer, D: Integer>(
    at: *const c_void,
    counts: *const C,
    displs: *const D,
    datatypes: *const MPI_Datatype,
    size: u32,
    names: Names,
) -> Result<WBuffer> {
    // SAFETY: the caller's array is null or has that many elements.
    let (counts, displs, handles) = unsafe {
        (
            self::counts(counts, size, names.counts)?,
            displacements(displs, size, names.displs)?,
            array(datatypes, size as usize, names.types)?,
        )
    };
    placed(at, names.buffer)?;
    let datatypes = handles
        .iter()
        .enumerate()
        .map(|(rank, &handle)| match counts[rank] {
            0 => Ok(Datatype::byte().clone()),
            _ => committed(handle)
                .map(hold)
                .map_err(|error| about(&format!("{}[{rank}]", names.types), error)),
        })
        .collect::<Result<_>>()?;
    // SAFETY: the caller's promise.
    Ok(unsafe { WBuffer::new(at.cast_mut().cast(), counts, displs, datatypes) })
}
