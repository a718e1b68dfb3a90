//! What ranks write, forwarded line by line: no line is mixed with another.
//!
//! A [`Stream`] is one rank's standard output or error. It forwards whole lines; the beginning of a line only when it is
//! very long, at the end, or when it looks like a prompt: nothing followed for a while ([`IDLE`]), and it was not cut off
//! by a buffer of the C library, which writes full blocks and the rest of the line perhaps much later. A [`Sink`] is the
//! launcher's own standard output or error. It remembers whose line is open: if another stream's line comes, the open one
//! is ended first.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};

/// How long the beginning of a line waits for its end.
pub const IDLE: Duration = Duration::from_millis(50);
/// The longest line that is sure to stay in one piece (bytes).
pub const LINE_MAX: usize = 64 * 1024;
/// How much may wait for a slow reader before ranks have to wait (bytes).
const PENDING_MAX: usize = 1024 * 1024;
/// How much a pipe that is ready for writing takes without blocking (bytes).
const PIPE_CHUNK: usize = 4096;

/// Full buffers of the C library, and of others, are multiples of this (bytes).
const BUFFER_BLOCK: u64 = 4096;

/// Names a stream among all of the job.
pub type StreamId = usize;
/// The launcher's own messages.
pub const OWN: StreamId = usize::MAX;

/// The result of an attempt to read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// All that was possible is done.
    Done,
    /// There may be more at once.
    More,
    /// The other side is gone.
    Ended,
}

/// A rank's standard output or error.
pub struct Stream {
    file: File,
    /// The beginning of a line.
    partial: Vec<u8>,
    /// When something was read last.
    read_at: Instant,
    /// Bytes read in all.
    total: u64,
}

impl Stream {
    /// Reads from `fd`, which must not block.
    pub fn new(fd: OwnedFd) -> Stream {
        Stream {
            file: File::from(fd),
            partial: Vec::new(),
            read_at: Instant::now(),
            total: 0,
        }
    }

    /// Reads once, and passes whole lines to `put`.
    pub fn read(&mut self, put: &mut dyn FnMut(&[u8])) -> Progress {
        let start = self.partial.len();
        self.partial.resize(start + LINE_MAX, 0);
        let received = self.file.read(&mut self.partial[start..]);
        self.partial
            .truncate(start + received.as_ref().map_or(0, |&count| count));
        match received {
            Ok(0) => {
                self.flush(put);
                Progress::Ended
            }
            Ok(count) => {
                self.read_at = Instant::now();
                self.total += count as u64;
                let lines = match self.partial[start..].iter().rposition(|&byte| byte == b'\n') {
                    Some(last) => start + last + 1,
                    None if self.partial.len() >= LINE_MAX => self.partial.len(),
                    None => 0,
                };
                if lines > 0 {
                    put(&self.partial[..lines]);
                    self.partial.drain(..lines);
                }
                Progress::More
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Progress::More,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Done,
            Err(_) => {
                self.flush(put);
                Progress::Ended
            }
        }
    }

    /// Whether it ends in what may be a prompt.
    pub fn is_prompt(&self) -> bool {
        !self.partial.is_empty() && !self.total.is_multiple_of(BUFFER_BLOCK)
    }

    /// Forwards a prompt if nothing has followed it until `now`; `Some`: it may be one, so ask again then.
    pub fn flush_if_idle(&mut self, now: Instant, put: &mut dyn FnMut(&[u8])) -> Option<Instant> {
        let idle_at = self.read_at + IDLE;
        if !self.is_prompt() {
            return None;
        }
        if idle_at > now {
            return Some(idle_at);
        }
        self.flush(put);
        None
    }

    /// Forwards the beginning of a line.
    pub fn flush(&mut self, put: &mut dyn FnMut(&[u8])) {
        if !self.partial.is_empty() {
            put(&self.partial);
            self.partial.clear();
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The launcher's standard output or error.
pub struct Sink {
    file: File,
    /// A write to it never blocks: a regular file, or `/dev/null`.
    never_blocks: bool,
    pending: Vec<u8>,
    /// How much of `pending` is written.
    written: usize,
    /// The stream whose line is open.
    open: Option<StreamId>,
    broken: bool,
    /// The first error of writing to it.
    failure: Option<io::Error>,
    failed: bool,
}

impl Sink {
    /// Writes to `fd`, of which it keeps a copy.
    pub fn new(fd: impl AsFd) -> io::Result<Sink> {
        let file = File::from(fd.as_fd().try_clone_to_owned()?);
        let kind = SFlag::from_bits_truncate(fstat(&file)?.st_mode) & SFlag::S_IFMT;
        let terminal = nix::unistd::isatty(&file).unwrap_or(false);
        let never_blocks = kind == SFlag::S_IFREG || (kind == SFlag::S_IFCHR && !terminal);
        Ok(Sink {
            file,
            never_blocks,
            pending: Vec::new(),
            written: 0,
            open: None,
            broken: false,
            failure: None,
            failed: false,
        })
    }

    /// Whether two descriptors belong to one file, terminal or pipe.
    pub fn same(one: impl AsFd, other: impl AsFd) -> bool {
        match (fstat(one), fstat(other)) {
            (Ok(one), Ok(other)) => {
                (one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev)
            }
            _ => false,
        }
    }

    /// Takes bytes of a stream; they begin a line unless that stream's line is open.
    pub fn put(&mut self, stream: StreamId, prefix: &[u8], bytes: &[u8]) {
        if bytes.is_empty() || self.broken {
            return;
        }
        let continues = self.open == Some(stream);
        if self.open.is_some() && !continues {
            self.pending.push(b'\n');
        }
        if prefix.is_empty() {
            self.pending.extend_from_slice(bytes);
        } else {
            for (number, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
                if number > 0 || !continues {
                    self.pending.extend_from_slice(prefix);
                }
                self.pending.extend_from_slice(line);
            }
        }
        self.open = (bytes.last() != Some(&b'\n')).then_some(stream);
    }

    /// Writes what can be written without blocking.
    pub fn flush(&mut self) -> Progress {
        while self.written < self.pending.len() {
            let mut rest = &self.pending[self.written..];
            if !self.never_blocks {
                let mut ready = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut ready, PollTimeout::ZERO) {
                    Ok(0) => return Progress::More,
                    Err(Errno::EINTR) => continue,
                    // An error of the descriptor is found when writing.
                    _ => {}
                }
                rest = &rest[..rest.len().min(PIPE_CHUNK)];
            }
            match self.file.write(rest) {
                Ok(0) => return Progress::More,
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::More,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.broken = true;
                    self.pending.clear();
                    self.written = 0;
                    return Progress::Ended;
                }
                // The ranks go on, as they would if each of them had written to a full disk itself.
                Err(error) => {
                    if !std::mem::replace(&mut self.failed, true) {
                        self.failure = Some(error);
                    }
                    break;
                }
            }
        }
        self.pending.clear();
        self.written = 0;
        Progress::Done
    }

    /// Why output was lost, returned once.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// It has no reader any more.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether all is written.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether too much waits, so that streams should not be read for now.
    pub fn is_full(&self) -> bool {
        self.pending.len() - self.written > PENDING_MAX
    }

    /// Whether little enough waits that streams can be read again.
    pub fn has_room(&self) -> bool {
        self.pending.len() - self.written < PENDING_MAX / 2
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink() -> (Sink, io::PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        (Sink::new(writer).unwrap(), reader)
    }

    fn written(mut sink: Sink, mut reader: io::PipeReader) -> String {
        assert_eq!(sink.flush(), Progress::Done);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    /// A stream with the number that a sink knows it by.
    fn stream(id: StreamId) -> (Reader, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        let stream = Stream::new(reader.into());
        (Reader { stream, id }, writer)
    }

    struct Reader {
        stream: Stream,
        id: StreamId,
    }

    impl Reader {
        fn read(&mut self, sink: &mut Sink) -> Progress {
            let id = self.id;
            self.stream.read(&mut |bytes| sink.put(id, b"", bytes))
        }

        fn flush_if_idle(&mut self, after: Duration, sink: &mut Sink) -> Option<Instant> {
            let (id, now) = (self.id, self.stream.read_at + after);
            self.stream
                .flush_if_idle(now, &mut |bytes| sink.put(id, b"", bytes))
        }
    }

    #[test]
    fn a_line_is_handed_on_whole() {
        let (mut sink, reader) = sink();
        let (mut one, mut into_one) = stream(1);
        let (mut two, mut into_two) = stream(2);
        into_one.write_all(b"first ha").unwrap();
        one.read(&mut sink);
        into_two.write_all(b"other\n").unwrap();
        two.read(&mut sink);
        into_one.write_all(b"lf\nnext").unwrap();
        one.read(&mut sink);
        assert!(one.stream.is_prompt());
        assert!(one.flush_if_idle(Duration::ZERO, &mut sink).is_some());
        drop(into_one);
        assert_eq!(one.read(&mut sink), Progress::Ended);
        assert_eq!(written(sink, reader), "other\nfirst half\nnext");
    }

    #[test]
    fn a_prompt_is_handed_on_when_idle_but_not_a_full_buffer() {
        let (mut sink, reader) = sink();
        let (mut one, mut into_one) = stream(1);
        into_one.write_all(&[b'x'; 4096]).unwrap();
        one.read(&mut sink);
        assert_eq!(one.flush_if_idle(IDLE, &mut sink), None);
        assert!(sink.is_empty());
        into_one.write_all(b"\nname? ").unwrap();
        one.read(&mut sink);
        assert_eq!(one.flush_if_idle(IDLE, &mut sink), None);
        assert!(written(sink, reader).ends_with("x\nname? "));
    }

    #[test]
    fn an_open_line_is_ended_before_another_streams_line() {
        let (mut sink, reader) = sink();
        sink.put(1, b"", b"name? ");
        sink.put(1, b"", b"again? ");
        sink.put(2, b"", b"line\n");
        sink.put(1, b"", b"rest\n");
        assert_eq!(written(sink, reader), "name? again? \nline\nrest\n");
    }

    #[test]
    fn every_line_gets_its_prefix_once() {
        let (mut sink, reader) = sink();
        sink.put(1, b"[1] ", b"a\nb\nc");
        sink.put(1, b"[1] ", b"c\nd\n");
        sink.put(2, b"[2] ", b"\n");
        assert_eq!(written(sink, reader), "[1] a\n[1] b\n[1] cc\n[1] d\n[2] \n");
    }

    #[test]
    fn a_full_pipe_makes_it_wait_and_a_closed_one_breaks_it() {
        let (mut sink, reader) = sink();
        sink.put(1, b"", &vec![b'x'; 2 * PENDING_MAX]);
        assert_eq!(sink.flush(), Progress::More);
        assert!(sink.is_full() && !sink.has_room() && !sink.is_empty());
        drop(reader);
        assert_eq!(sink.flush(), Progress::Ended);
        assert!(sink.is_broken() && sink.is_empty());
        sink.put(1, b"", b"more");
        assert!(sink.is_empty());
    }

    #[test]
    fn a_sink_has_room_again_when_half_of_it_is_read() {
        let (mut sink, mut reader) = sink();
        sink.put(1, b"", &vec![b'x'; PENDING_MAX + 1]);
        assert!(sink.is_full() && !sink.has_room());
        let mut buffer = [0; PIPE_CHUNK];
        let mut left = PENDING_MAX + 1;
        while left >= PENDING_MAX / 2 {
            assert!(!sink.has_room(), "{left} bytes are left");
            let before = sink.pending.len() - sink.written;
            sink.flush();
            left -= before - (sink.pending.len() - sink.written);
            let _ = reader.read(&mut buffer).unwrap();
        }
        assert!(sink.has_room() && !sink.is_full());
    }

    #[test]
    fn what_is_there_later_is_waited_for_and_what_never_comes_is_the_end() {
        let (mut sink, _reader) = sink();
        let (reader, mut writer) = io::pipe().unwrap();
        nix::fcntl::fcntl(&reader, nix::fcntl::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK)).unwrap();
        let stream = Stream::new(reader.into());
        let mut one = Reader { stream, id: 1 };
        assert_eq!(one.read(&mut sink), Progress::Done);
        writer.write_all(b"a").unwrap();
        assert_eq!(
            (one.read(&mut sink), one.read(&mut sink)),
            (Progress::More, Progress::Done)
        );
        // A descriptor that can't be read.
        let folder = File::open("/").unwrap();
        assert_eq!(Stream::new(folder.into()).read(&mut |_| {}), Progress::Ended);
    }

    #[test]
    fn a_line_without_end_is_handed_on_in_parts() {
        let (mut sink, mut reader) = sink();
        let (mut one, mut into_one) = stream(1);
        let mut length = 0;
        for _ in 0..LINE_MAX / PIPE_CHUNK {
            assert!(sink.is_empty(), "{length} bytes are one line");
            into_one.write_all(&[b'x'; PIPE_CHUNK]).unwrap();
            one.read(&mut sink);
            length += PIPE_CHUNK;
        }
        assert!(!sink.is_empty());
        let mut buffer = vec![0; LINE_MAX];
        while !sink.is_empty() {
            sink.flush();
            length -= reader.read(&mut buffer).unwrap();
        }
        assert_eq!(length, 0);
    }

    #[test]
    fn two_names_of_one_pipe_are_the_same_and_two_pipes_are_not() {
        let (reader, writer) = io::pipe().unwrap();
        let (_other_reader, other) = io::pipe().unwrap();
        assert!(Sink::same(&writer, writer.try_clone().unwrap()) && Sink::same(&reader, &writer));
        assert!(!Sink::same(&writer, &other));
    }
}
