//! Operations of several steps: each is written once, as an `async fn` over sends and receives. A blocking call polls its
//! future in place while it makes progress ([`Instance::block_on`]); a nonblocking call makes it a task that progress
//! polls ([`Instance::spawn`]), or starts one that it has started before ([`Instance::spawn_again`]); the simulator polls many in virtual time.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use super::Instance;
use crate::base::error::{Error, Result};
use crate::base::slab::Slab;
use crate::engine::Engine;
use crate::engine::dispatch::Job;
use crate::engine::request::{Outcome, RequestId, TaskId};
use crate::identity;
use crate::system::lock::Mutex;

/// What a task runs: it ends with the outcome of its request.
pub type Operation = Job;

/// An operation that is started again and again, and keeps what it needs for that itself.
pub trait Again: Send + Sync {
    /// Polls the start that is under way. When it has ended, nothing of it is left, and the next may begin.
    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Outcome>>;
}

enum Running {
    Once(Operation),
    Again(Arc<dyn Again>),
}

impl Running {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Outcome>> {
        match self {
            Running::Once(operation) => operation.as_mut().poll(context),
            Running::Again(operation) => operation.poll(context),
        }
    }
}

/// The tasks of an instance.
#[derive(Default)]
pub(super) struct Tasks {
    slab: Mutex<Slab<Task>>,
    /// An empty list of tasks to be polled, for the next turn.
    spare: Mutex<Vec<TaskId>>,
}

struct Task {
    /// Absent while it is being polled.
    operation: Option<Running>,
    /// Woken while it was being polled.
    woken: bool,
    request: RequestId,
}

/// Who has begun a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// A call of the program: it may run the user's functions.
    ByCall,
    /// A message.
    ByMessage,
}

/// The waker contains only the task's number: when a request completes, the number is recorded in the engine.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| (), |_| (), |_| ());

fn clone(data: *const ()) -> RawWaker {
    RawWaker::new(data, &VTABLE)
}

/// The number in the waker of [`Instance::block_on`], which no task has.
const BLOCKS: usize = usize::MAX;
/// The number in the waker of [`look_at`].
const FIRST_LOOK: usize = usize::MAX - 1;

fn waker(number: usize) -> Waker {
    // SAFETY: the functions of the table never dereference the pointer, which is only a number.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::without_provenance(number), &VTABLE)) }
}

/// Who polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poller {
    /// A blocking call that runs this operation by itself: a wait may be made in place. It has nothing else to do meanwhile.
    Blocks,
    /// The first poll of what becomes a task directly afterwards ([`look_at`]): nobody need be woken.
    Looks,
    /// A task, which is polled when what it waits for has come.
    Task(TaskId),
    /// Anybody else: the simulator polls after each event.
    Other,
}

/// Who polls with this context.
#[inline]
pub fn poller(context: &Context<'_>) -> Poller {
    match context.waker().data() as usize {
        0 => Poller::Other,
        BLOCKS => Poller::Blocks,
        FIRST_LOOK => Poller::Looks,
        number => Poller::Task(TaskId::of_number((number - 1) as u32)),
    }
}

fn task_of(context: &Context<'_>) -> Option<TaskId> {
    match poller(context) {
        Poller::Task(task) => Some(task),
        _ => None,
    }
}

/// Polls an operation once before it becomes a task, if it has not ended by then.
#[inline(always)]
pub fn look_at<T>(poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let waker = std::mem::ManuallyDrop::new(waker(FIRST_LOOK));
    poll(&mut Context::from_waker(&waker))
}

/// Runs an operation that waits in place ([`Poller::Blocks`]) and nowhere else.
///
/// # Panics
/// If it waits elsewhere.
#[inline(always)]
pub fn run_in_place<T>(operation: impl Future<Output = T>) -> T {
    let waker = waker(BLOCKS);
    let waker = std::mem::ManuallyDrop::new(waker);
    match std::pin::pin!(operation).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("it waits in place"),
    }
}

impl Instance {
    /// Runs an operation to its end.
    pub fn block_on<T>(&self, operation: impl Future<Output = T>) -> T {
        let mut operation = std::pin::pin!(operation);
        let waker = waker(BLOCKS);
        let mut context = Context::from_waker(&waker);
        loop {
            let before = self.engine().events();
            if let Poll::Ready(result) = operation.as_mut().poll(&mut context) {
                return result;
            }
            self.wait_for(|engine| (engine.events() != before).then_some(()));
        }
    }

    /// Starts an operation that runs beside the caller; the request ends with it.
    pub fn spawn(&self, operation: Operation) -> RequestId {
        self.run(Running::Once(operation), Begun::ByCall, Engine::bare_request)
    }

    /// Starts an operation again, as [`Instance::spawn`] does, without an allocation. It is a collective operation of the communicator of
    /// a context, and its messages have this tag.
    pub fn spawn_again(&self, operation: Arc<dyn Again>, context: identity::Context, tag: i32) -> RequestId {
        self.run(Running::Again(operation), Begun::ByCall, |engine| {
            engine.collective_request(context, tag)
        })
    }

    fn run(
        &self,
        operation: Running,
        begun: Begun,
        request: impl FnOnce(&mut Engine) -> RequestId,
    ) -> RequestId {
        let mut slab = self.tasks.slab.lock();
        // The request needs the task's number, and the task needs the request's name.
        let request = request(&mut self.engine());
        let place = slab.insert(Task {
            operation: Some(operation),
            woken: false,
            request,
        });
        let task = TaskId::new(place, begun == Begun::ByMessage);
        drop(slab);
        self.poll_task(task);
        request
    }

    /// Ends all that is under way, so that an operation that is dropped does not wait for the end of a request, and drops
    /// the tasks, which hold references to the instance: for a simulated process that is gone.
    ///
    /// # Safety
    /// No lane of this instance does anything any more.
    #[cfg(feature = "sim")]
    pub unsafe fn forsake(&self) {
        let gone = crate::err!(Other, "this process is gone");
        // SAFETY: the caller says that nothing moves any more.
        unsafe { self.engine().end_all(&gone) };
        let tasks = std::mem::take(&mut *self.tasks.slab.lock());
        let servers = self.engine().end_services();
        drop((tasks, servers));
    }

    /// Polls the tasks whose requests have ended. `true`: there were some. Now and then it hears what the launcher has to say.
    pub fn run_ready_tasks(&self) -> bool {
        if self.attention.is_due() {
            self.attend();
        }
        // Polling may lead back here.
        let mut ready = std::mem::take(&mut *self.tasks.spare.lock());
        self.engine().take_ready(&mut ready);
        let mut any = !ready.is_empty();
        for task in ready.drain(..) {
            self.poll_task(task);
        }
        any |= self.run_begun();
        *self.tasks.spare.lock() = ready;
        any
    }

    /// The same, but only what messages have begun: that runs nothing of the user's, and can be done by any thread.
    pub(super) fn run_served_tasks(&self) {
        let mut ready = Vec::new();
        self.engine().take_served(&mut ready);
        for task in ready {
            self.poll_task(task);
        }
        self.run_begun();
    }

    /// Runs the operations that messages have begun. `true`: there were some.
    fn run_begun(&self) -> bool {
        let mut any = false;
        loop {
            let begun = self.engine().take_begun();
            let Some(job) = begun else { break };
            let request = self.run(Running::Once(job), Begun::ByMessage, Engine::bare_request);
            self.engine().release(request);
            any = true;
        }
        any
    }

    fn poll_task(&self, id: TaskId) {
        let waker = waker(id.number() as usize + 1);
        let mut context = Context::from_waker(&waker);
        loop {
            let mut slab = self.tasks.slab.lock();
            let Some(task) = slab.get_mut(id.place()) else {
                return;
            };
            let Some(mut operation) = task.operation.take() else {
                task.woken = true;
                return;
            };
            task.woken = false;
            drop(slab);
            match operation.poll(&mut context) {
                Poll::Ready(result) => {
                    let request = self.tasks.slab.lock().remove(id.place()).request;
                    let outcome = result.unwrap_or_else(Outcome::failed);
                    self.engine().complete(request, outcome);
                    return;
                }
                Poll::Pending => {
                    let mut slab = self.tasks.slab.lock();
                    let task = &mut slab[id.place()];
                    task.operation = Some(operation);
                    if !task.woken {
                        return;
                    }
                }
            }
        }
    }
}

/// The end of a request, to be awaited. If it is dropped before, it makes sure that the request touches no memory any
/// more. It keeps its instance, or refers to one that stays.
pub struct Completion<I: Deref<Target = Instance> = Arc<Instance>>(State<I>);

enum State<I> {
    UnderWay(I, RequestId),
    Ended(Option<Outcome>),
}

impl<I: Deref<Target = Instance>> Unpin for Completion<I> {}

impl<I: Deref<Target = Instance>> Completion<I> {
    /// Awaits a request.
    #[inline]
    pub fn of(instance: I, request: RequestId) -> Completion<I> {
        Completion(State::UnderWay(instance, request))
    }

    /// The end of something that has ended already, with or without an error.
    #[inline]
    pub fn of_outcome(outcome: Outcome) -> Completion<I> {
        Completion(State::Ended(Some(outcome)))
    }

    /// The end of something that has ended already.
    pub fn ended(result: Result<Outcome>) -> Completion<I> {
        Completion::of_outcome(result.unwrap_or_else(Outcome::failed))
    }

    /// How it ended, where the rest of the outcome matters beside an error.
    pub async fn outcome(mut self) -> Outcome {
        std::future::poll_fn(|context| self.poll_outcome(context)).await
    }

    #[inline]
    fn poll_outcome(&mut self, context: &Context<'_>) -> Poll<Outcome> {
        let outcome = match &mut self.0 {
            State::UnderWay(instance, id) if poller(context) == Poller::Blocks => {
                let id = *id;
                Some(instance.wait_for(|engine| engine.take(id)))
            }
            State::UnderWay(instance, id) => {
                let mut engine = instance.engine();
                let outcome = engine.take(*id);
                if outcome.is_none()
                    && let Some(task) = task_of(context)
                {
                    engine.wake_on(*id, task);
                }
                outcome
            }
            State::Ended(outcome) => return Poll::Ready(outcome.take().expect("polled after its end")),
        };
        match outcome {
            Some(outcome) => {
                self.0 = State::Ended(None);
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl<I: Deref<Target = Instance>> Future for Completion<I> {
    type Output = Result<Outcome>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outcome>> {
        self.poll_outcome(context)
            .map(|mut outcome| match outcome.error.take() {
                Some(error) => Err::<Outcome, Error>(*error),
                None => Ok(outcome),
            })
    }
}

impl<I: Deref<Target = Instance>> Drop for Completion<I> {
    #[inline]
    fn drop(&mut self) {
        if let State::UnderWay(instance, id) = &self.0 {
            give_up(instance, *id);
        }
    }
}

#[cold]
fn give_up(instance: &Instance, id: RequestId) {
    let stays = EndsProcess;
    instance.engine().abandon(id);
    instance.wait_for(|engine| engine.take(id));
    std::mem::forget(stays);
}

/// Ends the process when it is dropped by a panic: the memory of a request that is still under way would be freed next.
struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        eprintln!(
            "weft: an operation was dropped where it could not be given up (the engine is locked): the process ends"
        );
        std::process::abort();
    }
}
