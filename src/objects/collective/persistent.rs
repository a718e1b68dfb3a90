//! Collective operations that are started again and again (MPI 5.0 section 6.13): each start makes the future of the same `async fn` anew,
//! of the same arguments and for the same messages, where the one before was. Kept from start to start are the arguments, the memory of
//! the future, the operation's temporary memory (`pool`), and the processes that an operation across an intercommunicator is among.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::pool::Pool;
use crate::base::error::Result;
use crate::engine::request::{Outcome, RequestId};
use crate::err;
use crate::instance::Again;
use crate::objects::communicator::Collective;

/// See the module.
pub struct Persistent<F, M> {
    operation: Collective,
    make: M,
    pool: Arc<Pool>,
    /// The start that is under way.
    future: Mutex<Pin<Box<Option<F>>>>,
}

impl<F, M> Persistent<F, M>
where
    F: Future<Output = Result<()>> + Send + 'static,
    M: FnOnce(Collective) -> F + Clone + Send + Sync + 'static,
{
    /// An operation that is not started yet. At each start a clone of `make` makes its future.
    pub fn new(operation: Collective, make: M) -> Arc<Persistent<F, M>> {
        Arc::new(Persistent {
            operation,
            make,
            pool: Arc::default(),
            future: Mutex::new(Box::pin(None)),
        })
    }

    /// Starts it; the request ends with it.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`: it is under way.
    pub fn start(self: &Arc<Self>) -> Result<RequestId> {
        let communicator = self.operation.communicator();
        let instance = communicator.instance();
        let mut future = self.future.lock();
        if future.is_some() {
            return Err(err!(
                Request,
                "the request is active: another thread has started it meanwhile"
            ));
        }
        future.set(Some(self.make.clone()(self.operation.clone())));
        drop(future);
        let request = instance.spawn_again(self.clone());
        let mut engine = instance.engine();
        engine.set_collective(request, communicator.context(), self.operation.tag());
        Ok(request)
    }
}

impl<F, M> Again for Persistent<F, M>
where
    F: Future<Output = Result<()>> + Send + 'static,
    M: Send + Sync,
{
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Outcome>> {
        let mut future = self.future.lock();
        let run = future.as_mut().as_pin_mut().expect("it is under way");
        let polled = self.pool.during(|| run.poll(context));
        if polled.is_ready() {
            future.set(None);
        }
        polled.map_ok(|()| Outcome::EMPTY)
    }
}
