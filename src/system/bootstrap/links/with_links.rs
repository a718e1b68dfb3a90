//! A bootstrap whose launcher, if it has one, knows nothing of other jobs: the process itself keeps its links.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use super::Links;
use crate::base::error::Result;
use crate::identity::{JobId, ProcessName};
use crate::system::bootstrap::{AfterFinalize, Bootstrap, Job, Notice, Spawn, Spawned};

/// A bootstrap, and links. What is not about links is left to the bootstrap inside.
pub(in crate::system::bootstrap) struct WithLinks {
    inner: Box<dyn Bootstrap>,
    links: Links,
}

impl WithLinks {
    /// Without any so far.
    pub fn around(inner: impl Bootstrap + 'static) -> WithLinks {
        WithLinks {
            inner: Box::new(inner),
            links: Links::default(),
        }
    }
}

impl Bootstrap for WithLinks {
    fn attend(&mut self) -> Result<bool> {
        self.links.attend();
        self.inner.attend()
    }

    fn has_news(&self) -> bool {
        self.inner.has_news()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.links.descriptor(self.inner.descriptor())
    }

    fn link(&mut self, job: JobId, socket: OwnedFd) -> Result<()> {
        self.links.add(job, socket)
    }

    fn connected(&mut self, job: JobId, on: bool) {
        if !on {
            self.links.part(job);
        }
    }

    fn notices(&mut self) -> Vec<Notice> {
        let mut notices = self.links.notices();
        notices.append(&mut self.inner.notices());
        notices
    }

    fn abort(&mut self, code: i32, message: &str) -> bool {
        self.links.abort(code, message);
        self.inner.abort(code, message)
    }

    fn finalize(&mut self) -> Result<()> {
        self.links.part_from_all();
        self.inner.finalize()
    }

    fn job(&self) -> &Job {
        self.inner.job()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn publish(&mut self, incarnation: u32, card: &[u8]) -> Result<()> {
        self.inner.publish(incarnation, card)
    }

    fn needs_fence(&self) -> bool {
        self.inner.needs_fence()
    }

    fn begin_fence(&mut self) -> Result<()> {
        self.inner.begin_fence()
    }

    fn fence_is_over(&mut self) -> Result<bool> {
        self.inner.fence_is_over()
    }

    fn fence(&mut self) -> Result<()> {
        self.inner.fence()
    }

    fn lookup(&mut self, incarnation: u32, peer: ProcessName) -> Result<Option<Vec<u8>>> {
        self.inner.lookup(incarnation, peer)
    }

    fn fetch(&mut self, incarnation: u32, peer: ProcessName) -> Result<Vec<u8>> {
        self.inner.fetch(incarnation, peer)
    }

    fn after_finalize(&self) -> AfterFinalize {
        self.inner.after_finalize()
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    fn report(&mut self, text: &str) -> bool {
        self.inner.report(text)
    }

    fn tells_why(&self) -> bool {
        self.inner.tells_why()
    }

    fn spawn(&mut self, spawn: &Spawn) -> Result<u32> {
        self.inner.spawn(spawn)
    }

    fn spawned(&mut self, spawn: u32) -> Result<Option<Spawned>> {
        self.inner.spawned(spawn)
    }

    fn spawn_patience(&self) -> Option<Duration> {
        self.inner.spawn_patience()
    }

    fn publish_name(&mut self, service: &str, port: &str) -> Result<()> {
        self.inner.publish_name(service, port)
    }

    fn unpublish_name(&mut self, service: &str) -> Result<()> {
        self.inner.unpublish_name(service)
    }

    fn lookup_name(&mut self, service: &str) -> Result<Option<String>> {
        self.inner.lookup_name(service)
    }

    fn come_back(&mut self) {
        self.inner.come_back();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::wakes;
    use super::*;
    use crate::system::bootstrap::singleton::Singleton;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn singleton() -> WithLinks {
        WithLinks::around(Singleton::new())
    }

    fn linked(one: &mut WithLinks, other: &mut WithLinks) {
        let (own, others) = UnixStream::pair().unwrap();
        let jobs = [one.job().name().job, other.job().name().job];
        one.link(jobs[1], own.into()).unwrap();
        other.link(jobs[0], others.into()).unwrap();
        one.connected(jobs[1], true);
        other.connected(jobs[0], true);
    }

    #[test]
    fn it_is_the_bootstrap_inside() {
        let mut alone = singleton();
        assert_eq!(alone.name(), "singleton");
        assert!(!alone.needs_fence() && !alone.is_over() && !alone.tells_why());
        assert_eq!(alone.after_finalize(), AfterFinalize::Returns);
        alone.publish(3, b"card").unwrap();
        let own = alone.job().name();
        assert_eq!(alone.lookup(3, own).unwrap().as_deref(), Some(&b"card"[..]));
        assert_eq!(alone.fetch(3, own).unwrap(), b"card");
        alone.fence().unwrap();
        alone.publish_name("service", "port").unwrap();
        assert_eq!(alone.lookup_name("service").unwrap().as_deref(), Some("port"));
        alone.unpublish_name("service").unwrap();
        assert!(!alone.attend().unwrap() && alone.descriptor().is_none());
        assert!(!alone.report("nothing") && !alone.abort(1, "why"));
        alone.finalize().unwrap();
    }

    #[test]
    fn an_abort_reaches_the_connected_and_a_finalize_tells_nobody() {
        let (mut one, mut other, mut third) = (singleton(), singleton(), singleton());
        linked(&mut one, &mut other);
        linked(&mut one, &mut third);
        third.finalize().unwrap();
        one.attend().unwrap();
        assert_eq!(one.notices(), []);
        assert!(!one.abort(3, "why"));
        assert!(wakes(other.descriptor()));
        other.attend().unwrap();
        let abort = Notice::Aborted {
            code: 3,
            why: "why".into(),
        };
        assert_eq!(other.notices(), [abort]);
        third.attend().unwrap();
        assert_eq!(third.notices(), []);
    }

    #[test]
    fn who_is_not_connected_any_more_says_goodbye() {
        let mut one = singleton();
        let (own, mut other) = UnixStream::pair().unwrap();
        one.link(JobId(1), own.into()).unwrap();
        one.connected(JobId(1), false);
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bye\n");
        assert!(one.descriptor().is_none());
    }
}
