//! Access to remote memory: where it starts. Long reads and writes go on in `transfers`.
//!
//! A write is complete once its data is in the target's memory: `FI_DELIVERY_COMPLETE` is asked for with each. Without it, libfabric
//! would report a write over TCP as soon as the data is in this machine's socket. A provider that does not have it is not used for writes.
//!
//! Short writes go through the slot's bounce buffer where that saves a registration or a list of segments; the operands and the
//! result of an atomic operation always do.

use weft_libfabric_sys as sys;

use super::*;
use crate::lane::atomic::{AtomicOp, Form, Number};
use crate::system::fabric::{Asks, AtomicCall};

impl OfiLane {
    pub(super) fn check_writes(&self) -> Result<()> {
        match self.limits.write {
            true => Ok(()),
            false => Err(err!(
                Intern,
                "the lane {} does not write remote memory",
                self.provider
            )),
        }
    }

    /// Lets peers access some memory.
    ///
    /// # Safety
    /// It stays valid until `deregister`.
    pub(super) unsafe fn offer(&mut self, memory: Piece, access: Access) -> Result<(Region, RemoteKey)> {
        // SAFETY: as the caller says.
        let registered = unsafe {
            self.registrar
                .register(&self.domain, &self.endpoint, memory, access)
        }?;
        let key = RemoteMemory {
            key: registered.region.key(),
            base: if self.info.addresses_virtual() {
                memory.address as u64
            } else {
                0
            },
            len: memory.len as u64,
        };
        self.next_region += 1;
        self.registered.insert(self.next_region, registered);
        if matches!(access, Access::RemoteAny) && !self.limits.needs_target {
            self.unattended.insert(self.next_region);
        }
        Ok((Region(self.next_region), key.encode()))
    }

    /// A peer's number in the address vector.
    fn number_of(&self, peer: PeerIndex) -> Result<sys::fi_addr_t> {
        match self.peers.get(&peer) {
            Some(known) => Ok(known.address),
            None => Err(self.unknown(peer)),
        }
    }

    /// Begins a read or write.
    ///
    /// # Safety
    /// The pieces are valid, and stay so after [`Sent::Pending`] until the completion: untouched if they are read into, otherwise unchanged.
    pub(super) unsafe fn transfer(
        &mut self,
        direction: Direction,
        (peer, token): (PeerIndex, u64),
        (key, offset): (&RemoteKey, u64),
        pieces: &[Piece],
    ) -> Result<Sent> {
        let memory = RemoteMemory::decode(key)?;
        let len = total(pieces);
        let remote = memory.range(offset, len)?;
        let address = self.number_of(peer)?;
        if len == 0 {
            return Ok(Sent::Done);
        }
        let Some(slot) = self.operations.next() else {
            return Ok(Sent::Again);
        };
        let is_short = len <= self.operations.room() && (self.registers_local || pieces.len() > 1);
        if direction == Direction::Write && is_short {
            // SAFETY: the caller says that the pieces are readable.
            let (_, from) = unsafe { self.operations.gather(slot, pieces) };
            let (context, descriptor) = (self.operations.context(slot), self.operations.descriptor());
            let from = [((from.cast_const(), len), descriptor)];
            // SAFETY: the bounce buffer is the slot's until the completion; contexts live as long as the endpoint; the address is a peer's.
            let posted = unsafe { self.endpoint.write(from, address, remote, memory.key, context) };
            return self.begun(slot, posted, (peer, token), (Piece::EMPTY, 0));
        }
        let mut transfer = Transfer::new(direction, token, (peer, address), (remote, memory.key), pieces);
        if self.registers_local {
            let access = match direction {
                Direction::Read => Access::ReadInto,
                Direction::Write => Access::WriteFrom,
            };
            for piece in pieces {
                // SAFETY: the caller keeps the pieces valid until the completion, at which the regions end.
                let region = unsafe {
                    self.registrar
                        .register(&self.domain, &self.endpoint, *piece, access)
                };
                match region {
                    Ok(region) => transfer.regions.push(region),
                    Err(error) => {
                        self.end_regions(&mut transfer);
                        return Err(error);
                    }
                }
            }
        }
        // SAFETY: the caller keeps the pieces as they have to be until the completion.
        match unsafe {
            self.transfers
                .start(transfer, &self.endpoint, &mut self.operations)
        } {
            Ok(()) => Ok(Sent::Pending),
            Err(mut transfer) => {
                self.end_regions(&mut transfer);
                transfer.result()?;
                Ok(self.again(peer))
            }
        }
    }

    /// Notes what became of an operation whose bytes are in the slot's bounce buffer.
    fn begun(
        &mut self,
        slot: usize,
        posted: std::result::Result<Posted, CallError>,
        (peer, token): (PeerIndex, u64),
        result: (Piece, usize),
    ) -> Result<Sent> {
        match posted {
            Ok(Posted::Accepted) => {
                self.operations
                    .start(slot, Operation::OneSided { peer, token, result });
                Ok(Sent::Pending)
            }
            Ok(Posted::Again) => Ok(self.again(peer)),
            Err(error) => Err(self.refused(peer, error)),
        }
    }

    /// Begins an atomic operation.
    ///
    /// # Safety
    /// As for [`Lane::atomic`].
    pub(super) unsafe fn update(
        &mut self,
        peer: PeerIndex,
        (key, offset): (&RemoteKey, u64),
        update: &Update,
        token: u64,
    ) -> Result<Sent> {
        let count = update.elements()?;
        let most = self.atomics.count(update.form(), update.op, update.number);
        if count > most {
            return Err(err!(
                Intern,
                "{:?} of {count} elements of {:?} ({:?}) over the lane {}, which takes {most}",
                update.op,
                update.number,
                update.form(),
                self.provider
            ));
        }
        let memory = RemoteMemory::decode(key)?;
        let len = update.len();
        let remote = memory.range(offset, len)?;
        let address = self.number_of(peer)?;
        let Some(slot) = self.operations.next() else {
            return Ok(Sent::Again);
        };
        // Operands, comparands and result, one after the other. A provider may look for operands even where there are none.
        // SAFETY: the caller says that these are readable.
        let (place, base) = unsafe { self.operations.gather(slot, &[update.operand, update.compare]) };
        // SAFETY: `one_sided::ask` has seen to it that three times the bytes fit into a slot's buffer.
        let part = |number: usize| unsafe { base.add(number * len) };
        let call = AtomicCall {
            op: number_of_op(update.op),
            datatype: number_of_type(update.number),
            count,
            operand: base,
            compare: (update.form() == Form::Compare).then(|| part(1)),
            result: (update.form() != Form::Update).then(|| part(2)),
            descriptor: self.operations.descriptor(),
            to: address,
            address: remote,
            key: memory.key,
        };
        let context = self.operations.context(slot);
        // SAFETY: the endpoint has this operation for so many elements; the bounce buffer is the slot's until the completion; contexts
        // live as long as the endpoint; the address is a peer's.
        let posted = unsafe { self.endpoint.atomic(&call, context) };
        self.begun(slot, posted, (peer, token), (update.result, place + 2 * len))
    }

    pub(super) fn end_transfer(&mut self, mut transfer: Transfer, sink: &mut dyn Sink) {
        self.end_regions(&mut transfer);
        sink.completed(transfer.token, transfer.result());
    }

    fn end_regions(&mut self, transfer: &mut Transfer) {
        for region in transfer.regions.drain(..) {
            self.registrar.end(region);
        }
    }
}

/// Which atomic operations an endpoint has, where operands, comparands and result share `room` bytes.
pub(super) fn ask(endpoint: &Endpoint, room: usize) -> AtomicTable {
    AtomicTable::of(|form, op, number| {
        let asks = match form {
            Form::Update => Asks::Nothing,
            Form::Fetch => Asks::Former,
            Form::Compare => Asks::Comparison,
        };
        let most = endpoint.atomic_count(asks, number_of_op(op), number_of_type(number));
        most.min(room / 3 / number.size())
    })
}

fn number_of_op(op: AtomicOp) -> sys::fi_op {
    match op {
        AtomicOp::Min => sys::FI_MIN,
        AtomicOp::Max => sys::FI_MAX,
        AtomicOp::Sum => sys::FI_SUM,
        AtomicOp::Product => sys::FI_PROD,
        AtomicOp::LogicalOr => sys::FI_LOR,
        AtomicOp::LogicalAnd => sys::FI_LAND,
        AtomicOp::LogicalXor => sys::FI_LXOR,
        AtomicOp::Or => sys::FI_BOR,
        AtomicOp::And => sys::FI_BAND,
        AtomicOp::Xor => sys::FI_BXOR,
        AtomicOp::Read => sys::FI_ATOMIC_READ,
        AtomicOp::Replace => sys::FI_ATOMIC_WRITE,
        AtomicOp::CompareAndSwap => sys::FI_CSWAP,
    }
}

fn number_of_type(number: Number) -> sys::fi_datatype {
    match number {
        Number::I8 => sys::FI_INT8,
        Number::U8 => sys::FI_UINT8,
        Number::I16 => sys::FI_INT16,
        Number::U16 => sys::FI_UINT16,
        Number::I32 => sys::FI_INT32,
        Number::U32 => sys::FI_UINT32,
        Number::I64 => sys::FI_INT64,
        Number::U64 => sys::FI_UINT64,
        Number::F32 => sys::FI_FLOAT,
        Number::F64 => sys::FI_DOUBLE,
    }
}
