//! Links between jobs whose processes meet only through a third one. Each pair of connected jobs keeps a socket, by which their launchers learn
//! of each other's end (`system::bootstrap::links`). Two jobs whose processes have met at a port use that channel; all other pairs in an
//! intercommunicator make theirs here, between the first process of each: one opens a port, whose name it tells the other in a message.
//!
//! To be awaited by [`Instance::block_on_turns`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dynamic::{OpenPort, accepted, connected};
use super::exchange_texts;
use crate::base::error::Result;
use crate::identity::JobId;
use crate::instance::Instance;
use crate::objects::communicator::{Collective, Communicator};
use crate::objects::group::Group;
use crate::system::port::Courier;

/// How long a process waits for the other one at the port. Both are in the same call, and messages reach them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Links the jobs of both groups of a new intercommunicator. `before`: the jobs with which this process was connected before; those have a
/// link. `linked`: the jobs of the two roots, where these have one already.
///
/// Where a socket can't be made, or one of the two processes dies, these jobs have no link, and learn of each other's end by their lanes. The
/// other pairs make theirs all the same.
pub(super) async fn link_jobs(new: &Arc<Communicator>, before: &[JobId], linked: Option<(JobId, JobId)>) {
    let instance = new.instance();
    let me = instance.job().name().job;
    if first_of_jobs(instance, new.group()).get(&me) != Some(&new.rank()) {
        return;
    }
    // In ascending order on both sides: so there is always a pair that both its processes have come to.
    for (job, other) in first_of_jobs(instance, new.peers()) {
        if job != me && linked != Some((me, job)) {
            let operation = new.operation(new.context().bridge(), 0);
            let _ = link(&operation, other, job, before.contains(&job)).await;
        }
    }
}

/// The first process of each job in a group, by its rank there.
fn first_of_jobs(instance: &Instance, group: &Group) -> BTreeMap<JobId, u32> {
    let mut first = BTreeMap::new();
    for (rank, process) in (0..).zip(group.iter()) {
        first.entry(instance.job_of(process)).or_insert(rank);
    }
    first
}

/// Makes a link to the job of a process, unless both sides have one.
async fn link(operation: &Collective, to: u32, job: JobId, has_one: bool) -> Result<()> {
    let instance = operation.communicator().instance().clone();
    let theirs = exchange_texts(operation, to, vec![has_one.into()]).await?;
    if has_one && theirs == [1] {
        return Ok(());
    }
    let until = Some(Instant::now() + PATIENCE);
    let channel: Result<Box<dyn Courier>> = match instance.job().name().job < job {
        true => {
            let port = OpenPort::new(&instance);
            let name = port.as_ref().map_or("", |port| &port.name);
            exchange_texts(operation, to, name.into()).await?;
            match port {
                Ok(port) => accepted(&instance, &port.name, until, || None).await,
                Err(error) => Err(error),
            }
        }
        false => {
            let name = exchange_texts(operation, to, Vec::new()).await?;
            connected(&instance, &String::from_utf8_lossy(&name), until).await
        }
    };
    if let Some(socket) = channel.ok().and_then(Courier::into_link) {
        instance.bootstrap().link(job, socket)?;
    }
    Ok(())
}
