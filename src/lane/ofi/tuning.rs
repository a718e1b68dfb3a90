//! Sizes per provider, chosen by measuring (`benches/bare_pingpong.rs`), and the needs of a provider's progress.

use super::secret::Secret;
use crate::lane::{HEADER_BYTES, LONGER_BY};
use crate::system::fabric::info::Facts;

/// The longest payload that `tcp` sends without a rendezvous.
const EAGER_OF_TCP: usize = 64 << 10;

/// How the lane uses a provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// The longest message, all that is in front of the payload included, in bytes.
    pub message: usize,
    /// Messages up to this many bytes are copied.
    pub buffered: usize,
    /// The largest payload that is worth sending without a rendezvous.
    pub eager: usize,
    /// The size from which reading remote memory beats sending messages.
    pub rma_from: usize,
    /// Bytes of a multi-receive buffer.
    pub receive_bytes: usize,
    /// Multi-receive buffers posted.
    pub receive_count: usize,
    /// Whether messages share a receive buffer. Otherwise each has one of its own from the beginning.
    pub shares: bool,
    /// Arrived messages that the provider may queue, where its own choice is more than the buffers hold.
    pub receive_queue: Option<usize>,
    /// Messages that may wait for the process to poll, from all peers together.
    pub queue: usize,
    /// Whether messages of at most `message` bytes complete in the order of arrival, though the provider does not
    /// promise it for longer ones.
    pub short_messages_in_order: bool,
    /// Whether the completion queue can have a descriptor to sleep on. It costs a write and a read for every other
    /// message (seen with ofi_rxm), so it is used only where waits do not spin.
    pub descriptor: bool,
    /// Whether all that arrives comes over TCP sockets, which can be slept on where the completion queue has no descriptor.
    pub sockets: bool,
    /// Whether connections are given long receive buffers, because the provider leaves a header in its socket until all of it has come.
    pub long_receives: bool,
    /// Whether the provider makes progress by a thread of its own, which a spinning rank would keep from its core.
    pub own_thread: bool,
    /// After a sleep, the completion queue is read up to so many times until a read finds something: more than 1 where one read moves
    /// only a little of what waits.
    pub reads_after_sleep: usize,
}

/// The longest message that ofi_rxm sends in one piece. It fetches longer ones or sends them in pieces, and then they complete later
/// than shorter ones after them.
fn rxm_eager() -> usize {
    let default = 16 << 10;
    std::env::var("FI_OFI_RXM_BUFFER_SIZE")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

impl Tuning {
    /// For the provider of `facts`.
    pub(super) fn of(facts: &Facts) -> Tuning {
        let general = Tuning {
            message: 64 << 10,
            buffered: 16 << 10,
            eager: 16 << 10,
            rma_from: 64 << 10,
            receive_bytes: 1 << 20,
            receive_count: 4,
            shares: true,
            receive_queue: None,
            queue: usize::MAX,
            short_messages_in_order: false,
            descriptor: false,
            sockets: false,
            long_receives: false,
            own_thread: false,
            reads_after_sleep: 1,
        };
        match facts.provider().as_str() {
            provider if provider.ends_with(";ofi_rxm") => Tuning {
                message: rxm_eager().clamp(1 << 10, 64 << 10),
                short_messages_in_order: true,
                // After a message that is longer than the rest of a shared buffer, the next one is written past its end (seen with 2.5,
                // not with 1.17; docs/providers.md). Any process can send such a message.
                shares: crate::system::fabric::version().is_ok_and(|version| version < (1, 18)),
                descriptor: true,
                sockets: !provider.starts_with("verbs"),
                ..general
            },
            // shm takes all that waits in its queue at once, and keeps messages without a buffer in entries that it then
            // lacks for posting one. So the buffers hold a whole queue of the longest messages.
            "shm" => Tuning {
                message: 16 << 10,
                receive_queue: if crate::system::fabric::version().is_ok_and(|version| version < (2, 0)) {
                    Some(256)
                } else {
                    None
                },
                receive_count: 6,
                queue: 128,
                ..general
            },
            // Longer messages are many packets, and come out of order.
            "udp;ofi_rxd" => Tuning {
                message: 4 << 10,
                // With more, from four ranks on, the messages of some peer stop coming (seen with 1.17).
                queue: 32,
                ..general
            },
            // The descriptor that it gives (1.17) is readable at all times once there is a connection.
            "tcp" | "net" => Tuning {
                sockets: true,
                // A message without a buffer waits in the socket, and a message is read straight into its buffer: so one of 64 KiB costs
                // nothing but a copy, where a rendezvous costs two more exchanges. Long buffers do not stay in a cache.
                message: EAGER_OF_TCP + HEADER_BYTES + LONGER_BY + Secret::BYTES,
                eager: EAGER_OF_TCP,
                rma_from: EAGER_OF_TCP + 1,
                receive_bytes: 256 << 10,
                ..general
            },
            // With manual progress, messages between two processes stay in their sockets forever (seen in 1.17).
            "sockets" => Tuning {
                descriptor: true,
                long_receives: true,
                own_thread: true,
                ..general
            },
            // Over sockets, each read of the queue takes one packet from each connection, often of only 1 KiB, and says nothing unless that
            // completes something: a message of 64 KiB would take 64 sleeps.
            "psm3" => Tuning {
                reads_after_sleep: 256,
                ..general
            },
            _ => general,
        }
    }
}
