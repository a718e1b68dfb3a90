//! A process that follows the script.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use weft::base::error::{Class, Error, Result};
use weft::engine::request::Outcome;
use weft::objects::collective::allgather_bytes;
use weft::objects::communicator::Communicator;
use weft::objects::management::Bridge;
use weft::objects::world;
use weft::sim::{Rank, join_all, skewed};
use weft::system::bootstrap::{Command, Spawn};

use super::model::Model;
use super::plan::{Message, Plan, Process, Step};

pub struct Follower {
    rank: Rank,
    seed: u64,
    /// This process in the script.
    me: Process,
    model: Rc<RefCell<Model>>,
    /// Whether conversations with processes of other jobs end: only on a lane with order.
    forgets: bool,
    comms: RefCell<Vec<Option<Arc<Communicator>>>>,
}

/// What a rank of a job does: the program of a spawned one is the number of its job in the script.
pub async fn program(rank: Rank, seed: u64, forgets: bool, model: Rc<RefCell<Model>>) {
    let plan = model.borrow().plan.clone();
    let job = match rank.program() {
        "" => plan.job_of(rank.node().index()),
        program => program.parse().expect("the number of a job"),
    };
    let name = rank.instance().job().name();
    let me = plan.jobs[job].first + name.rank as usize;
    let follower = Follower {
        seed,
        me,
        forgets,
        comms: RefCell::new(vec![None; plan.comms.len()]),
        model: model.clone(),
        rank: rank.clone(),
    };
    model.borrow_mut().starts(me, &rank);
    let world = plan
        .comms
        .iter()
        .position(|comm| !comm.is_inter() && comm.sides[0].iter().copied().eq(plan.jobs[job].processes()));
    follower.comms.borrow_mut()[world.expect("each job has one")] = Some(rank.world().clone());
    let mut rng = Rng::with_seed(seed ^ (me as u64 + 1) << 40);
    for (number, step) in plan.steps.iter().enumerate() {
        if !plan.takes_part(step, me) {
            continue;
        }
        if rng.u32(..3) == 0 {
            rank.pause(skewed(&mut rng, 17)).await;
        }
        model.borrow_mut().enters(me, number);
        if let Err(error) = follower.take(&plan, number, step, &mut rng).await {
            assert!(
                plan.doomed.contains(&job) || plan.shaky.contains(&job),
                "process {me}, step {number}, {step:?}: {error}"
            );
            // Its error handler is the one that aborts.
            rank.abort(1).await;
        }
        model.borrow_mut().passes(me, number);
    }
    model.borrow_mut().ended[me] = true;
    rank.leave();
}

/// What a process sends in a step.
fn content(seed: u64, step: usize, number: usize, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed ^ (step as u64) << 48 ^ (number as u64) << 32);
    let mut content = vec![0; bytes];
    rng.fill(&mut content);
    content
}

/// An error of the operation where this is not so: what a collective operation gives is undefined while one of its processes dies.
fn holds(so: bool, otherwise: &'static str) -> Result<()> {
    match so {
        true => Ok(()),
        false => Err(Error::new(Class::Intern, otherwise)),
    }
}

fn err_of_none(service: &str) -> Error {
    Error::new(Class::Name, format!("nobody publishes '{service}'"))
}

fn into_result(mut outcome: Outcome) -> Result<Outcome> {
    match outcome.error.take() {
        Some(error) => Err(*error),
        None => Ok(outcome),
    }
}

impl Follower {
    async fn take(&self, plan: &Plan, number: usize, step: &Step, rng: &mut Rng) -> Result<()> {
        let rank = &self.rank;
        match step {
            Step::Spawn { comm, root, job, new } => {
                let made = match plan.job_of(self.me) == *job {
                    true => {
                        let parent = rank.each_turn(world::parent(rank.world())).await?;
                        parent.expect("it was spawned")
                    }
                    false => self.spawn(plan, *comm, *root, *job).await?,
                };
                self.has(plan, *new, made)?;
            }
            Step::Meet { comms, roots, new } => {
                let made = self.meet(plan, number, comms, roots).await?;
                self.has(plan, *new, made)?;
            }
            Step::Dup { comm, new } => {
                let made = self.comm(*comm).duplicate(true).await?;
                self.has(plan, *new, made)?;
            }
            Step::Split { comm, colors, new } => {
                let own = colors.iter().find(|(process, _)| *process == self.me);
                let &(_, color) = own.expect("a member");
                // MPI_UNDEFINED
                let asked = if color < 0 { -32766 } else { color };
                let made = self.comm(*comm).split(asked, 0).await?;
                let expected = usize::try_from(color).ok().and_then(|color| new[color]);
                holds(
                    made.is_some() == expected.is_some(),
                    "there is a communicator too many or too few",
                )?;
                if let (Some(made), Some(expected)) = (made, expected) {
                    self.has(plan, expected, made)?;
                }
            }
            Step::Merge { comm, low, new } => {
                let (side, _) = plan.comms[*comm].place(self.me).expect("a member");
                let made = self.comm(*comm).merge(side != *low).await?;
                self.has(plan, *new, made)?;
            }
            Step::Bridge {
                comms,
                leaders,
                over,
                new,
            } => {
                let (side, _) = plan.comms[*new].place(self.me).expect("a member");
                let local = comms[side];
                let leader = plan.comms[local].place(leaders[side]).expect("a member").1;
                let bridge = (leaders[side] == self.me).then(|| {
                    let remote = plan.comms[*over].place(leaders[1 - side]).expect("a member").1;
                    Bridge::over(&self.comm(*over), remote as i32, number as i32)
                });
                let made = self.comm(local).connect(leader as u32, bridge).await?;
                self.has(plan, *new, made)?;
            }
            Step::Talk {
                comm,
                messages,
                gathers,
            } => self.talk(plan, number, *comm, messages, *gathers).await?,
            Step::Disconnect { comm, strangers } => {
                let leaving = self.comms.borrow_mut()[*comm].take().expect("it is there");
                let context = leaving.context();
                let disconnecting = Communicator::disconnect_all(rank.instance(), vec![leaving]);
                rank.each_turn(disconnecting).await?;
                rank.instance().disconnect_by(context);
                self.model.borrow_mut().has_left(*comm);
                if self.forgets && rng.bool() {
                    self.forget(strangers).await;
                }
            }
            Step::Free { comm } => drop(self.comms.borrow_mut()[*comm].take()),
            Step::Finalize { .. } => self.finalize(rng).await?,
            Step::Wait { ended, .. } => {
                let model = self.model.clone();
                rank.until(|| model.borrow().have_ended(ended)).await;
            }
            Step::Abort { process, .. } => {
                if *process == self.me {
                    let model = self.model.clone();
                    rank.until(|| model.borrow().may_end(number)).await;
                    rank.abort(7).await;
                }
                std::future::pending::<()>().await;
            }
            Step::Fall { process, aborts, .. } => {
                if *process == self.me {
                    let model = self.model.clone();
                    rank.until(|| model.borrow().may_end(number)).await;
                    self.model.borrow_mut().dies(self.me);
                    match aborts {
                        true => rank.abort(7).await,
                        false => rank.bring_down().await,
                    }
                }
                std::future::pending::<()>().await;
            }
            Step::Die {
                process,
                job,
                witnesses,
            } => {
                if *process == self.me {
                    let model = self.model.clone();
                    rank.until(|| model.borrow().may_die(number, *job, rank.network()))
                        .await;
                    self.model.borrow_mut().dies(self.me);
                    rank.bring_down().await;
                }
                if plan.job_of(self.me) == *job {
                    std::future::pending::<()>().await;
                }
                for (_, comm, from) in witnesses.iter().filter(|(witness, ..)| *witness == self.me) {
                    self.sees_the_end(plan, *comm, *from).await;
                }
            }
        }
        Ok(())
    }

    fn comm(&self, number: usize) -> Arc<Communicator> {
        self.comms.borrow()[number].clone().expect("it is there")
    }

    /// A communicator was made: it has the processes that it should.
    fn has(&self, plan: &Plan, number: usize, made: Arc<Communicator>) -> Result<()> {
        let comm = &plan.comms[number];
        let (side, rank) = comm.place(self.me).expect("a member");
        let mut is_right = (made.is_inter(), made.rank() as usize) == (comm.is_inter(), rank);
        let directory = self.rank.instance().directory();
        let model = &mut *self.model.borrow_mut();
        for (group, members) in [
            (made.group(), &comm.sides[side]),
            (made.peers(), comm.peers(self.me).to_vec().as_ref()),
        ] {
            let names = group.iter().map(|process| Some(directory.name(process)));
            is_right &= names.eq(members.iter().map(|&member| model.names[member]));
        }
        holds(is_right, "the communicator has other processes than it should")?;
        made.connects();
        model.has_made(number);
        self.comms.borrow_mut()[number] = Some(made);
        Ok(())
    }

    async fn spawn(&self, plan: &Plan, comm: usize, root: usize, job: usize) -> Result<Arc<Communicator>> {
        let comm = self.comm(comm);
        let asked = (comm.rank() as usize == root).then(|| {
            let command = Command {
                program: job.to_string().into(),
                count: plan.jobs[job].size as u32,
                ..Command::default()
            };
            let spawn = Spawn {
                commands: vec![command],
                ..Spawn::default()
            };
            Ok((spawn, None))
        });
        let children = self.rank.each_turn(comm.spawn(root as u32, asked)).await?;
        Ok(children.communicator.expect("the launcher can"))
    }

    async fn meet(
        &self,
        plan: &Plan,
        step: usize,
        comms: &[usize; 2],
        roots: &[usize; 2],
    ) -> Result<Arc<Communicator>> {
        let side = (0..2).find(|&side| plan.comms[comms[side]].place(self.me).is_some());
        let side = side.expect("a member of one");
        let (comm, root) = (self.comm(comms[side]), roots[side] as u32);
        let (instance, is_root) = (self.rank.instance(), comm.rank() == root);
        let service = format!("meeting {step}");
        let other = plan.job_of(plan.comms[comms[1 - side]].sides[0][roots[1 - side]]);
        let in_vain = || self.model.borrow().is_gone(other, self.rank.network());
        if side == 0 {
            let mut port = None;
            if is_root {
                let name = instance.open_port()?;
                instance.bootstrap().publish_name(&service, &name)?;
                port = Some(name);
            }
            let asked = port.clone().map(|name| Ok((name, None)));
            let mut accepting = Box::pin(comm.accept(root, asked));
            let accepting = poll_fn(|context| {
                // Otherwise it would wait for ever.
                if let Some(name) = port.as_ref().filter(|_| in_vain()) {
                    instance.close_port(name);
                }
                accepting.as_mut().poll(context)
            });
            let made = self.rank.each_turn(accepting).await?;
            if let Some(name) = port {
                instance.bootstrap().unpublish_name(&service)?;
                instance.close_port(&name);
            }
            return Ok(made);
        }
        let mut port = None;
        if is_root {
            self.rank
                .until(|| {
                    let found = instance.bootstrap().lookup_name(&service);
                    port = found.expect("it keeps names");
                    port.is_some() || in_vain()
                })
                .await;
        }
        let none = || err_of_none(&service);
        let asked = is_root.then(|| Ok((port.ok_or_else(none)?, None)));
        self.rank.each_turn(comm.connect_to(root, asked)).await
    }

    async fn talk(
        &self,
        plan: &Plan,
        step: usize,
        number: usize,
        messages: &[Message],
        gathers: bool,
    ) -> Result<()> {
        let (comm, planned) = (self.comm(number), &plan.comms[number]);
        let mut all: Vec<Pin<Box<dyn Future<Output = Result<()>> + '_>>> = Vec::new();
        let rank_of = |process: Process| {
            let place = planned.peers(self.me).iter().position(|&peer| peer == process);
            place.expect("a peer") as u32
        };
        for (tag, message) in messages.iter().enumerate() {
            if message.from == self.me {
                let (comm, to) = (comm.clone(), rank_of(message.to));
                all.push(Box::pin(async move {
                    let buffer = self.rank.buffer(&content(self.seed, step, tag, message.bytes));
                    // SAFETY: the buffer is kept until the send has ended.
                    let sent = unsafe { comm.send(to, tag as i32, buffer.memory(), message.sync, true) }?;
                    if let Some(request) = sent {
                        into_result(self.rank.wait(request).await)?;
                    }
                    Ok(())
                }));
            }
            if message.to == self.me {
                let (comm, from) = (comm.clone(), rank_of(message.from));
                all.push(Box::pin(async move {
                    let buffer = self.rank.blank(message.bytes);
                    // SAFETY: the buffer is kept until the receive has ended.
                    let received = unsafe { comm.receive(Some(from), Some(tag as i32), buffer.memory()) }?;
                    let outcome = into_result(self.rank.received(received).await)?;
                    assert_eq!(outcome.bytes as usize, message.bytes);
                    assert!(buffer.bytes() == content(self.seed, step, tag, message.bytes));
                    Ok(())
                }));
            }
        }
        if gathers {
            let comm = comm.clone();
            all.push(Box::pin(async move {
                let own = |process: Process| [process as u8, step as u8];
                let gathered = allgather_bytes(&comm.collective(), &own(self.me)).await?;
                let expected: Vec<u8> = planned.members().flat_map(own).collect();
                holds(gathered == expected, "the gathered values are wrong")
            }));
        }
        join_all(all).await.into_iter().collect()
    }

    /// Waits until nothing is kept of those with which this process is not connected any more.
    async fn forget(&self, strangers: &[(Process, Process)]) {
        let instance = self.rank.instance();
        let others: Vec<_> = (strangers.iter())
            .filter(|(one, _)| *one == self.me)
            .map(|(_, other)| {
                let name = self.model.borrow().names[*other];
                instance
                    .directory()
                    .place(name.expect("it was here"))
                    .expect("known")
            })
            .collect();
        self.rank
            .until(|| {
                let kept = instance.engine().kept_of_other_jobs();
                others.iter().all(|other| !kept.contains(other))
            })
            .await;
    }

    /// A receive from a process that dies, or has died, is an error.
    async fn sees_the_end(&self, plan: &Plan, comm: usize, from: Process) {
        let peers = plan.comms[comm].peers(self.me);
        let source = peers.iter().position(|&peer| peer == from).expect("a peer") as u32;
        let buffer = self.rank.blank(8);
        // SAFETY: the buffer is kept until the receive has ended.
        let received = unsafe { self.comm(comm).receive(Some(source), Some(9999), buffer.memory()) };
        let error = match received {
            Err(error) => error,
            Ok(received) => {
                let ended = into_result(self.rank.received(received).await);
                ended.expect_err("nothing was sent")
            }
        };
        assert_eq!(error.class, Class::ProcAborted, "{error}");
    }

    async fn finalize(&self, rng: &mut Rng) -> Result<()> {
        self.comms.borrow_mut().fill(None);
        let (rank, instance) = (&self.rank, self.rank.instance());
        let check = None::<fn(Vec<String>)>;
        let ending = Communicator::finalize_world(instance, || false, || false, check, None);
        rank.each_turn(ending).await?;
        self.model.borrow().finalized(self.me);
        instance.take_leave()?;
        if self.forgets && rng.bool() {
            rank.until(|| instance.engine().kept_of_other_jobs().is_empty())
                .await;
            assert!(instance.engine().has_said_all());
        }
        Ok(())
    }
}
