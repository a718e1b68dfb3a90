//! Collective operations that are started again and again (MPI 5.0 section 6.13): each start makes the future of the same `async fn` anew,
//! of the same arguments and for the same messages, where the one before was. Kept from start to start are the arguments, the memory of
//! the future, the operation's temporary memory (`pool`), and the processes that an operation across an intercommunicator is among.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::pool::Pool;
use crate::base::error::Result;
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::instance::{Again, look_at};
use crate::objects::communicator::area::Area;
use crate::objects::communicator::{Collective, Communicator};
use crate::system::lock::Mutex;

/// See the module.
pub struct Persistent<F, M> {
    /// The start that is under way. (This and `make` are dropped before all else: they may refer to the area.)
    future: Mutex<Pin<Box<Option<F>>>>,
    make: M,
    communicator: Arc<Communicator>,
    /// Of its messages.
    tag: i32,
    /// The memory that the processes of the host share for it.
    area: Option<Arc<Area>>,
    /// Its temporary memory, if it may need some.
    pool: Option<Arc<Pool>>,
}

/// An operation that is not started yet. At each start a clone of `make` makes its future.
pub fn persistent<F>(
    operation: Collective,
    make: impl FnOnce(Collective) -> F + Clone + Send + Sync + 'static,
) -> Arc<Persistent<F, impl Fn() -> F + Send + Sync + 'static>>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    Arc::new(Persistent {
        communicator: operation.communicator().clone(),
        tag: operation.tag(),
        area: operation.own_area().cloned(),
        make: move || make.clone()(operation.clone()),
        pool: Some(Arc::default()),
        future: Mutex::new(Box::pin(None)),
    })
}

/// The same for an operation in memory of its own that needs nothing but that.
///
/// # Safety
/// `make` puts what it is given into the future and nowhere else.
///
/// # Panics
/// If it has none.
pub unsafe fn persistent_in_area<F>(
    operation: Collective,
    make: impl Fn(&'static Area) -> F + Send + Sync + 'static,
) -> Arc<Persistent<F, impl Fn() -> F + Send + Sync + 'static>>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let area = operation.own_area().expect("it has memory of its own").clone();
    // SAFETY: for the futures alone, as the caller says; and a `Persistent` drops its future before the area, which it keeps until then.
    let lasting: &'static Area = unsafe { &*Arc::as_ptr(&area) };
    Arc::new(Persistent {
        communicator: operation.communicator().clone(),
        tag: operation.tag(),
        area: Some(area),
        make: move || make(lasting),
        pool: None,
        future: Mutex::new(Box::pin(None)),
    })
}

impl<F, M> Persistent<F, M>
where
    F: Future<Output = Result<()>> + Send + 'static,
    M: Fn() -> F + Send + Sync + 'static,
{
    /// Starts it; the request ends with it.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`: it is under way.
    pub fn start(self: &Arc<Self>) -> Result<RequestId> {
        let communicator = &*self.communicator;
        let instance = communicator.instance();
        let mut future = self.future.lock();
        if future.is_some() {
            return Err(err!(
                Request,
                "the request is active: another thread has started it meanwhile"
            ));
        }
        if let Some(area) = &self.area {
            area.enter(self.tag)?;
        }
        future.set(Some((self.make)()));
        // In shared memory it may have all that it needs.
        if self.area.is_some()
            && let Poll::Ready(outcome) = look_at(|context| self.poll_in(&mut future, context))
        {
            drop(future);
            let outcome = outcome.unwrap_or_else(Outcome::failed);
            return Ok(instance.engine().ended_request(outcome, communicator.context()));
        }
        drop(future);
        Ok(instance.spawn_again(self.clone(), communicator.context(), self.tag))
    }
}

impl<F, M> Persistent<F, M>
where
    F: Future<Output = Result<()>>,
{
    fn poll_in(&self, future: &mut Pin<Box<Option<F>>>, context: &mut Context<'_>) -> Poll<Result<Outcome>> {
        let run = future.as_mut().as_pin_mut().expect("it is under way");
        let polled = match &self.pool {
            Some(pool) => pool.during(|| run.poll(context)),
            None => run.poll(context),
        };
        if let Poll::Ready(result) = &polled {
            future.set(None);
            if let Some(area) = &self.area {
                if result.is_err() {
                    area.spoil();
                }
                area.leave();
            }
        }
        polled.map_ok(|()| Outcome::EMPTY)
    }
}

impl<F, M> Again for Persistent<F, M>
where
    F: Future<Output = Result<()>> + Send + 'static,
    M: Send + Sync,
{
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Outcome>> {
        self.poll_in(&mut self.future.lock(), context)
    }
}
