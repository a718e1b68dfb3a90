//! Chapter 4: partitioned communication.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::abi::common::arguments;
use crate::abi::common::arguments::{any_tag, array, count, give, memory, rank, tag};
use crate::abi::common::constants::*;
use crate::abi::common::objects::{PERSISTENT, committed, communicator, optional_info};
use crate::abi::common::procedure::mpi;
use crate::abi::common::status;
use crate::abi::common::types::*;
use crate::abi::point_to_point::ended;
use crate::abi::point_to_point::persistent::{Partitions, Persistent};
use crate::abi::point_to_point::request;
use crate::base::error::{Error, Result};
use crate::data::memory::Memory;
use crate::engine::request::Outcome;
use crate::err;
use crate::objects::communicator::Communicator;
use crate::objects::partitioned::{PartitionedReceive, PartitionedSend};

/// The checked arguments that sends and receives share.
struct Buffer {
    comm: Arc<Communicator>,
    partitions: u64,
    /// One partition.
    each: Memory,
    /// All of them, which are consecutive.
    all: Memory,
}

impl Buffer {
    fn new(
        buf: *const c_void,
        partitions: c_int,
        number: i64,
        datatype: MPI_Datatype,
        comm: MPI_Comm,
        info: MPI_Info,
    ) -> Result<Buffer> {
        let comm = communicator(comm)?;
        let datatype = committed(datatype)?;
        let partitions = count(partitions, "partitions")?;
        let number = count(number, "count")?;
        // There is no hint yet.
        optional_info(info)?;
        let all = partitions
            .checked_mul(number)
            .filter(|all| all.checked_mul(datatype.size()).is_some());
        let all = all.ok_or_else(|| {
            err!(
                Count,
                "{partitions} partitions of {number} elements of {} bytes exceed the largest size",
                datatype.size()
            )
        })?;
        Ok(Buffer {
            comm,
            partitions,
            each: Memory::new(buf.cast_mut().cast::<u8>(), number, &datatype),
            all: memory(buf, all, &datatype, "buf")?,
        })
    }
}

/// The partitioned request of a handle, null and inactive ones included.
fn partitioned(handle: MPI_Request) -> Result<Option<Arc<Persistent>>> {
    if handle == MPI_REQUEST_NULL {
        return Ok(None);
    }
    match PERSISTENT.get(handle) {
        Some(found) if !matches!(found.partitions(), Partitions::None) => Ok(Some(found)),
        _ => {
            request::check(handle)?;
            Err(err!(
                Request,
                "the request {handle:#x} is not of partitioned communication"
            ))
        }
    }
}

/// A partition number argument, which must be below `number`.
fn partition(value: c_int, number: u64, name: &str) -> Result<u64> {
    match u64::try_from(value) {
        Ok(partition) if partition < number => Ok(partition),
        _ => Err(err!(
            Arg,
            "{name} {value} is outside the {number} partitions of the request"
        )),
    }
}

/// An active partitioned send.
enum Readying {
    Somewhere(Arc<PartitionedSend>),
    Nowhere(u64),
}

impl Readying {
    /// Its errors are those of the request's communicator.
    fn with(handle: MPI_Request, body: impl FnOnce(&Readying) -> Result<()>) -> Result<()> {
        let found = partitioned(handle)?.ok_or_else(|| err!(Request, "the request is MPI_REQUEST_NULL"))?;
        let result = Readying::of(&found, handle).and_then(|send| body(&send));
        result.map_err(|error| of(&found, error))
    }

    fn of(found: &Persistent, handle: MPI_Request) -> Result<Readying> {
        let send = match found.partitions() {
            Partitions::Send(send) => Readying::Somewhere(send.clone()),
            Partitions::SendNowhere(number) => Readying::Nowhere(*number),
            _ => {
                return Err(err!(
                    Request,
                    "the request {handle:#x} is a partitioned receive, not a send"
                ));
            }
        };
        match found.active() {
            Some(_) => Ok(send),
            None => Err(err!(
                Request,
                "the request {handle:#x} is inactive: it has not been started, or has ended since"
            )),
        }
    }

    fn partitions(&self) -> u64 {
        match self {
            Readying::Somewhere(send) => send.partitions(),
            Readying::Nowhere(number) => *number,
        }
    }

    fn ready(&self, partition: u64) -> Result<()> {
        match self {
            Readying::Somewhere(send) => send.ready(partition),
            Readying::Nowhere(_) => Ok(()),
        }
    }
}

mpi! {
    /// Section 4.2.1.
    large fn MPI_Psend_init(buf: *const c_void, partitions: c_int, count: Count, datatype: MPI_Datatype,
        dest: c_int, tag: c_int, comm: MPI_Comm, info: MPI_Info, request: *mut MPI_Request) comm(comm) {
        let Buffer { comm, partitions, each, all } =
            Buffer::new(buf, partitions, count.into(), datatype, comm, info)?;
        let tag = self::tag(tag)?;
        if request.is_null() {
            return Err(err!(Arg, "request is a null pointer"));
        }
        let persistent = match dest {
            MPI_PROC_NULL => {
                let of = comm.clone();
                Persistent::new(&comm, move || Ok(ended(&of, Outcome::EMPTY)))
                    .with_partitions(Partitions::SendNowhere(partitions))
            }
            _ => {
                let to = rank(dest, &comm, "destination")?;
                let send = PartitionedSend::new(&comm, to, tag, partitions, &each, all)?;
                let started = send.clone();
                // SAFETY: the user leaves each partition alone from when it is ready until the request has ended.
                Persistent::new(&comm, move || unsafe { started.start() }).with_partitions(Partitions::Send(send))
            }
        };
        // SAFETY: null or a handle of the user's.
        unsafe { persistent.give(request) }
    }

    /// Section 4.2.1.
    large fn MPI_Precv_init(buf: *mut c_void, partitions: c_int, count: Count, datatype: MPI_Datatype,
        source: c_int, tag: c_int, comm: MPI_Comm, info: MPI_Info, request: *mut MPI_Request) comm(comm) {
        let Buffer { comm, partitions, each, all } =
            Buffer::new(buf, partitions, count.into(), datatype, comm, info)?;
        let Some(tag) = any_tag(tag)? else {
            return Err(err!(Tag, "tag is MPI_ANY_TAG, but partitioned communication has no wildcards"));
        };
        if request.is_null() {
            return Err(err!(Arg, "request is a null pointer"));
        }
        let persistent = match source {
            MPI_ANY_SOURCE => {
                return Err(err!(
                    Rank,
                    "source is MPI_ANY_SOURCE, but partitioned communication has no wildcards"
                ));
            }
            MPI_PROC_NULL => {
                let of = comm.clone();
                Persistent::new(&comm, move || Ok(ended(&of, status::PROC_NULL)))
                    .with_partitions(Partitions::ReceiveNowhere(partitions))
            }
            _ => {
                let from = rank(source, &comm, "source")?;
                let receive = PartitionedReceive::new(&comm, from, tag, partitions, &each, all)?;
                let started = receive.clone();
                // SAFETY: the user leaves the buffer alone while the request is active, but for what has arrived.
                Persistent::new(&comm, move || unsafe { started.start() })
                    .with_partitions(Partitions::Receive(receive))
            }
        };
        // SAFETY: null or a handle of the user's.
        unsafe { persistent.give(request) }
    }

    /// Section 4.2.1.
    small fn MPI_Pready(partition: c_int, request: MPI_Request) local {
        Readying::with(request, |send| {
            send.ready(self::partition(partition, send.partitions(), "partition")?)
        })
    }

    /// Section 4.2.1. Both ends are checked before any partition is marked.
    small fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) local {
        Readying::with(request, |send| {
            let low = partition(partition_low, send.partitions(), "partition_low")?;
            let high = partition(partition_high, send.partitions(), "partition_high")?;
            if low > high {
                return Err(err!(Arg, "partition_low {low} is above partition_high {high}"));
            }
            (low..=high).try_for_each(|partition| send.ready(partition))
        })
    }

    /// Section 4.2.1. All are checked before any is marked.
    small fn MPI_Pready_list(length: c_int, partitions: *const c_int, request: MPI_Request) local {
        Readying::with(request, |send| {
            let length = arguments::count(length, "length")? as usize;
            // SAFETY: an array of the user's.
            let partitions = unsafe { array(partitions, length, "array_of_partitions") }?;
            for (nth, &value) in partitions.iter().enumerate() {
                partition(value, send.partitions(), "partition")
                    .map_err(|error| Error::new(error.class, format!("array_of_partitions[{nth}]: {error}")))?;
            }
            partitions.iter().try_for_each(|&partition| send.ready(partition as u64))
        })
    }

    /// Section 4.2.2. For a null or inactive request it has arrived.
    small fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) local {
        let arrived = match partitioned(request)? {
            None => true,
            Some(found) => has_arrived(&found, request, partition).map_err(|error| of(&found, error))?,
        };
        // SAFETY: null or an `int` of the user's.
        unsafe { give(flag, arrived.into(), "flag") }
    }
}

fn has_arrived(found: &Persistent, handle: MPI_Request, partition: c_int) -> Result<bool> {
    let (receive, number) = match found.partitions() {
        Partitions::Receive(receive) => (Some(receive), receive.partitions()),
        Partitions::ReceiveNowhere(number) => (None, *number),
        _ => {
            return Err(err!(
                Request,
                "the request {handle:#x} is a partitioned send, not a receive"
            ));
        }
    };
    let partition = self::partition(partition, number, "partition")?;
    Ok(match receive {
        Some(receive) if found.active().is_some() => {
            receive.has_arrived(partition) || {
                found.communicator().instance().step();
                receive.has_arrived(partition)
            }
        }
        _ => true,
    })
}

/// An error of the communicator of a request.
#[cold]
fn of(found: &Persistent, error: Error) -> Error {
    Error {
        context: found.communicator().context(),
        ..error
    }
}
