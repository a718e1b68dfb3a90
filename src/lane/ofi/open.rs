//! Opening the lane: libfabric's objects, and the buffers that the provider wants.

use super::*;
use crate::lane::atomic::Atomics;
use crate::system::fabric::select::Chosen;
use crate::system::locality::network_namespace;
use crate::system::shared_memory::Machine;

impl OfiLane {
    pub(super) fn open_info(
        Chosen { mut info, delivers }: Chosen,
        settings: &Settings,
        register_always: bool,
        spins: bool,
        ledger: &Ledger,
    ) -> Result<OfiLane> {
        let provider = info.provider();
        let tuning = Tuning::of(&info);
        if let Some(entries) = tuning.receive_queue {
            info.limit_receive_queue(entries);
        }
        if tuning.own_thread {
            info.progress_by_thread();
        }
        if provider == "shm" {
            info.name_source(&shm_name::new(std::process::id())?)?;
        }
        let message = tuning.message.min(info.max_msg_size());
        if message < Secret::BYTES + HEADER_BYTES {
            return Err(err!(
                Other,
                "the libfabric provider {provider} carries messages of {message} bytes: {} are needed at least",
                Secret::BYTES + HEADER_BYTES
            ));
        }
        let two_segments = info.send_iov_limit() >= 2;
        let buffered = if two_segments {
            tuning.buffered.min(message)
        } else {
            message
        };
        let registers_local = info.registers_local() || register_always;
        let mut limits = Limits {
            buffered: buffered - Secret::BYTES,
            message: message - Secret::BYTES,
            header: if two_segments {
                HEADER_BYTES + LONGER_BY
            } else {
                HEADER_BYTES
            },
            piece: message - Secret::BYTES,
            ordered: info.is_ordered() && (info.completes_in_order() || tuning.short_messages_in_order),
            rma: settings.rma && info.has_rma(),
            write: settings.rma && info.has_writes() && delivers,
            // Asked of the endpoint, below.
            atomics: Atomics::None,
            // Nothing is gained by a thread of the provider's: a message needs no more of the target.
            needs_target: !select::accesses_memory(&provider),
            // A socket has copied what its other end has.
            ends_with_receipt: tuning.sockets,
            rma_from: tuning.rma_from,
            // One operation reads as much as one message carries; and a registration is expensive.
            read_run: if registers_local {
                tuning.rma_from
            } else {
                message / info.send_iov_limit().clamp(1, Endpoint::TARGETS)
            },
            register_run: usize::MAX,
            eager: tuning.eager.min(message - Secret::BYTES),
            pipelined: 0,
            queue: tuning.queue,
        };

        let named = |error: CallError| -> crate::Error {
            let interface = info.domain_name();
            err!(
                Other,
                "the libfabric provider {provider} can't be opened on {interface}: {error}"
            )
        };
        let descriptor = tuning.descriptor && (tuning.own_thread || !spins);
        let when = When::of(&provider, fabric::version()?);
        let open = || {
            let fabric = Fabric::open(&info)?;
            let domain = Domain::open(&fabric, &info)?;
            let entries = OPERATIONS + 2 * info.receive_queue_size().min(2048);
            let queue = CompletionQueue::open(&domain, entries, descriptor)
                // A version of the provider without a descriptor is used without sleeping.
                .or_else(|error| {
                    if descriptor {
                        CompletionQueue::open(&domain, entries, false)
                    } else {
                        Err(error)
                    }
                })?;
            let addresses = AddressVector::open(&domain, &info)?;
            let endpoint = Endpoint::open(&domain, &info, &queue, &addresses, message, when)?;
            let own_name = endpoint.name()?;
            let mut unpaced = None;
            if let Some(address) = fabric::socket_address(&own_name) {
                fabric::limit_patience(address);
                unpaced = fabric::UnpacedLoopback::new(address);
                if tuning.long_receives {
                    fabric::lengthen_accepted(address);
                }
            }
            Ok((domain, queue, addresses, endpoint, own_name, unpaced))
        };
        let (domain, queue, addresses, endpoint, own_name, unpaced) =
            ledger.time(Phase::Open, open).map_err(named)?;

        let atomics = match limits.write && info.has_atomics() {
            true => one_sided::ask(&endpoint, buffered),
            false => AtomicTable::NONE,
        };
        if !atomics.is_empty() {
            limits.atomics = match select::performs_atomics(&provider) {
                true => Atomics::Hardware,
                false => Atomics::Emulated,
            };
        }
        let inject_size = info.inject_size().min(message);
        let sockets = match fabric::socket_address(&own_name) {
            Some(own) if tuning.long_receives || tuning.sockets && !queue.has_descriptor() => {
                Sockets::new(own)
            }
            _ => None,
        };
        let mut receives = ReceiveBuffers::new(
            tuning.receive_bytes,
            tuning.receive_count,
            message,
            info.receive_queue_size(),
        )?;
        if !tuning.shares {
            receives.share_no_more();
        }
        let report_after =
            (settings.contact_report_s > 0).then(|| Duration::from_secs(settings.contact_report_s));
        let departed = Departed::new(departed::Forgets::of(&provider));
        let mut lane = OfiLane {
            endpoint,
            registered: HashMap::default(),
            unattended: HashSet::default(),
            transfers: Transfers::new(info.max_msg_size().min(READ_PART), info.send_iov_limit()),
            own_regions: Vec::new(),
            queue,
            addresses,
            domain,
            operations: Operations::new(
                OPERATIONS,
                buffered,
                if registers_local { SPARES } else { 0 },
                message,
            )?,
            receives,
            registrar: Registrar::new(info.mr_key_size(), info.chooses_keys()),
            info,
            provider,
            own_name,
            secret: Secret::random()?,
            limits,
            atomics: Box::new(atomics),
            inject_size,
            counts_all: false,
            scratch: vec![0; inject_size].into_boxed_slice(),
            batch: Batch::default(),
            peers: HashMap::default(),
            departed,
            registers_local,
            next_region: 0,
            report_after,
            attempt_after: report_after.map_or(ATTEMPT_AFTER, |after| after.min(ATTEMPT_AFTER)),
            over_tcp: tuning.sockets || tuning.long_receives,
            sleeps_early: tuning.own_thread,
            sockets,
            long_receives: tuning.long_receives,
            reads_after_sleep: tuning.reads_after_sleep,
            has_slept: false,
            paced: true,
            _unpaced: unpaced,
            machine: None,
            quiet: 0,
            unread: 0,
        };
        ledger.time(Phase::Post, || {
            lane.register_bounce_buffers()?;
            lane.replenish()
        })?;
        Ok(lane)
    }

    pub(super) fn register_bounce_buffers(&mut self) -> Result<()> {
        if !self.registers_local {
            return Ok(());
        }
        let pages = self.operations.bounce();
        let key = keys::local(self.own_regions.len());
        // SAFETY: the pages outlive the region (field order).
        let region = unsafe {
            MemoryRegion::register(
                &self.domain,
                &self.endpoint,
                pages.base(),
                pages.len(),
                if self.limits.write {
                    Access::Any
                } else {
                    Access::Send
                },
                key,
            )
        }?;
        self.operations.set_descriptor(region.descriptor());
        self.own_regions.push(region);
        Ok(())
    }
}

/// A number for the loopback interface that this process sees: no other machine and no other network namespace has the same. `None`: it
/// can't be known.
pub(super) fn loopback_number() -> Option<u64> {
    Some(Machine::here().ok()?.folded_boot() ^ network_namespace()?.rotate_left(32))
}
